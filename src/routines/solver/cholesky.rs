//! The Cholesky routines.
//!
//! `potrf` and `cholesky_from_scipy` make the factor `work`. It does not depend on the number of
//! devices, except for the order of its columns on several CUDA devices. As JAX's array it holds U
//! of A = U^H U in its upper triangle, sharded by rows. With storage "column-major" it holds L of A
//! = L L^H in its lower one. Names and `info` are LAPACK's. A pivot that is not finite counts as
//! one that is not positive; `work` and `anorm` are then NaN.

use super::job::Solver;
use super::magnitude::{inverse_near_underflow, near_underflow};
use super::options::Options;
use super::routine::Stage::{
    Arrange, CholeskyCondition, CholeskyDeterminant, CholeskyInverse, CholeskySolve,
    ConjugateFactor, HermitianNorm, Potrf, Restore,
};
use super::routine::{Family, SolverRoutine};
use super::slot::{A, ANORM, B, INFO, INVERSE, Kind, LOGDET, RCOND, WORK, X, slot};
use crate::algorithms::cholesky::{factor, inverse, sweeps};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Worker};
use crate::layout::{Storage, TileColumn};
use crate::scalar::Scalar;

pub static ROUTINES: [SolverRoutine; 10] = [
    SolverRoutine::new(
        Family::Cholesky,
        "posv",
        "solve A X = B, A Hermitian positive definite",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO],
        &["rhs", "trans", "lower"],
        &[Arrange, Potrf, CholeskySolve],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "posv_rcond",
        "solve A X = B, A Hermitian positive definite, and estimate the condition of A",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO, RCOND],
        &["rhs", "trans", "lower"],
        &[Arrange, HermitianNorm, Potrf, CholeskySolve, CholeskyCondition],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "potrf",
        "Cholesky factor of A, in the solver's layout, and norm1(A)",
        &[A],
        &[WORK.starts_as(0), INFO, ANORM],
        &["lower"],
        &[Arrange, HermitianNorm, Potrf, ConjugateFactor],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "potrs",
        "solve A X = B with the factor of A",
        &[WORK, INFO, B],
        &[X.starts_as(2)],
        &["rhs", "trans"],
        &[CholeskySolve],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "cholesky_from_scipy",
        "a triangular factor as scipy has it, to the solver's layout",
        &[slot("c", Kind::Matrix)],
        &[WORK.starts_as(0)],
        &["lower"],
        &[Arrange, ConjugateFactor],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "cholesky_to_scipy",
        "a factor in the solver's layout, to scipy's",
        &[WORK, INFO],
        &[slot("c", Kind::Matrix).starts_as(0)],
        &["lower"],
        &[ConjugateFactor, Restore],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "cholesky_inverse",
        "the inverse of A, Hermitian positive definite",
        &[A],
        &[INVERSE.starts_as(0), INFO],
        &["lower"],
        &[Arrange, Potrf, CholeskyInverse, Restore],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "potri",
        "the inverse of A from its Cholesky factor",
        &[WORK, INFO],
        &[INVERSE.starts_as(0)],
        &[],
        &[ConjugateFactor, CholeskyInverse, Restore],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "logdet",
        "log det A from its factor",
        &[WORK, INFO],
        &[LOGDET],
        &[],
        &[CholeskyDeterminant],
    ),
    SolverRoutine::new(
        Family::Cholesky,
        "pocon",
        "the condition of A, estimated from its factor and its 1-norm",
        &[WORK, INFO, ANORM],
        &[RCOND],
        &[],
        &[CholeskyCondition],
    ),
];

/// Factors A with this library's own algorithm.
pub fn potrf<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    prepare(job, worker, scale, true)?;
    factor(worker, &job.a(worker))
}

/// Finds the magnitude of A, unless an earlier stage has: the largest entry of A, which decides
/// about subnormal numbers. In a positive definite matrix it is on the diagonal. For a factor, the
/// largest square on the diagonal replaces it.
pub fn prepare<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
    is_matrix: bool,
) -> Step<f64> {
    if let Some(known) = *scale {
        return Ok(known);
    }
    let largest = job.largest_on_diagonal(worker)?;
    let found = if is_matrix { largest } else { largest * largest };
    worker.keep_subnormals(near_underflow::<T>(found));
    // Every worker must read the diagonal before any worker overwrites it.
    worker.barrier()?;
    *scale = Some(found);
    Ok(found)
}

/// Solves with the factor.
pub fn solve<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    let scale = prepare(job, worker, scale, false)?;
    let conjugated = solves_with_conjugate(&job.options, job.options.op);
    job.solve(worker, &sweeps(conjugated), None, scale)
}

/// Whether op(A) is conj(B) of the solver's matrix B = L L^H. With B = A^T = conj(A), or a factor of
/// such a B, solve with conj(L). A^T is conj(A), too.
pub fn solves_with_conjugate(options: &Options, op: Op) -> bool {
    let storage = options.storage;
    let of_conjugate =
        storage.is_transpose() || storage == Storage::Columns && !options.routine.factors();
    of_conjugate != (op == Op::Transpose)
}

pub fn condition<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    // A is its own adjoint, and the inverse of its conjugate has the same norm.
    job.condition(worker, &job.a(worker), |_| (sweeps(false), None))
}

pub fn invert<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    prepare_inverse(job, worker, scale)?;
    inverse(worker, &job.a(worker), &job.panels(worker.worker()).0)
}

/// Decides about subnormal numbers for an inverse.
pub fn prepare_inverse<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    let scale = prepare(job, worker, scale, false)?;
    worker.keep_subnormals(inverse_near_underflow::<T>(scale));
    Ok(())
}

/// Conjugates B's lower triangle where the caller's factor is that of conj(B); all workers meet at
/// its beginning and at its end. In any storage a factor reads as U^H U = A. For B = A, not conj(A),
/// that is conj(L).
pub fn conjugate_factor<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    if !T::IS_COMPLEX || job.options.storage != Storage::Columns {
        return Ok(());
    }
    worker.barrier()?;
    let a = job.a(worker);
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let lower = a.rows_of(t, a.columns().tile(t).rows().start..a.all_rows().end);
        worker.span("conjugate", None, |w| w.conjugate(lower));
    }
    worker.barrier()
}

/// `log det A = 2 sum log L_ii`, on worker 0.
pub fn determinant<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    if let Some(diagonal) = job.diagonal(worker)? {
        let logs = diagonal.into_iter().map(|entry| entry.magnitude().ln());
        job.found().logdet = 2.0 * logs.sum::<f64>();
    }
    Ok(())
}
