//! The routine for triangular matrices. It factors nothing, and moves and writes nothing of the
//! matrix, in any storage.
//!
//! info = i > 0 reports that T_ii is zero; solutions are then NaN (as in LAPACK).

use super::job::Solver;
use super::magnitude::near_underflow;
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::{B, INFO, Kind, X, slot};
use crate::comm::Step;
use crate::device::{Triangle, Worker};
use crate::scalar::Scalar;

pub static ROUTINES: [SolverRoutine; 1] = [SolverRoutine::new(
    Family::Triangular,
    "trtrs",
    "solve op(T) X = B, T triangular",
    &[slot("t", Kind::Matrix), B],
    &[X.starts_as(1), INFO],
    &["rhs", "trans", "lower", "unit_diagonal"],
    &[Stage::TriangularSolve],
)];

pub fn solve<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let (lower, unit) = (job.options.lower, job.options.unit_diagonal);
    if !unit {
        job.check_diagonal(worker)?;
        if job.info() != 0 {
            return Ok(());
        }
    }
    // By rows the solver's matrix is the transpose.
    let triangle = match (lower != job.options.storage.is_transpose(), unit) {
        (true, false) => Triangle::Lower,
        (true, true) => Triangle::UnitLower,
        (false, false) => Triangle::Upper,
        (false, true) => Triangle::UnitUpper,
    };
    let scale = if unit { 1.0 } else { job.largest_on_diagonal(worker)? };
    worker.keep_subnormals(near_underflow::<T>(scale));
    job.solve(worker, &[(triangle, job.options.op_on_b(job.options.op))], None, scale)
}
