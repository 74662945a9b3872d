//! A worker's sweeps through a band.

use super::CpuWorker;
use crate::comm::{Comm, Signal, Step, Stopped};
use crate::device::cpu::blas;
use crate::device::cpu::chase::{self, Turn};
use crate::device::{Band, SweepReflectors, Tridiagonal};
use crate::scalar::Scalar;

impl<T: Scalar> CpuWorker<'_, T> {
    /// `Worker::tridiagonal`.
    pub(super) fn sweep_all(
        &mut self,
        band: Band<T>,
        kept: Option<&SweepReflectors<T>>,
    ) -> Step<Option<Tridiagonal>> {
        self.traced("sweeps", None, |worker| worker.sweep(band, kept))?;
        self.barrier()?;
        // SAFETY: *order*, promised to `CpuWorker::new`: all sweeps have ended.
        Ok((self.worker == 0).then(|| unsafe { chase::tridiagonal(band) }))
    }

    fn sweep(&mut self, band: Band<T>, kept: Option<&SweepReflectors<T>>) -> Step {
        let (worker, phase) = (self.worker, self.phase(Signal::Sweeps));
        let workers = self.comm.workers();
        let turn = Turn { worker, workers };
        let room = blas::column_mut(self.write(self.pack), 0);
        let comm = self.comm;
        let wait = |s: usize, steps: usize| match s.checked_sub(1) {
            _ if comm.is_stopped() => Err(Stopped),
            Some(before) if turn.workers > 1 => {
                let (other, count) = turn.count(&band, before, steps);
                phase.wait(other, count)
            }
            _ => Ok(()),
        };
        let tell = |s: usize, steps: Option<usize>| {
            let end = || turn.end(&band, s);
            phase.announce(worker, steps.map_or_else(end, |steps| turn.count(&band, s, steps).1));
        };
        // SAFETY: *order*, promised to `CpuWorker::new`: every worker that has a turn makes its sweeps,
        // and waits for what another has announced.
        unsafe { chase::sweep(band, turn, kept, room, wait, tell) }
    }
}
