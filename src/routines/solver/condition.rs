//! norm1(A) before A is overwritten, and the reciprocal of A's condition number in that norm, as in
//! LAPACK's `gecon` and `pocon`. The identity corner of a padded A does not count.

use super::call_memory::Region;
use super::job::Solver;
use super::magnitude::near_underflow;
use crate::algorithms::condition::{Estimator, block, inverse_norm};
use crate::algorithms::lu::Interchange;
use crate::algorithms::norm;
use crate::comm::Step;
use crate::device::{Moduli, Op, Triangle, Worker};
use crate::matrix::{Cells, DistMatrix, Remote};
use crate::scalar::{Scalar, larger};

impl<T: Scalar> Solver<T> {
    /// The sums of a worker, initially zeros; `None` if it has none.
    pub(super) fn sums_of(&self, worker: usize) -> Option<Cells<'_, f64>> {
        let has = self.sizes.sums > 0;
        has.then(|| self.call_memory.region(&self.sizes, Region::Sums(worker)))
    }

    /// The totals of all workers' sums, on worker 0. The others get none. All workers meet at its
    /// beginning.
    fn totals(&self, worker: &mut impl Worker<T>) -> Step<Vec<f64>> {
        worker.barrier()?;
        if worker.worker() != 0 {
            return Ok(Vec::new());
        }
        let (mut totals, mut sums) = (vec![0.0; self.sizes.sums], vec![0.0; self.sizes.sums]);
        for of_worker in (0..worker.workers()).map_while(|w| self.sums_of(w)) {
            let there = worker.fetch(Remote::new(of_worker))?;
            worker.get(there, &mut sums)?;
            totals.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
        }
        Ok(totals)
    }

    /// Finds the largest total, of a row or column, as norm1(A). Those of padding are zero.
    pub(super) fn find_largest(&self, worker: &mut impl Worker<T>, entry: f64) -> Step<Moduli> {
        let column = self.totals(worker)?.into_iter().fold(0.0, larger);
        self.find(worker, Moduli { column, entry })
    }

    fn row_sums(&self, worker: usize) -> Option<Cells<'_, f64>> {
        Some(self.sums_of(worker)?.sub(0, 0, self.unpadded(), 1))
    }

    /// Finds norm1(A), and also the largest entry, as `largest` does. All workers meet at its end.
    pub fn measure(&self, worker: &mut impl Worker<T>) -> Step<f64> {
        worker.keep_subnormals(true);
        let rows = self.row_sums(worker.worker());
        let found = norm::of_all(worker, &self.a(worker), self.unpadded(), rows)?;
        let found = match rows {
            Some(_) => self.find_largest(worker, found.entry),
            None => self.find(worker, found),
        };
        Ok(found?.entry)
    }

    /// Finds norm1(A) of a Hermitian A. All workers meet at its end.
    pub fn measure_hermitian(&self, worker: &mut impl Worker<T>) -> Step {
        if let Some(sums) = self.row_sums(worker.worker()) {
            norm::of_lower_triangle(worker, &self.a(worker), self.unpadded(), sums);
        }
        self.find_largest(worker, 0.0).map(drop)
    }

    /// The norm in the matrix's precision, given or found by workers that have met.
    pub fn norm(&self) -> f64 {
        let norm = self.norm_given.unwrap_or_else(|| self.found().moduli.column);
        T::from_f64_impl(norm).parts().0
    }

    /// Estimates the condition. `sweeps` are those of a solve with A or with A^H, by triangles of
    /// `a`.
    pub fn condition<const N: usize>(
        &self,
        worker: &mut impl Worker<T>,
        a: &DistMatrix<T>,
        sweeps: impl Fn(Op) -> ([(Triangle, Op); N], Option<Interchange>),
    ) -> Step {
        worker.barrier()?;
        let (n, order) = (self.problem.n, self.unpadded());
        let norm = self.norm();
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
        let mut estimator = (worker.worker() == 0).then(|| Estimator::new(order));
        estimator.iter_mut().for_each(|estimator| _ = estimator.start(norm));
        let vectors = x.part(|x| x.sub(0, 0, order, t));
        inverse_norm(worker, estimator.as_mut(), &vectors, |worker, op| {
            let (sweeps, interchange) = sweeps(op);
            self.solve_shared(worker, a, &x, &sums, &sweeps, interchange)
        })?;
        if let Some(estimator) = estimator {
            self.found().condition = estimator.estimate();
        }
        Ok(())
    }

    /// 1 / (norm1(A) norm1(A^-1)), estimated. It is 0 if `info` reports that there is no inverse,
    /// NaN if norm1(A) is NaN.
    pub fn rcond(&self) -> f64 {
        let norm = self.norm();
        if self.unpadded() == 0 {
            return 1.0;
        } else if norm.is_nan() {
            return norm;
        }
        match self.found().condition {
            condition if self.info() == 0 && condition > 0.0 => 1.0 / condition,
            _ => 0.0,
        }
    }
}
