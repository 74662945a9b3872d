//! The stages that make a function of a Hermitian A from its eigenvectors.
//!
//! By rows the solver has conj(A), of which the function is the conjugate: the caller's rows again.
//!
//! info = i > 0 reports that i eigenvalues are where the function has no value, or what `eigen.rs` says.
//! Then X is NaN.

use super::job::Solver;
use crate::algorithms::eigen::{self, Weights};
use crate::comm::Step;
use crate::device::Worker;
use crate::matrix::Cells;
use crate::scalar::{DType, Scalar};

impl<T: Scalar> Solver<T> {
    /// What the function makes of the eigenvalues that have been found.
    fn weights(&self) -> Result<Weights, usize> {
        let eigenvalues = &self.found().eigenvalues[..self.unpadded()];
        let limit = match T::DTYPE.real() {
            DType::F32 => f32::MAX.into(),
            _ => f64::MAX,
        };
        Weights::new(self.options.function, eigenvalues, self.number, limit)
    }
}

/// Eigenvectors of the tridiagonal matrix become columns of L, up to the transformation back.
pub fn weigh<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 {
        return Ok(());
    }
    let (me, n) = (worker.worker(), job.unpadded());
    match job.weights() {
        Ok(weights) => {
            let factors: Vec<T> = weights.factors.iter().map(|&x| T::from_f64_impl(x)).collect();
            let rows = job.found().divided.as_ref().expect("eigenvectors").rows(me);
            let z = job.z(worker);
            let own: Vec<Cells<T>> = z.range(rows.start, rows.end).collect();
            for cells in own {
                // SAFETY: *order*: all workers have met, and others have other rows of Z.
                let rows = unsafe { cells.sub(0, 0, n, cells.cols()).write() };
                for row in rows.col_iter_mut() {
                    row.iter_mut().zip(&factors).for_each(|(x, &factor)| *x *= factor);
                }
            }
        }
        Err(missing) => {
            // Others may still look at info.
            worker.barrier()?;
            worker.report(missing, T::NAN);
        }
    }
    worker.barrier()
}

/// The function of A, in A's memory.
pub fn assemble<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    if job.info() != 0 {
        return Ok(());
    }
    let (x, mut l, n) = (job.a(worker), job.eigenvectors(worker), job.unpadded());
    let block = job.sizes.distribution.in_block_mapping();
    if !W::IS_RANK {
        // Columns in the order of the matrix become rows.
        job.redistribute(worker, &l, &job.sizes.restore)?;
        worker.transpose_square(&l)?;
        l = l.with_distribution(&block);
    }
    let weights = job.weights().expect("values, which `weigh` has found");
    let room = job.scratch_of_band(worker.worker()).tile();
    eigen::assemble(worker, &x, &l, n, &weights, room)
}
