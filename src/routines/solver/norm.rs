//! The routine for norms. It moves and writes nothing of the matrix, in any storage.
//!

use super::job::Solver;
use super::options::{Norm, Options};
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::{A, Kind, slot};
use crate::algorithms::norm::{squares, sums};
use crate::comm::Step;
use crate::device::{Squares, Worker};
use crate::scalar::Scalar;

pub static ROUTINES: [SolverRoutine; 1] = [SolverRoutine::new(
    Family::Norm,
    "lange",
    "a norm of A: 1, infinity or Frobenius'",
    &[A],
    &[slot("value", Kind::Norm)],
    &["norm"],
    &[Stage::AnyNorm],
)];

pub fn norm<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let (a, leading) = (job.a(worker), job.leading());
    worker.keep_subnormals(true);
    if job.options.norm == Norm::Frobenius {
        let Squares { small, medium, large } = squares(worker, &a, leading)?;
        let [small, medium, large] = worker.all_reduce([small, medium, large], |x, y| x + y)?;
        job.found().moduli.column = Squares { small, medium, large }.root();
        return Ok(());
    }
    if let Some(own) = job.sums_of(worker.worker()) {
        sums(worker, &a, leading, job.options.sums_columns(), own);
    }
    job.find_largest(worker, 0.0).map(drop)
}

impl Options {
    /// Whether the norm is the largest sum of a column of the solver's matrix, not of a row. By rows
    /// that matrix is the transpose.
    pub(super) fn sums_columns(&self) -> bool {
        (self.norm == Norm::One) != self.storage.is_transpose()
    }
}
