//! A worker's part of eigenvectors.

use super::CpuWorker;
use crate::comm::{Comm, Step};
use crate::device::cpu::back::{Back, Place};
use crate::device::cpu::divide::Divided;
use crate::device::cpu::{blas, real_columns};
use crate::matrix::{Cells, Columns};
use crate::scalar::Scalar;

impl<T: Scalar> CpuWorker<'_, T> {
    /// `Worker::divide`.
    pub(super) fn divide_all(
        &mut self,
        divided: &Divided,
        z: &Columns<T>,
        room: Cells<T>,
    ) -> Step<usize> {
        let (worker, room) = (self.worker, blas::column_mut(self.write(room), 0));
        let comm = self.comm;
        let (barrier, is_stopped) = (|| self.barrier(), || comm.is_stopped());
        // SAFETY: *order*, promised to `CpuWorker::new`: all workers do this, and have met.
        let left = unsafe { real_columns::divide(divided, worker, z, room, barrier, &is_stopped) }?;
        self.barrier().map(|()| left)
    }

    /// `Worker::transform_back`.
    pub(super) fn transform_all(
        &mut self,
        back: &Back<T>,
        z: &Columns<T>,
        [shared, own]: [Cells<T>; 2],
    ) -> Step {
        let comm = self.comm;
        let place = Place { worker: self.worker, workers: comm.workers() };
        let own = blas::column_mut(self.write(own), 0);
        let (barrier, is_stopped) = (|| self.barrier(), || comm.is_stopped());
        // SAFETY: *order*, promised to `CpuWorker::new`: all workers do this, and have met.
        unsafe { back.apply(z, (place, comm.queue()), shared, own, barrier, &is_stopped) }
    }
}
