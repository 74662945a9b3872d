//! The Cholesky routines.
//!
//! | routine | operands (after `place`) | results | does |
//! |---|---|---|---|
//! | `posv` | a, b | work, x, info | factors A and solves A X = B |
//! | `posv_rcond` | a, b | work, x, info, rcond | the same, and estimates A's condition |
//! | `potrf` | a | work, info, anorm | factors A; norm1(A) |
//! | `potrs` | work, info, b | x | solves with a factor |
//! | `cholesky_from_scipy` | c | work | a triangle of scipy's `(c, lower)` to the solver's form |
//! | `cholesky_to_scipy` | work, info | c | the reverse |
//! | `cholesky_inverse` | a | inverse, info | A^-1, Hermitian to the last bit |
//! | `potri` | work, info | inverse | the same from a factor, in the storage of the caller's A |
//! | `logdet` | work, info | logdet | log det A from a factor |
//! | `pocon` | work, info, anorm | rcond | estimates A's condition from a factor and norm1(A) |
//!
//! `potrf` and `cholesky_from_scipy` make the factor `work`. It does not depend on the number of
//! devices, except for the order of its columns on several CUDA devices. As JAX's array it holds U
//! of A = U^H U in its upper triangle, sharded by rows. With storage "column-major" it holds L of A
//! = L L^H in its lower one. Names and `info` are LAPACK's. A pivot that is not finite counts as
//! one that is not positive; `work` and `anorm` are then NaN.

use std::time::Instant;

use super::job::Solver;
use super::magnitude::{inverse_near_underflow, near_underflow};
use super::options::Stage::{
    Arrange, Condition, Determinant, Factor, Invert, Norm, Restore, Solve,
};
use super::options::{Engine, Family, Verb};
use super::slot::{A, ANORM, B, INFO, INVERSE, Kind, LOGDET, RCOND, WORK, X, slot};
use crate::algorithms::cholesky::{factor, inverse, sweeps};
use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, WholeStep, Worker};
use crate::layout::{Storage, TileColumn};
use crate::scalar::Scalar;

pub static VERBS: [Verb; 10] = [
    Verb::new(
        Family::Cholesky,
        "posv",
        "solve A X = B, A Hermitian positive definite",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO],
        &["rhs", "trans", "lower"],
        &[Arrange, Factor, Solve],
    ),
    Verb::new(
        Family::Cholesky,
        "posv_rcond",
        "solve A X = B, A Hermitian positive definite, and estimate the condition of A",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO, RCOND],
        &["rhs", "trans", "lower"],
        &[Arrange, Norm, Factor, Solve, Condition],
    ),
    Verb::new(
        Family::Cholesky,
        "potrf",
        "Cholesky factor of A, in the solver's layout, and norm1(A)",
        &[A],
        &[WORK.starts_as(0), INFO, ANORM],
        &["lower"],
        &[Arrange, Norm, Factor],
    ),
    Verb::new(
        Family::Cholesky,
        "potrs",
        "solve A X = B with the factor of A",
        &[WORK, INFO, B],
        &[X.starts_as(2)],
        &["rhs", "trans"],
        &[Solve],
    ),
    Verb::new(
        Family::Cholesky,
        "cholesky_from_scipy",
        "a triangular factor as scipy has it, to the solver's layout",
        &[slot("c", Kind::Matrix)],
        &[WORK.starts_as(0)],
        &["lower"],
        &[Arrange],
    ),
    Verb::new(
        Family::Cholesky,
        "cholesky_to_scipy",
        "a factor in the solver's layout, to scipy's",
        &[WORK, INFO],
        &[slot("c", Kind::Matrix).starts_as(0)],
        &["lower"],
        &[Restore],
    ),
    Verb::new(
        Family::Cholesky,
        "cholesky_inverse",
        "the inverse of A, Hermitian positive definite",
        &[A],
        &[INVERSE.starts_as(0), INFO],
        &["lower"],
        &[Arrange, Factor, Invert, Restore],
    ),
    Verb::new(
        Family::Cholesky,
        "potri",
        "the inverse of A from its Cholesky factor",
        &[WORK, INFO],
        &[INVERSE.starts_as(0)],
        &[],
        &[Invert, Restore],
    ),
    Verb::new(
        Family::Cholesky,
        "logdet",
        "log det A from its factor",
        &[WORK, INFO],
        &[LOGDET],
        &[],
        &[Determinant],
    ),
    Verb::new(
        Family::Cholesky,
        "pocon",
        "the condition of A, estimated from its factor and its 1-norm",
        &[WORK, INFO, ANORM],
        &[RCOND],
        &[],
        &[Condition],
    ),
];

/// One worker's part between `arrange` and `restore`.
pub fn steps<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>, time: &mut Instant) -> Step {
    let verb = job.options.verb;
    if verb.norm {
        job.measure_hermitian(worker)?;
        *time = job.lap(worker, "norm", *time);
    }
    let scale = if verb.factor || verb.solve || verb.invert { scale(job, worker)? } else { 0.0 };
    if verb.factor {
        match job.options.engine {
            Engine::Own => factor(worker, &job.a(worker))?,
            Engine::CusolverMg => worker.whole(&job.a(worker), WholeStep::Potrf)?,
        }
        *time = job.lap(worker, "factor", *time);
    }
    // Only where a factor enters or leaves the call, not where the call makes and uses it.
    let gives_factor = verb.arrange && !verb.solve && !verb.restore;
    let takes_factor = verb.restore && !verb.arrange;
    if conjugates_factor(job) && (gives_factor || takes_factor) {
        worker.barrier()?;
        conjugate(job, worker)?;
    }
    if verb.solve {
        // With B = A^T = conj(A), or a factor of such a B, solve with conj(L).
        let storage = job.options.storage;
        let of_conjugate = storage.is_transpose() || storage == Storage::Columns && !verb.factor;
        // A^T is conj(A), too.
        let conjugated = of_conjugate != (job.options.op == Op::Transpose);
        match job.options.engine {
            Engine::Own => job.solve(worker, &sweeps(conjugated), None, scale)?,
            // All workers know of a failure.
            Engine::CusolverMg if job.info() != 0 => {}
            Engine::CusolverMg => job.solve_whole(worker, None, conjugated)?,
        }
        *time = job.lap(worker, "solve", *time);
    }
    if verb.condition {
        // A is its own adjoint, and the inverse of its conjugate has the same norm.
        job.condition(worker, |_| (sweeps(false), None))?;
        *time = job.lap(worker, "condition", *time);
    }
    if verb.invert {
        worker.keep_subnormals(inverse_near_underflow::<T>(scale));
        match job.options.engine {
            Engine::Own => inverse(worker, &job.a(worker), &job.panels(worker.worker()).0)?,
            Engine::CusolverMg if job.info() != 0 => {}
            Engine::CusolverMg => {
                worker.whole(&job.a(worker), WholeStep::Potri)?;
                mirror_triangle(worker, &job.a(worker), Missing::Upper, true)?;
            }
        }
        *time = job.lap(worker, "invert", *time);
    }
    if verb.determinant { determinant(job, worker) } else { Ok(()) }
}

/// The largest entry of A, which decides about subnormal numbers. In a positive definite matrix it
/// is on the diagonal. For a factor, the largest square on the diagonal replaces it.
fn scale<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step<f64> {
    let largest = job.largest_on_diagonal(worker)?;
    let scale = if job.options.verb.factor { largest } else { largest * largest };
    worker.keep_subnormals(near_underflow::<T>(scale));
    // Every worker must read the diagonal before any worker overwrites it.
    worker.barrier()?;
    Ok(scale)
}

/// In any storage a factor reads as U^H U = A. For B = A, not conj(A), that is conj(L).
fn conjugates_factor<T: Scalar>(job: &Solver<T>) -> bool {
    T::IS_COMPLEX && job.options.storage == Storage::Columns
}

/// Conjugates B's lower triangle; all workers meet at its end.
fn conjugate<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let a = job.a(worker);
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let lower = a.rows_of(t, a.columns().tile(t).rows().start..a.all_rows().end);
        worker.span("conjugate", None, |w| w.conjugate(lower));
    }
    worker.barrier()
}

/// `log det A = 2 sum log L_ii`, on worker 0.
fn determinant<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    if let Some(diagonal) = job.diagonal(worker)? {
        let logs = diagonal.into_iter().map(|entry| entry.magnitude().ln());
        job.found().logdet = 2.0 * logs.sum::<f64>();
    }
    Ok(())
}
