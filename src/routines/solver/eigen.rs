//! The routines for the eigenvalues of a Hermitian A, and how they begin. By rows the solver has
//! conj(A), which has the same ones. `eigenvectors.rs` has the rest of those with eigenvectors.
//!
//! info = i > 0 reports that i entries next to the diagonal have not become negligible, and info = n +
//! 1 that A has an entry that is not finite. Then all values are NaN. Values beyond the order of an A
//! that is padded are NaN, too.

use super::job::Solver;
use super::routine::Stage::{
    Arrange, Assemble, Divide, Eigenvalues, Restore, ToBand, ToTridiagonal, TransformBack, Weigh,
};
use super::routine::{Family, SolverRoutine};
use super::slot::{A, INFO, Kind, Slot, WORK, slot};
use crate::algorithms::eigen::{
    Extent, Leading, Scratch, eigenvalues, reduce_to_band, reduce_to_tridiagonal,
};
use crate::comm::Step;
use crate::device::{Tridiagonal, Worker};
use crate::layout::TileColumn;
use crate::matrix::Cells;
use crate::scalar::{Scalar, larger};

const VALUES: Slot = slot("w", Kind::Eigenvalues);
const TOLERANCE: Slot = slot("tolerance", Kind::Number);

pub static ROUTINES: [SolverRoutine; 3] = [
    SolverRoutine::new(
        Family::Eigen,
        "eigenvalues",
        "the eigenvalues of A, Hermitian, ascending",
        &[A],
        &[WORK.starts_as(0), VALUES, INFO],
        &["lower"],
        &[Arrange, ToBand, ToTridiagonal, Eigenvalues],
    ),
    SolverRoutine::new(
        Family::Eigen,
        "eigenvectors",
        "the eigenvalues of A, Hermitian, ascending, and its eigenvectors",
        &[A],
        &[WORK.starts_as(0), slot("v", Kind::Matrix), VALUES, INFO],
        &["lower", "first", "vectors"],
        &[Arrange, ToBand, ToTridiagonal, Divide, TransformBack, Restore],
    ),
    SolverRoutine::new(
        Family::Eigen,
        "hermitian_function",
        "a function of A, Hermitian, of which eigenvalues up to `tolerance` |A| count as zero",
        &[A, TOLERANCE],
        &[slot("x", Kind::Matrix).starts_as(0), slot("v", Kind::Factor), VALUES, INFO],
        &["lower", "function"],
        &[Arrange, ToBand, ToTridiagonal, Divide, Weigh, TransformBack, Assemble, Restore],
    ),
];

/// The exponent of the power of two by which A is divided where its numbers are far from 1. Then no
/// square of an entry that matters leaves the range.
fn exponent<T: Scalar>(size: f64) -> i32 {
    let range = -T::NEAR_UNDERFLOW.log2() as i32;
    let exponent = if size > 0.0 { size.log2().floor() as i32 } else { 0 };
    if exponent.abs() <= range / 3 { 0 } else { exponent.clamp(-range, range) }
}

impl<T: Scalar> Solver<T> {
    pub(super) fn scratch_of_band(&self, me: usize) -> Scratch<'_, T> {
        let (n, columns) = (self.problem.n, self.sizes.columns());
        let (workers, is_rank) = (self.sizes.workers, self.sizes.is_rank);
        let kept = if self.sizes.goes_back { columns.count() } else { 0 };
        let (widest, one_stage) = (columns.widest(), self.sizes.one_stage);
        let of = Extent { n, widest, workers, is_rank, kept, one_stage };
        let [once, each] = of.elements();
        Scratch::new(of, self.common_blocks(me, 0, once), self.own_blocks(me, once, each))
    }

    /// Those of the tridiagonal matrix, for an A that has been divided by this power of two.
    pub(super) fn give_eigenvalues(&self, mut values: Vec<f64>, exponent: i32) {
        // In steps, because a power of two may be too large.
        for half in [exponent / 2, exponent - exponent / 2] {
            values.iter_mut().for_each(|value| *value *= 2f64.powi(half));
        }
        values.resize(self.problem.n, f64::NAN);
        self.found().eigenvalues = values;
    }

    /// A size of A between its largest entry and n times that; `None` if an entry is not finite. All
    /// workers meet at its end.
    fn size_of_hermitian<W: Worker<T>>(&self, worker: &mut W) -> Step<Option<f64>> {
        self.measure_hermitian(worker)?;
        let norm = self.found().moduli.column;
        if !norm.is_infinite() {
            return Ok((!norm.is_nan()).then_some(norm));
        }
        // Sums of finite entries may overflow.
        let (a, n) = (self.a(worker), self.unpadded());
        let mut largest = 0.0f64;
        for t in Leading::new(&a, n).owned(worker, TileColumn::new(0)) {
            let part = Leading::new(&a, n).lower(t);
            largest = largest.max(worker.largest(part)?);
        }
        let [largest] = worker.all_reduce([largest], larger)?;
        Ok(Some(largest).filter(|largest| largest.is_finite()))
    }
}

/// A becomes a band, in scratch. In one stage that is tridiagonal.
pub fn to_band<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (a, scratch) = (job.a(worker), job.scratch_of_band(worker.worker()));
    let leading = Leading::new(&a, job.unpadded());
    if prepare(job, worker, &leading, scratch.tile())?.is_some() {
        match job.sizes.one_stage {
            true => reduce_to_tridiagonal(worker, &leading, &scratch)?,
            false => reduce_to_band(worker, &leading, &scratch)?,
        }
    }
    Ok(())
}

/// The leading part gets a real diagonal, and numbers that are not far from 1. It gives a bound of their
/// eigenvalues; `None` if an entry is not finite, which it reports. `room` is for a tile.
pub fn prepare<T: Scalar, W: Worker<T>>(
    job: &Solver<T>,
    worker: &mut W,
    leading: &Leading<T>,
    room: Cells<T>,
) -> Step<Option<f64>> {
    worker.keep_subnormals(true);
    leading.complete_diagonal(worker);
    let Some(size) = job.size_of_hermitian(worker)? else {
        worker.report(leading.order() + 1, T::NAN);
        return Ok(None);
    };
    let exponent = exponent::<T>(size);
    job.found().exponent = exponent;
    if exponent != 0 {
        leading.scale(worker, 2f64.powi(-exponent), room);
    }
    // Where sums overflow, it is the largest entry.
    let most = if job.found().moduli.column.is_finite() { 1.0 } else { leading.order() as f64 };
    Ok(Some(most * (size / 2f64.powi(exponent / 2) / 2f64.powi(exponent - exponent / 2))))
}

/// The band becomes tridiagonal.
pub fn to_tridiagonal<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 {
        return Ok(());
    }
    let band = job.scratch_of_band(worker.worker()).band(job.unpadded());
    let kept = job.options.routine.has(TransformBack).then(|| job.sweep_reflectors(worker));
    if let Some(found) = worker.tridiagonal(band, kept.as_ref())? {
        job.found().tridiagonal = found;
    }
    Ok(())
}

/// Its eigenvalues, by the first worker.
pub fn values<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 || worker.worker() != 0 {
        return Ok(());
    }
    let (Tridiagonal { mut diagonal, mut below, .. }, exponent) = {
        let mut found = job.found();
        (std::mem::take(&mut found.tridiagonal), found.exponent)
    };
    let left = worker.span("values", None, |_| eigenvalues(&mut diagonal, &mut below));
    if left > 0 {
        worker.report(left, T::NAN);
    }
    job.give_eigenvalues(diagonal, exponent);
    Ok(())
}
