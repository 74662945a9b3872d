//! norm1(A) before A is overwritten, and the reciprocal of A's condition number in that norm, as in
//! LAPACK's `gecon` and `pocon`. The identity corner of a padded A does not count.

use super::call_memory::Region;
use super::job::Solver;
use super::magnitude::near_underflow;
use crate::algorithms::condition::{block, inverse_norm};
use crate::algorithms::lu::Interchange;
use crate::algorithms::norm;
use crate::comm::Step;
use crate::device::memory;
use crate::device::{Op, Triangle, Worker};
use crate::error::Result;
use crate::matrix::Cells;
use crate::scalar::{Scalar, larger};

impl<T: Scalar> Solver<T> {
    /// The sums of a worker, initially zeros; `None` if it has none.
    pub(super) fn sums_of(&self, worker: usize) -> Option<Cells<'_, f64>> {
        let has = self.sizes.sums > 0;
        has.then(|| self.call_memory.region(&self.sizes, Region::Sums(worker)))
    }

    /// The totals of all workers' sums; the workers have met.
    pub(super) fn totals(&self) -> Result<Vec<f64>> {
        let workers = (0..self.comm.workers()).map_while(|worker| self.sums_of(worker));
        // SAFETY: *order*: all workers have met since they wrote these.
        let read = |sums| unsafe { memory::read(self.memory(), sums) };
        let sums = workers.map(read).collect::<Result<Vec<_>>>()?;
        let total = |i: usize| sums.iter().map(|of_worker| of_worker[i]).sum();
        Ok((0..sums.first().map_or(0, Vec::len)).map(total).collect())
    }

    /// The largest sum over a row or column; those of padding are zero.
    pub(super) fn largest_total(&self) -> Result<f64> {
        Ok(self.totals()?.into_iter().fold(0.0, larger))
    }

    fn row_sums(&self, worker: usize) -> Option<Cells<'_, f64>> {
        Some(self.sums_of(worker)?.sub(0, 0, self.unpadded(), 1))
    }

    /// Finds norm1(A), and also the largest entry, as `largest` does. All workers meet at its end.
    pub fn measure(&self, worker: &mut impl Worker<T>) -> Step<f64> {
        worker.keep_subnormals(true);
        let rows = self.row_sums(worker.worker());
        let found = norm::of_all(worker, &self.a(worker), self.unpadded(), rows)?;
        Ok(self.find(worker, found)?.entry)
    }

    /// The worker's part of norm1(A) of a Hermitian A, from its own tile columns.
    pub fn measure_hermitian(&self, worker: &mut impl Worker<T>) {
        if let Some(sums) = self.row_sums(worker.worker()) {
            norm::of_lower_triangle(worker, &self.a(worker), self.unpadded(), sums);
        }
    }

    /// norm1(A) in the matrix's precision, given or found by workers that have met.
    pub fn norm(&self) -> Result<f64> {
        let found = match self.norms.given {
            Some(given) => given,
            None => self.found_norm()?,
        };
        Ok(T::from_f64_impl(found).parts().0)
    }

    fn found_norm(&self) -> Result<f64> {
        if self.sizes.sums == 0 {
            return Ok(self.found().column);
        }
        self.largest_total()
    }

    /// Estimates the condition. `sweeps` are those of a solve with A or with A^H.
    pub fn condition(
        &self,
        worker: &mut impl Worker<T>,
        sweeps: impl Fn(Op) -> ([(Triangle, Op); 2], Option<Interchange>),
    ) -> Step {
        worker.barrier()?;
        let (n, order) = (self.problem.n, self.unpadded());
        let norm = self.norm().map_err(|error| worker.fail(error))?;
        if self.info() != 0 || !(norm > 0.0 && norm.is_finite()) {
            return Ok(());
        }
        worker.keep_subnormals(near_underflow::<T>(norm));
        let t = block(order);
        let x = self.common_blocks(worker.worker(), 0, n * t).part(|one| one.by_rows(n, t));
        let sums = self.own_blocks(worker.worker(), n * t, n * t).part(|one| one.by_rows(n, t));
        if self.has_copy(worker) {
            worker.clear(x.own());
        }
        let mut estimator = None;
        if worker.worker() == 0 {
            let started =
                estimator.insert(self.norms.estimator.lock().unwrap_or_else(|e| e.into_inner()));
            started.start(norm);
        }
        let (estimator, vectors) = (estimator.as_deref_mut(), x.part(|x| x.sub(0, 0, order, t)));
        inverse_norm(worker, estimator, &vectors, |worker, op| {
            let (sweeps, interchange) = sweeps(op);
            self.solve_shared(worker, &x, &sums, &sweeps, interchange)
        })
    }

    /// 1 / (norm1(A) norm1(A^-1)), estimated. It is 0 if `info` reports that there is no inverse,
    /// NaN if norm1(A) is NaN.
    pub fn rcond(&self) -> Result<f64> {
        let norm = self.norm()?;
        if self.unpadded() == 0 {
            return Ok(1.0);
        } else if norm.is_nan() {
            return Ok(norm);
        }
        let estimator = self.norms.estimator.lock().unwrap_or_else(|e| e.into_inner());
        Ok(match estimator.estimate() {
            condition if self.info() == 0 && condition > 0.0 => 1.0 / condition,
            _ => 0.0,
        })
    }
}
