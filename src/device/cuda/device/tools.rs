//! Objects that a call needs on a device in addition to memory: a second stream, handles of the
//! vendor's libraries and events. Making them takes milliseconds, so later calls reuse them.

use std::sync::Arc;

use super::Device;
use super::queue::Event;
use crate::device::cuda::handle::Stream;
use crate::device::cuda::vendor::blas::BlasHandle;
use crate::device::cuda::vendor::solver::SolverHandle;
use crate::error::Result;
use crate::scalar::DType;
use crate::settings::Float64;

pub struct Tools {
    /// The second stream, for work that other ranks wait for.
    pub side: Stream,
    /// A handle for each of the two streams: the caller's, then this one.
    pub blas: [BlasHandle; 2],
    pub solver: SolverHandle,
    pub float64: Float64,
    /// Element types for which the handles are warm: they have done all work of a factorisation, as
    /// L U or not.
    pub warm: Vec<(DType, bool)>,
    events: Vec<Event>,
    used: usize,
}

impl Tools {
    pub(super) fn new(device: &Arc<Device>) -> Result<Tools> {
        let libraries = device.vendor()?;
        let side = device.new_stream()?;
        let _entered = device.enter()?;
        let blas = [libraries.blas.create()?, libraries.blas.create()?];
        let solver = libraries.solver.create()?;
        let float64 = Float64::Native;
        Ok(Tools { side, blas, solver, float64, warm: Vec::new(), events: Vec::new(), used: 0 })
    }

    /// Sets how the handles multiply float64 from now on.
    pub fn multiply(&mut self, device: &Device, float64: Float64) -> Result<()> {
        if self.float64 != float64 {
            let libraries = device.vendor()?;
            let _entered = device.enter()?;
            self.blas.iter().try_for_each(|handle| libraries.blas.multiply(*handle, float64))?;
            libraries.solver.multiply(&self.solver, float64)?;
            self.float64 = float64;
            self.warm.clear();
        }
        Ok(())
    }

    /// An event that this call has not used yet.
    pub fn event(&mut self, device: &Device) -> Result<Event> {
        if self.used == self.events.len() {
            self.events.push(device.new_event()?);
        }
        self.used += 1;
        Ok(self.events[self.used - 1])
    }

    /// For the next call. No stream waits for the events any more, and all work is done.
    pub fn reset(&mut self) {
        self.used = 0;
        self.solver.reset();
    }

    /// Destroys all objects. The device must have done its work.
    pub fn destroy(self, device: &Device) -> Result<()> {
        let libraries = device.vendor()?;
        let _entered = device.enter()?;
        let events = self.events.into_iter().map(|event| device.destroy_event(event));
        let handles = self.blas.into_iter().map(|handle| libraries.blas.destroy(handle));
        let destroyed: Vec<_> = events.chain(handles).collect();
        let solver = libraries.solver.destroy(self.solver);
        let stream = device.destroy_stream(self.side);
        destroyed.into_iter().chain([solver, stream]).collect()
    }
}
