//! What a device offers to the distributed algorithms: tile kernels, copies, and the signals by
//! which the workers of one call tell each other what is ready.
//!
//! A *worker* is one thread of control of a call. Tile column t belongs to worker t mod L. On CPU devices
//! there are as many workers as cores, whatever the number of ranks, because every worker can reach every
//! shard; on a GPU a worker is a rank. The algorithms in `algorithms` only see this trait.

pub mod cpu;
pub mod cuda;
pub mod memory;
pub mod squares;

pub use squares::Squares;

use std::ops::Range;
use std::time::Instant;

use crate::comm::{Group, Signal, Step, Stopped};
use crate::error::{Error, Kind};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;
use crate::transpose;

/// What is applied to a stored triangle or panel L before use.
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

/// A triangle of a block; the other one is neither read nor written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    Lower,
    /// With ones on the diagonal, which is not read.
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

/// What a finished panel k subtracts from other tile columns j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// `A_ij -= L_ik L_jk^H` for i >= j.
    Cholesky,
    /// `A_ij -= A_ik A_kj` for i > k.
    Lu,
    /// The same for i < k; targets may lie on either side of k.
    Above,
}

/// What a vendor's solver does with a matrix as a whole.
#[derive(Clone, Copy, Debug)]
pub enum WholeStep<T> {
    /// `A = L L^H` in the lower triangle.
    Potrf,
    /// The lower triangle of A^-1 in the place of L.
    Potri,
    /// `P A = L U`; the numbers of interchanged rows.
    Getrf(Block<i32>),
    /// `A X = B` from L, or with those numbers from L and U; `conjugated`: with conj(A). A worker brings
    /// the right-hand sides that it has.
    Solve { x: Option<Block<T>>, pivots: Option<Block<i32>>, conjugated: bool },
}

/// Moduli of the entries of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moduli {
    /// The largest sum over a column; NaN if an entry is.
    pub column: f64,
    /// The largest |Re| + |Im|, NaN passed over.
    pub entry: f64,
}

impl Moduli {
    /// Of two blocks side by side.
    pub fn and(self, other: Moduli) -> Moduli {
        let entry = self.entry.max(other.entry);
        Moduli { column: larger(self.column, other.column), entry }
    }
}

/// The larger one; NaN if one is.
pub fn larger(x: f64, y: f64) -> f64 {
    if y > x || y.is_nan() { y } else { x }
}

/// Numbers of the rows 0, 1, .. after all interchanges, in their new order.
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
    /// Whether a worker is a rank: the shard of that number is its own memory, that of others is far.
    const IS_RANK: bool;
    /// Whether arithmetic is slow where it keeps subnormal numbers, so that it does so only where they
    /// matter.
    const FLUSHES: bool;

    /// Index of this worker.
    fn worker(&self) -> usize;
    /// Number of workers of the call.
    fn workers(&self) -> usize;

    fn owns(&self, tile: usize) -> bool {
        tile % self.workers() == self.worker()
    }

    // Tile kernels.

    /// `A = L L^H` in the lower triangle of `a`, the other one is neither read nor kept. `before` rows of
    /// the matrix come before it: if its leading minor of order i is not positive definite, or its pivot not
    /// finite, that is reported as `before + i`, at once or when the worker has done all its work.
    fn potrf(&mut self, a: Block<T>, before: usize) -> Step;
    /// `X <- X L^-H`, L lower triangular.
    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>);
    /// `X <- X A^-1` with a triangle of A.
    fn trsm_right(&mut self, a: Block<T>, triangle: Triangle, x: Block<T>);
    /// The inverse of a triangle of a tile in its place, by rows of `A^-1 A = I`.
    fn trtri(&mut self, a: Block<T>, triangle: Triangle);
    /// `X <- alpha A X` with a triangle of A, X no larger than the widest tile.
    fn trmm(&mut self, a: Block<T>, triangle: Triangle, alpha: T, x: Block<T>);
    /// This worker's part of `P A = L U` of a panel with at least as many rows as columns, the pivot being
    /// the first of the largest |Re| + |Im|. The panel's rows count from `first`; row `first + i` was
    /// interchanged with row `pivots[i]`. A pivot i, counted from 1, that is zero or not finite is reported as
    /// `first + i`; the factorisation goes on all the same. Afterwards the members have met.
    fn getrf(
        &mut self,
        panel: Block<T>,
        first: usize,
        pivots: Block<i32>,
        group: &mut Group,
    ) -> Step;
    /// Interchanges rows `first + i` and `pivots[i]` of X for all i, ascending, or descending if
    /// `back`.
    fn swap_rows(&mut self, x: Block<T>, first: usize, pivots: Block<i32>, back: bool);
    /// Numbers of the rows 0, 1, .. after all interchanges, in their new order.
    fn interchanged(&mut self, pivots: Block<i32>) -> Step<Vec<usize>>;
    /// Subtracts from each tile column of `targets`, ascending, what the finished panel k says.
    fn update(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
    );
    /// The same in some rows of the targets.
    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        rows: Range<usize>,
    );
    /// `X <- op(A)^-1 X` with a triangle of A.
    fn trsm(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>);
    /// `C <- C + alpha op(A) B`.
    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>);

    /// `C <- C + S`.
    fn add(&mut self, c: Block<T>, s: Block<T>);

    /// The largest |Re| + |Im|; entries that are no number are passed over.
    fn largest(&mut self, x: Block<T>) -> Step<f64>;
    /// Sums of moduli of X, whose columns are contiguous; row sums are added to `rows`.
    fn moduli(&mut self, x: Block<T>, rows: Option<Block<f64>>) -> Step<Moduli>;
    /// Adds to `sums` those of moduli over the rows of X, whose columns or rows are contiguous.
    fn add_moduli(&mut self, x: Block<T>, sums: Block<f64>);
    /// Squares of the moduli of X, whose columns or rows are contiguous.
    fn squares(&mut self, x: Block<T>) -> Step<Squares>;
    /// Adds to the column sums of a Hermitian matrix, from the first column of X on, what its lower
    /// triangle says: columns of X begin with an entry on the diagonal each, X's upper triangle is not
    /// read.
    fn hermitian_moduli(&mut self, x: Block<T>, sums: Block<f64>);
    /// Whether this worker's arithmetic keeps subnormal numbers from now on or flushes them to zero, where
    /// it can do both.
    fn keep_subnormals(&mut self, keep: bool);
    /// What is given `ahead` next comes after all that has been given so far, and beside what is given until then.
    fn fork(&mut self) {}
    /// What follows is awaited by other workers (or, with `false`, no longer): a panel and what leads to it.
    /// A device does it beside the work that it has been given since the last fork.
    fn ahead(&mut self, _: bool) {}
    /// The factored panel k may be brought to all workers at once, before they update anything by it: all of them
    /// come here with the same panels, in the same order.
    fn broadcast(&mut self, _a: &Matrix<T>, _k: usize) {}

    /// A step that a vendor's solver of whole matrices does, where the call has one; all workers come, and
    /// have met afterwards.
    fn whole(&mut self, _: &Matrix<T>, _: WholeStep<T>) -> Step {
        Err(self.fail(no_engine()))
    }

    // Movement.

    fn copy(&mut self, from: Block<T>, to: Block<T>);
    /// In each list of columns, wherever they lie, every one takes the next one's content. The last one
    /// stays or, if there is a `spare` column to hold something, takes what was the first one's. No column
    /// is in two lists.
    fn shift_columns(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Block<T>>>,
        spare: Option<Block<T>>,
    ) {
        for mut list in lists {
            let Some(first) = list.next() else { continue };
            if let Some(spare) = spare {
                self.copy(first, spare);
            }
            let mut last = first;
            for next in list {
                self.copy(next, last);
                last = next;
            }
            if let Some(spare) = spare {
                self.copy(spare, last);
            }
        }
    }
    /// `to <- from^T`, or from^H if `conjugated`. Of a tile on the `diagonal` only the lower part is
    /// made, and the diagonal is real if `conjugated`.
    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool, conjugated: bool);
    fn fill(&mut self, to: Block<T>, value: T);
    /// Zeros outside the triangle.
    fn clear_outside(&mut self, a: Block<T>, triangle: Triangle);
    fn conjugate(&mut self, x: Block<T>);
    /// Reads a block, row by row.
    fn get(&mut self, from: Block<T>, to: &mut [T]) -> Step;
    /// Writes a block, row by row.
    fn put(&mut self, from: &[T], to: Block<T>);
    /// This worker's part of transposing every shard in its own memory as `plan` says; `own` is its scratch,
    /// `shared` that of all workers. Afterwards all workers have met.
    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[*mut T],
        own: Block<T>,
        shared: *mut T,
    ) -> Step;
    /// This worker's part of transposing `a` as a whole, whose distribution is by blocks, across the
    /// shards: tiles (I, J) and (J, I) change places, wherever they lie, so that each is read and written
    /// once. Afterwards all workers have met.
    fn transpose_square(&mut self, a: &Matrix<T>) -> Step;

    // Between workers.

    fn announce(&mut self, signal: Signal, count: usize);
    fn wait(&mut self, signal: Signal, count: usize) -> Step;
    /// How many workers of the call can factor a panel of so many rows together; 1 where they do not reach
    /// each other's memory.
    fn sharers(&self, rows: usize) -> usize;
    /// What a barrier of a group costs, in multiplications that a worker does meanwhile.
    fn group_barrier_cost(&self) -> f64;
    /// Waits for all members of a group that this worker is in.
    fn group_barrier(&mut self, group: &mut Group) -> Step;
    /// Waits for all workers of the call.
    fn barrier(&mut self) -> Step;
    /// Gives the call up because the machine failed, and stops every worker.
    fn fail(&mut self, error: Error) -> Stopped;
    /// Notes LAPACK's `info`, of which the smallest counts, and goes on.
    fn report(&mut self, info: usize);
    /// A phase of the call is over for this worker; for traces.
    fn ends_phase(&mut self, _: &'static str, _from: Instant, _to: Instant) {}
    /// Panel `done` of `total` is factored; for progress lines.
    fn progress(&mut self, done: usize, total: usize);
}
