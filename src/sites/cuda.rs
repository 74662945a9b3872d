//! A call site on CUDA devices. The host thread of each device enqueues its part on the device's
//! stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::call::Attributes;
use crate::device::cuda::device::Devices;
use crate::error::{Error, Result};
use crate::rendezvous::Hosts;
use crate::routines::{CudaArrival, OnCuda, Part, Site};
use crate::settings;

/// A call site of an executable, shared by all its local devices.
pub struct CudaSite {
    routine: Box<dyn OnCuda>,
    world: usize,
    hosts: Arc<Hosts>,
}

impl CudaSite {
    pub fn new(attributes: &dyn Attributes) -> Result<CudaSite> {
        let site = Site::new(attributes)?;
        let (routine, world) = (site.configured.on_cuda(), site.world);
        Ok(CudaSite {
            routine,
            world,
            hosts: Hosts::new(site.routine, world, Some(settings::timeout)),
        })
    }

    /// Enqueues one device's part on its stream. If the routine needs the other devices, it waits
    /// for them, and all of them return the same result. Otherwise it returns after enqueueing.
    pub fn run(&self, devices: &Devices, arrival: CudaArrival) -> Result<()> {
        let run = arrival.run;
        let part = || -> Result<()> {
            self.hosts.failure(run)?;
            let device = devices.of_stream(arrival.stream)?;
            let mut part = Part::new(&device, &self.hosts, self.world, arrival);
            self.routine.run(&mut part)
        };
        let done = catch_unwind(AssertUnwindSafe(part))
            .unwrap_or_else(|panic| Err(Error::from_panic("a call on a CUDA device", &*panic)));
        done.map_err(|error| self.fail(run, error))
    }

    /// Makes `error` the error of all devices of the run, unless the run already has one.
    pub fn fail(&self, run: i64, error: Error) -> Error {
        self.hosts.fail(run, error)
    }
}
