//! The stages that find eigenvectors of a Hermitian A, after it has become tridiagonal.
//!
//! Where workers share memory, they do it in the memory of the result. There Z^T, and later V^T, are by
//! columns: each column has what a row of V has. That is the form by rows, if V is conjugated where the
//! solver has conj(A). Ranks do it in memory of the host up to the band, and have columns of V then.

use std::ops::Range;
use std::sync::Arc;

use super::eigenvectors_scratch::Parts;
use super::job::Solver;
use super::routine::Stage;
use crate::algorithms::eigen::{Leading, apply_panels};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::cpu::back::Back;
use crate::device::cpu::divide::Divided;
use crate::device::{SweepReflectors, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Cells, Columns, DistMatrix};
use crate::scalar::{DType, Scalar};

impl<T: Scalar> Solver<T> {
    /// One of the matrices in memory of the host.
    fn of_host(&self, index: usize) -> Option<Columns<'_, T>> {
        let n = self.problem.n;
        let host = self.host.as_ref()?;
        let all = host.cells::<T>(index * n * n * size_of::<T>(), n * n);
        Some(Columns::new([all.by_columns(n, n, n)]))
    }

    /// Where reflectors of sweeps stay: above the diagonal of A, or in memory of the host.
    pub(super) fn sweep_reflectors(&self, worker: &impl Worker<T>) -> SweepReflectors<'_, T> {
        let columns = self.of_host(0).unwrap_or_else(|| columns_of(&self.a(worker)));
        let width = self.scratch_of_band(worker.worker()).of.band();
        SweepReflectors::new(columns, self.unpadded(), width)
    }

    /// The eigenvectors to find.
    fn wanted(&self) -> Range<usize> {
        let (first, count) = self.options.vectors.unwrap_or((0, self.unpadded()));
        first..first + count
    }

    /// The transpose of Z.
    pub(super) fn z(&self, worker: &impl Worker<T>) -> Columns<'_, T> {
        self.of_host(1).unwrap_or_else(|| columns_of(&self.eigenvectors(worker)))
    }

    /// Scratch of this worker to divide, in that of all earlier stages and that for packing. Ranks have
    /// their own.
    fn room_to_divide(&self, me: usize) -> Cells<'_, T> {
        match &self.host {
            Some(host) => host.cells(0, 0),
            None => self.parts().of_division(self.call_memory.of_workers(&self.sizes), me),
        }
    }

    /// The same to transform back: that of all workers, in memory of the host for ranks, and its own.
    fn room_to_transform(&self, me: usize) -> [Cells<'_, T>; 2] {
        let (n, parts) = (self.problem.n, self.parts());
        match &self.host {
            Some(host) => {
                [parts.back.shared, 0].map(|count| host.cells(2 * n * n * size_of::<T>(), count))
            }
            None => parts.of_way_back(self.call_memory.of_workers(&self.sizes), me),
        }
    }

    fn parts(&self) -> Parts {
        Parts::of::<T>(self.problem.n, self.sizes.columns().widest())
    }

    /// After `transform_back`: to the form in which the caller's storage has V.
    pub(super) fn turn_eigenvectors<W: Worker<T>>(
        &self,
        worker: &mut W,
        v: &DistMatrix<T>,
    ) -> Step {
        let by_rows = self.options.storage.is_transpose();
        if self.info() != 0 || by_rows != W::IS_RANK {
            return Ok(());
        }
        worker.transpose_square(v)?;
        if by_rows && T::IS_COMPLEX {
            let own = owned_from(worker, v.columns(), TileColumn::new(0));
            own.collect::<Vec<_>>().into_iter().for_each(|t| worker.conjugate(v.tile_column(t)));
            worker.barrier()?;
        }
        Ok(())
    }
}

/// The columns of a matrix of which a worker reaches all.
fn columns_of<'a, T: Scalar>(a: &DistMatrix<'a, T>) -> Columns<'a, T> {
    Columns::new(a.columns().each().map(|t| a.tile_column(t)))
}

/// Zeros in what padding adds to A or to eigenvectors.
pub fn clear_padding<T: Scalar, W: Worker<T>>(worker: &mut W, v: &DistMatrix<T>, n: usize) {
    for t in owned_from(worker, v.columns(), TileColumn::new(0)).collect::<Vec<_>>() {
        let (column, first) = (v.tile_column(t), v.columns().tile(t).global.get());
        worker.clear(column.rows_from(n));
        let inside = n.saturating_sub(first).min(column.cols());
        worker.clear(column.sub(0, inside, n, column.cols() - inside));
    }
}

/// V that an engine has left in the place of A, to the result.
pub fn copy_to_answer<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (a, v) = (job.a(worker), job.eigenvectors(worker));
    for t in owned_from(worker, a.columns(), TileColumn::new(0)).collect::<Vec<_>>() {
        worker.copy(a.tile_column(t), v.tile_column(t));
    }
    clear_padding(worker, &v, job.unpadded());
    worker.barrier()
}

/// The eigenvalues and Z.
pub fn divide<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 {
        return Ok(());
    }
    let (me, n, answer) = (worker.worker(), job.unpadded(), job.eigenvectors(worker));
    clear_padding(worker, &answer, n);
    if me == 0 {
        let mut found = job.found();
        let (diagonal, below) =
            (found.tridiagonal.diagonal.clone(), found.tridiagonal.below.clone());
        let unit = match T::DTYPE.real() {
            DType::F32 => f64::from(f32::EPSILON) / 2.0,
            _ => f64::EPSILON / 2.0,
        };
        let divided = Divided::new(diagonal, below, worker.workers(), unit);
        found.divided = Some(Arc::new(divided.only(job.wanted())));
    }
    worker.barrier()?;
    let divided = job.found().divided.clone().expect("what the first worker has just made");
    let (z, room) = (job.z(worker), job.room_to_divide(me));
    worker.keep_subnormals(true);
    let left = worker.divide(&divided, &z, room)?;
    if left > 0 {
        // Up to n it is a number of eigenvalues for a function of A.
        let is_function = job.options.routine.has(Stage::Weigh);
        worker.report(if is_function { n + 1 } else { left }, T::NAN);
    }
    if me == 0 {
        let exponent = job.found().exponent;
        job.give_eigenvalues(divided.values(), exponent);
    }
    worker.barrier()
}

/// V, from Z.
pub fn transform_back<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 {
        return Ok(());
    }
    let (me, a, z) = (worker.worker(), job.a(worker), job.z(worker));
    let (leading, scratch) = (Leading::new(&a, job.unpadded()), job.scratch_of_band(me));
    let sweeps = job.sweep_reflectors(worker);
    let panels = if W::IS_RANK { Vec::new() } else { scratch.reflectors(&leading) };
    let phases = job.found().tridiagonal.phases.clone();
    // The solver's own are those of which a function is made.
    let is_answer = job.options.routine.gives_eigenvectors();
    let conjugates = is_answer && !W::IS_RANK && job.options.storage.is_transpose();
    let wanted = job.wanted();
    let back = Back {
        sweeps: &sweeps,
        panels: &panels,
        phases: &phases,
        conjugates,
        wanted: wanted.clone(),
    };
    worker.transform_back(&back, &z, job.room_to_transform(me))?;
    if W::IS_RANK {
        let answer = job.eigenvectors(worker);
        fetch_columns(worker, &z, &answer, job.unpadded())?;
        apply_panels(worker, &leading, &scratch, &answer, &wanted)?;
    }
    Ok(())
}

/// This rank's columns of the matrix, of which memory of the host has the transpose.
fn fetch_columns<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    z: &Columns<T>,
    answer: &DistMatrix<T>,
    n: usize,
) -> Step {
    for t in owned_from(worker, answer.columns(), TileColumn::new(0)).collect::<Vec<_>>() {
        let first = answer.columns().tile(t).global.get();
        let count = n.saturating_sub(first).min(answer.columns().tile(t).width);
        let to = answer.tile_column(t).sub(0, 0, n, count);
        let mut rows = Vec::with_capacity(n * count);
        for i in 0..n {
            // SAFETY: *order*: all ranks have met after their work on it.
            let row = unsafe { z.column(i).sub(first.min(n), 0, count, 1).read() };
            rows.extend(row.col(0).iter().copied());
        }
        worker.put(&rows, to);
    }
    worker.barrier()
}
