//! The operations of a device for the distributed algorithms: tile kernels, copies, and the signals
//! by which the workers of a call announce finished data.
//!
//! A *worker* is one thread of control of a call. Worker t mod L owns tile column t, for L workers.
//! CPU devices have as many workers as cores, whatever the number of ranks, because every worker
//! can reach every shard. On a GPU a worker is a rank. The algorithms in `algorithms` see only this
//! trait.

pub mod cpu;
pub mod cuda;
pub mod memory;
pub mod squares;

pub use squares::Squares;

use std::ops::Range;
use std::time::Instant;

use crate::comm::{Group, Phase, Signal, Step, Stopped};
use crate::error::{Error, Kind};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;
use crate::transpose;

/// The operation on a stored triangle or panel L before its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    None,
    Conjugate,
    Transpose,
    Adjoint,
}

impl Op {
    pub fn conjugates(self) -> bool {
        matches!(self, Op::Conjugate | Op::Adjoint)
    }

    pub fn transposes(self) -> bool {
        matches!(self, Op::Transpose | Op::Adjoint)
    }
}

/// A triangle of a block. The other one is neither read nor written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    Lower,
    /// The diagonal is ones, and is not read.
    UnitLower,
    Upper,
    UnitUpper,
}

impl Triangle {
    pub fn is_lower(self) -> bool {
        matches!(self, Triangle::Lower | Triangle::UnitLower)
    }

    pub fn has_ones(self) -> bool {
        matches!(self, Triangle::UnitLower | Triangle::UnitUpper)
    }
}

/// The update that a finished panel k makes to other tile columns j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// `A_ij -= L_ik L_jk^H` for i >= j.
    Cholesky,
    /// `A_ij -= A_ik A_kj` for i > k.
    Lu,
    /// The same for i < k. Targets may be on either side of k.
    Above,
}

/// A step of a vendor's solver on the whole matrix.
#[derive(Clone, Copy, Debug)]
pub enum WholeStep<'a, T> {
    /// `A = L L^H` in the lower triangle.
    Potrf,
    /// The lower triangle of A^-1 in the place of L.
    Potri,
    /// `P A = L U`, and the numbers of interchanged rows.
    Getrf(Cells<'a, i32>),
    /// `A X = B` from L, or from L and U with those numbers; with conj(A) if `conjugated`. A worker
    /// passes the right-hand sides that it holds.
    Solve { x: Option<Cells<'a, T>>, pivots: Option<Cells<'a, i32>>, conjugated: bool },
}

/// Moduli of the entries of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moduli {
    /// The largest column sum; NaN if an entry is NaN.
    pub column: f64,
    /// The largest |Re| + |Im|, without NaN entries.
    pub entry: f64,
}

impl Moduli {
    /// The moduli of both blocks together.
    pub fn and(self, other: Moduli) -> Moduli {
        let entry = self.entry.max(other.entry);
        Moduli { column: larger(self.column, other.column), entry }
    }
}

/// The larger of both; NaN if one is NaN.
pub fn larger(x: f64, y: f64) -> f64 {
    if y > x || y.is_nan() { y } else { x }
}

/// The row numbers 0, 1, .. in their order after all interchanges.
fn in_new_order(pivots: &[i32]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..pivots.len()).collect();
    pivots.iter().enumerate().for_each(|(i, &p)| rows.swap(i, p as usize));
    rows
}

fn no_engine() -> Error {
    let text = "meshsolve: expected a call with an engine; this is a defect of meshsolve";
    Error::new(Kind::Internal, text)
}

pub trait Backend<T: Scalar> {
    /// Whether a worker is a rank: its own shard is local, all others are remote.
    const IS_RANK: bool;
    /// Whether arithmetic that keeps subnormal numbers is slow. Then it keeps them only where they
    /// matter.
    const FLUSHES: bool;

    /// The index of this worker.
    fn worker(&self) -> usize;
    /// Number of workers of the call.
    fn workers(&self) -> usize;

    fn owner(&self, tile: TileColumn) -> usize {
        tile.get() % self.workers()
    }
    fn owns(&self, tile: TileColumn) -> bool {
        self.owner(tile) == self.worker()
    }

    // Tile kernels.

    /// `A = L L^H` in the lower triangle of `a`; the other one is neither read nor kept. Row
    /// `first` of the matrix is the first of `a`. If the leading minor of order i is not positive
    /// definite, or its pivot not finite, it reports `first + i`. It does so at once, or when the
    /// worker has done all its work.
    fn potrf(&mut self, a: Cells<T>, first: GlobalRow) -> Step;
    /// `X <- X L^-H`, L lower triangular.
    fn trsm_panel(&mut self, l: Cells<T>, x: Cells<T>);
    /// `X <- X A^-1` with a triangle of A.
    fn trsm_right(&mut self, a: Cells<T>, triangle: Triangle, x: Cells<T>);
    /// Inverts a triangle of a tile in place, by rows of `A^-1 A = I`.
    fn trtri(&mut self, a: Cells<T>, triangle: Triangle);
    /// `X <- alpha A X` with a triangle of A. X is no larger than the widest tile.
    fn trmm(&mut self, a: Cells<T>, triangle: Triangle, alpha: T, x: Cells<T>);
    /// This worker's part of `P A = L U`, for a panel with at least as many rows as columns. The
    /// pivot is the first entry of the largest |Re| + |Im|. The panel's rows count from `first`.
    /// Row `first + i` was interchanged with row `pivots[i]`. Where pivot i, counted from 1, is
    /// zero or not finite, it reports `first + i` and continues. It ends with a barrier of the
    /// group.
    fn getrf(
        &mut self,
        panel: Cells<T>,
        first: GlobalRow,
        pivots: Cells<i32>,
        group: &mut Group,
    ) -> Step;
    /// Interchanges rows `first + i` and `pivots[i]` of X for all i: ascending, or descending if
    /// `back`.
    fn swap_rows(&mut self, x: Cells<T>, first: GlobalRow, pivots: Cells<i32>, back: bool);
    /// The row numbers 0, 1, .. in their order after all interchanges.
    fn interchanged(&mut self, pivots: Cells<i32>) -> Step<Vec<usize>>;
    /// Subtracts the `update` by panel k from each tile column of `targets`, ascending.
    fn update(
        &mut self,
        a: &Matrix<T>,
        k: TileColumn,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
    ) {
        self.update_rows(a, k, targets, update, a.all_rows());
    }
    /// The same in some rows of the targets.
    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: TileColumn,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        rows: Range<GlobalRow>,
    );
    /// `X <- op(A)^-1 X` with a triangle of A.
    fn trsm(&mut self, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>);
    /// `C <- C + alpha op(A) B`.
    fn gemm(&mut self, c: Cells<T>, alpha: T, a: Cells<T>, op: Op, b: Cells<T>);

    /// `C <- C + S`.
    fn add(&mut self, c: Cells<T>, s: Cells<T>);

    /// The largest |Re| + |Im|, without NaN entries.
    fn largest(&mut self, x: Cells<T>) -> Step<f64>;
    /// Sums of moduli of X, which has contiguous columns. Adds row sums to `rows`.
    fn moduli(&mut self, x: Cells<T>, rows: Option<Cells<f64>>) -> Step<Moduli>;
    /// Adds sums of moduli over the rows of X to `sums`. X has contiguous columns or rows.
    fn add_moduli(&mut self, x: Cells<T>, sums: Cells<f64>);
    /// Sums of squared moduli of X, which has contiguous columns or rows.
    fn squares(&mut self, x: Cells<T>) -> Step<Squares>;
    /// Adds X's contribution to the column sums of a Hermitian matrix. X holds columns of its lower
    /// triangle, each from the diagonal entry on. `sums` begins with X's first column. X's upper
    /// triangle is not read.
    fn hermitian_moduli(&mut self, x: Cells<T>, sums: Cells<f64>);
    /// Sets whether this worker's arithmetic keeps subnormal numbers or flushes them to zero, where
    /// it can do both.
    fn keep_subnormals(&mut self, keep: bool);
    /// The next work given `ahead` comes after all work before this call. It runs at the same time
    /// as work given between the two.
    fn fork(&mut self) {}
    /// Other workers wait for the work that follows: a panel and its predecessors. `false` ends
    /// this. A device does it at the same time as the work that it has got since the last fork.
    fn ahead(&mut self, _: bool) {}
    /// Lets the device send factored panel k to all workers at once, before they update by it. All
    /// workers call this with the same panels, in the same order.
    fn broadcast(&mut self, _a: &Matrix<T>, _k: TileColumn) {}

    /// A step of a vendor's solver of whole matrices, where the call has one. All workers call
    /// this, and it ends with a barrier.
    fn whole(&mut self, _: &Matrix<T>, _: WholeStep<T>) -> Step {
        Err(self.fail(no_engine()))
    }

    // Movement.

    fn copy(&mut self, from: Cells<T>, to: Cells<T>);
    /// In each list of columns, in any memory, every one takes the content of the next. The last
    /// one stays. With a `spare` column for temporary use, it takes that of the first. No column is
    /// in two lists.
    fn shift_columns<'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Cells<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    ) where
        T: 'c;
    /// `to <- from^T`, or from^H if `conjugated`. For a tile on the `diagonal` it makes only the
    /// lower part, with a real diagonal if `conjugated`.
    fn mirror(&mut self, from: Cells<T>, to: Cells<T>, diagonal: bool, conjugated: bool);
    fn fill(&mut self, to: Cells<T>, value: T);
    /// Writes zeros outside the triangle.
    fn clear_outside(&mut self, a: Cells<T>, triangle: Triangle);
    fn conjugate(&mut self, x: Cells<T>);
    /// Reads a block, row by row.
    fn get(&mut self, from: Cells<T>, to: &mut [T]) -> Step;
    /// Writes a block, row by row.
    fn put(&mut self, from: &[T], to: Cells<T>);
    /// This worker's part of `plan`, which transposes every shard in its own memory. `own` is the
    /// worker's scratch, `shared` that of all workers. It ends with a barrier.
    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[Cells<T>],
        own: Cells<T>,
        shared: Cells<T>,
    ) -> Step;
    /// This worker's part of transposing all of `a`, in the block distribution, across the shards.
    /// Tiles (I, J) and (J, I) change places on any ranks, so each is read and written once. It
    /// ends with a barrier.
    fn transpose_square(&mut self, a: &Matrix<T>) -> Step;

    // Between workers.

    /// Enters the next phase, whose counters begin at zero. All workers enter the same phases in
    /// the same order.
    fn phase(&mut self, signal: Signal) -> Phase;
    /// Raises this worker's counter of a phase: the work before it is done.
    fn announce(&mut self, phase: &Phase, count: usize);
    /// Waits until the counter of a worker has reached `count`.
    fn wait(&mut self, phase: &Phase, worker: usize, count: usize) -> Step;
    /// `size` workers from `leader` on. All workers of the call make the same groups.
    fn group(&mut self, leader: usize, size: usize) -> Group {
        let barriers = (size > 1).then(|| self.phase(Signal::Barriers));
        Group::new(leader, size, barriers)
    }
    /// Number of workers that can factor a panel of so many rows together. It is 1 where they do
    /// not reach each other's memory.
    fn sharers(&self, rows: usize) -> usize;
    /// The cost of a group's barrier, in multiplications that a worker does in the same time.
    fn group_barrier_cost(&self) -> f64;
    /// Waits for all workers of a group to which this worker belongs.
    fn group_barrier(&mut self, group: &mut Group) -> Step;
    /// Waits for all workers of the call.
    fn barrier(&mut self) -> Step;
    /// Ends the call because of a fault of the machine, and stops every worker.
    fn fail(&mut self, error: Error) -> Stopped;
    /// Records LAPACK's `info` and continues. The smallest one counts.
    fn report(&mut self, info: usize);
    /// Marks the end of a phase for this worker, for traces.
    fn ends_phase(&mut self, _: &'static str, _from: Instant, _to: Instant) {}
    /// Marks panel `done` of `total` as factored, for progress lines.
    fn progress(&mut self, done: usize, total: usize);
}
