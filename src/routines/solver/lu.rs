//! The routines for general matrices, by LU with partial pivoting.
//!
//! `getrf` and `lu_from_scipy` make the factor `work`. It does not depend on the number of devices,
//! except for the order of its columns on several CUDA devices. As JAX's array it is the transpose
//! of scipy's `lu`, sharded by rows. With storage "column-major" it is `lu`, sharded by columns.
//! `pivots` are scipy's, from 0 on. Names and `info` are LAPACK's. info = i > 0 reports that U_ii
//! is zero or not finite; solutions are then NaN. If A has an entry that is not finite, `work` and
//! `anorm` are NaN too. `gesv` and `lu_inverse` factor the stored matrix, A^T by rows; its inverse
//! has the storage of A^-1.

use super::job::Solver;
use super::magnitude::{inverse_near_underflow, near_underflow};
use super::routine::Stage::{
    Arrange, CheckDiagonal, Getrf, LuCondition, LuDeterminant, LuInverse, LuSolve, Norm, Restore,
};
use super::routine::{Family, SolverRoutine};
use super::slot::{A, ANORM, B, INFO, INVERSE, Kind, LOGDET, PIVOTS, RCOND, WORK, X, slot};
use crate::algorithms::lu::{factor, inverse, sweeps};
use crate::comm::Step;
use crate::device::Worker;
use crate::scalar::Scalar;

pub static ROUTINES: [SolverRoutine; 11] = [
    SolverRoutine::new(
        Family::Lu,
        "gesv",
        "solve op(A) X = B, A any square matrix",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO],
        &["rhs", "trans", "structure", "lower"],
        &[Arrange, Getrf, LuSolve],
    ),
    SolverRoutine::new(
        Family::Lu,
        "gesv_rcond",
        "solve op(A) X = B, A any square matrix, and estimate the condition of A",
        &[A, B],
        &[WORK.starts_as(0), X.starts_as(1), INFO, RCOND],
        &["rhs", "trans", "structure", "lower"],
        &[Arrange, Norm, Getrf, LuSolve, LuCondition],
    ),
    SolverRoutine::new(
        Family::Lu,
        "getrf",
        "LU factors of A, in the solver's layout, and norm1(A)",
        &[A],
        &[WORK.starts_as(0), PIVOTS, INFO, ANORM],
        &["structure", "lower"],
        &[Arrange, Norm, Getrf],
    )
    .upright(),
    SolverRoutine::new(
        Family::Lu,
        "getrs",
        "solve op(A) X = B with the LU factors of A",
        &[WORK, PIVOTS, INFO, B],
        &[X.starts_as(3)],
        &["rhs", "trans"],
        &[LuSolve],
    )
    .upright(),
    SolverRoutine::new(
        Family::Lu,
        "lu_from_scipy",
        "LU factors as scipy has them, to the solver's layout",
        &[slot("lu", Kind::Matrix)],
        &[WORK.starts_as(0), INFO],
        &[],
        &[Arrange, CheckDiagonal],
    )
    .upright(),
    SolverRoutine::new(
        Family::Lu,
        "lu_to_scipy",
        "LU factors in the solver's layout, to scipy's",
        &[WORK],
        &[slot("lu", Kind::Matrix).starts_as(0)],
        &[],
        &[Restore],
    )
    .upright(),
    SolverRoutine::new(
        Family::Lu,
        "lu_inverse",
        "the inverse of A, any square matrix",
        &[A],
        &[INVERSE.starts_as(0), INFO],
        &["structure", "lower"],
        &[Arrange, Getrf, LuInverse, Restore],
    ),
    SolverRoutine::new(
        Family::Lu,
        "getri",
        "the inverse of A from its LU factors",
        &[WORK, PIVOTS, INFO],
        &[INVERSE.starts_as(0)],
        &[],
        &[LuInverse, Restore],
    )
    .upright(),
    SolverRoutine::new(
        Family::Lu,
        "getri_transposed",
        "the inverse of A from its LU factors, by rows transposed",
        &[WORK, PIVOTS, INFO],
        &[INVERSE.starts_as(0)],
        &[],
        &[LuInverse, Restore],
    ),
    SolverRoutine::new(
        Family::Lu,
        "det",
        "det A, its sign and the logarithm of its size from the LU factors",
        &[WORK, PIVOTS],
        &[slot("det", Kind::Value), slot("sign", Kind::Value), LOGDET],
        &[],
        &[LuDeterminant],
    ),
    SolverRoutine::new(
        Family::Lu,
        "gecon",
        "the condition of A, estimated from its LU factors and its 1-norm",
        &[WORK, PIVOTS, INFO, ANORM],
        &[RCOND],
        &[],
        &[LuCondition],
    )
    .upright(),
];

/// norm1(A), and the magnitude of A.
pub fn norm<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    *scale = Some(job.measure(worker)?);
    Ok(())
}

/// Factors A with this library's own algorithm.
pub fn getrf<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    prepare(job, worker, scale)?;
    factor(worker, &job.a(worker), &job.pivots(worker.worker()))
}

/// Finds the magnitude of A, unless `norm` has, and decides about subnormal numbers.
pub fn prepare<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: &mut Option<f64>,
) -> Step {
    let found = match *scale {
        Some(known) => known,
        None => job.largest(worker)?,
    };
    worker.keep_subnormals(near_underflow::<T>(found));
    *scale = Some(found);
    Ok(())
}

/// The magnitude of A, or of its factor; none if that has no inverse. The largest pivot is at least
/// the largest entry of the first column.
fn magnitude<T: Scalar>(
    job: &Solver<T>,
    worker: &mut impl Worker<T>,
    scale: Option<f64>,
) -> Step<Option<f64>> {
    let found = match scale {
        Some(known) => known,
        None => job.largest_on_diagonal(worker)?,
    };
    Ok((job.info() == 0).then_some(found))
}

/// Solves with the factor, if there is one.
pub fn solve<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>, scale: Option<f64>) -> Step {
    let Some(scale) = magnitude(job, worker, scale)? else { return Ok(()) };
    let (sweeps, interchange) = sweeps(job.options.op_on_b(job.options.op));
    job.solve(worker, &sweeps, Some(interchange), scale)
}

pub fn condition<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    job.condition(worker, &job.a(worker), |op| {
        let (sweeps, interchange) = sweeps(job.options.op_on_b(op));
        (sweeps, Some(interchange))
    })
}

pub fn invert<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>, scale: Option<f64>) -> Step {
    let Some(scale) = magnitude(job, worker, scale)? else { return Ok(()) };
    worker.keep_subnormals(inverse_near_underflow::<T>(scale));
    let (panels, more) = job.panels(worker.worker());
    let pivots = job.pivots(worker.worker());
    inverse(worker, &job.a(worker), pivots.own(), &panels, &more)
}

/// det A, det A / |det A| (0 if it is singular), log |det A|, on worker 0.
pub fn determinant<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let Some(diagonal) = job.diagonal(worker)? else { return Ok(()) };
    worker.keep_subnormals(true);
    let mut pivots = vec![0; job.problem.n];
    worker.get(job.pivots_of(0), &mut pivots)?;
    let mut found = job.found();
    (found.values, found.logdet) = determinant_of(&diagonal, &pivots);
    Ok(())
}

/// [det A, det A / |det A|] and log |det A|, from the diagonal of U and the row interchanges.
pub(super) fn determinant_of<T: Scalar>(diagonal: &[T], pivots: &[i32]) -> ([T; 2], f64) {
    let odd = (0..).zip(pivots).filter(|(i, pivot)| i != *pivot).count() % 2 == 1;
    let start = if odd { -T::ONE } else { T::ONE };
    let (mut det, mut sign, mut logdet) = (Scaled { mantissa: start, exponent: 0 }, start, 0.0);
    for &entry in diagonal {
        let size = T::from_real_impl(&T::abs_impl(&entry));
        det.multiply(entry);
        sign *= if size == T::ZERO { T::ZERO } else { entry.divided_by(size) };
        logdet += size.magnitude().ln();
        // Values after a zero pivot may be arbitrary.
        if entry == T::ZERO {
            break;
        }
    }
    ([det.value(), sign], logdet)
}

/// mantissa * 2^exponent. A product overflows only if its final value is too large.
struct Scaled<T> {
    mantissa: T,
    exponent: i64,
}

/// The largest exponent by which every dtype can be scaled in one step.
const STEP: i64 = 60;

impl<T: Scalar> Scaled<T> {
    fn multiply(&mut self, by: T) {
        let exponent = |x: T| match x.magnitude() {
            size if size > 0.0 && size.is_finite() => size.log2().floor() as i64,
            _ => 0,
        };
        self.exponent += exponent(by);
        self.mantissa *= shifted(by, -exponent(by));
        self.exponent += exponent(self.mantissa);
        self.mantissa = shifted(self.mantissa, -exponent(self.mantissa));
    }

    fn value(&self) -> T {
        // Beyond these exponents every value is 0 or infinite.
        shifted(self.mantissa, self.exponent.clamp(-5000, 5000))
    }
}

/// x * 2^exponent.
fn shifted<T: Scalar>(x: T, exponent: i64) -> T {
    let by = |exponent: i64| {
        let power = T::from_f64_impl(2f64.powi(exponent as i32));
        T::real_part_impl(&power)
    };
    let steps = (0..exponent.abs() / STEP).map(|_| STEP * exponent.signum());
    steps.chain([exponent % STEP]).fold(x, |x, step| T::mul_real_impl(&x, &by(step)))
}
