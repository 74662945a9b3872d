//! What a device offers to the distributed algorithms: tile kernels, copies, and the signals by
//! which the lanes of one call tell each other what is ready.
//!
//! A *lane* is one thread of control of a call. Tile column t belongs to lane t mod L. On the host
//! there are as many lanes as cores, whatever the number of ranks, because every lane can reach every
//! shard; on a GPU a lane is a rank. The algorithms in `dist` only see this trait.

pub mod host;

use std::ops::Range;

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

/// What a lane can announce; each announcement carries a count that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Factored panels.
    Panels,
    /// Tile rows whose partial sums from this lane are final (forward substitution).
    PartialSums(usize),
    /// Tile rows solved by back substitution, counted from the last.
    Solved,
}

/// The call has been given up by some lane; unwind without touching the data further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

pub type Step<V = ()> = Result<V, Stopped>;

pub trait Backend<T: Scalar> {
    /// Index of this lane.
    fn lane(&self) -> usize;
    /// Number of lanes of the call.
    fn lanes(&self) -> usize;

    fn owns(&self, tile: usize) -> bool {
        tile % self.lanes() == self.lane()
    }

    // Tile kernels.

    /// `A = L L^H` in the lower triangle of `a`, the other one is neither read nor kept.
    /// `Err(i)`: the leading minor of order `i + 1` is not positive definite.
    fn potrf(&mut self, a: Block<T>) -> Result<(), usize>;
    /// `X <- X L^-H`, L lower triangular.
    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>);
    /// For each tile column j of `targets`: `A_ij <- A_ij - L_ik L_jk^H` for all i >= j, with the
    /// finished panel k.
    fn update(&mut self, a: &Matrix<T>, k: usize, targets: impl Iterator<Item = usize> + Clone);
    /// `X <- op(L)^-1 X`, L lower triangular.
    fn trsm(&mut self, l: Block<T>, op: Op, x: Block<T>);
    /// `C <- C + alpha op(A) B`.
    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>);

    /// `C <- C + S`.
    fn add(&mut self, c: Block<T>, s: Block<T>);

    /// The largest |Re| + |Im|; entries that are no number are passed over.
    fn largest(&mut self, x: Block<T>) -> f64;
    /// Whether this lane's arithmetic keeps subnormal numbers from now on or flushes them to zero.
    fn keep_subnormals(&mut self, keep: bool);

    // Movement.

    fn copy(&mut self, from: Block<T>, to: Block<T>);
    /// `to <- from^H`; only the strictly lower part of `to` and its diagonal if `diagonal`.
    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool);
    fn fill(&mut self, to: Block<T>, value: T);
    fn conjugate(&mut self, x: Block<T>);
    /// Does `units` of `phase` of an in-place transposition of the shard at `shard`, with scratch of this
    /// lane's `own` and what the lanes have as `shared` scratch for this shard.
    fn transpose(
        &mut self,
        plan: &transpose::Plan,
        phase: usize,
        units: Range<usize>,
        shard: *mut T,
        own: Block<T>,
        shared: *mut T,
    );

    // Between lanes.

    fn announce(&mut self, signal: Signal, count: usize);
    fn wait(&mut self, signal: Signal, count: usize) -> Step;
    /// Waits for all lanes of the call.
    fn barrier(&mut self) -> Step;
    /// Gives the call up with LAPACK's `info` and stops every lane.
    fn give_up(&mut self, info: usize) -> Stopped;
    /// Panel `done` of `total` is factored; for progress lines.
    fn progress(&mut self, done: usize, total: usize);
}
