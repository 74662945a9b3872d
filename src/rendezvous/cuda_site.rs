//! A call site on CUDA devices: the host thread of each device gives its part to the device's stream.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::hosts::Hosts;
use crate::call::{Allocate, Attributes, Buffer};
use crate::device::cuda::device::{Devices, Stream};
use crate::error::{Error, Result};
use crate::routines::{Part, Site};

/// A call site of an executable, shared by all its local devices.
pub struct CudaSite {
    site: Site,
    hosts: Hosts,
}

/// What one device brings to a call; all buffers are in its memory.
pub struct CudaArrival<'a> {
    pub run: i64,
    /// XLA's number of the device, for messages.
    pub device: i32,
    pub stream: Stream,
    pub scratch: &'a mut dyn Allocate,
    pub place: Buffer,
    pub args: Vec<Buffer>,
    pub rets: Vec<Buffer>,
}

impl CudaSite {
    pub fn new(attributes: &dyn Attributes) -> Result<CudaSite> {
        let site = Site::new(attributes)?;
        let hosts = Hosts::new(site.routine, site.world);
        Ok(CudaSite { site, hosts })
    }

    /// Gives the stream one device's part. Returns when it has been given, or waits for the other devices
    /// where the routine needs them; then all return the same.
    pub fn run(&self, devices: &Devices, arrival: CudaArrival) -> Result<()> {
        let run = arrival.run;
        let part = || -> Result<()> {
            self.hosts.failure(run)?;
            let device = devices.of_stream(arrival.stream)?;
            let mut part = Part::new(&device, &self.hosts, self.site.world, arrival);
            self.site.configured.on_cuda().run(&mut part)?;
            part.leave()
        };
        let done = catch_unwind(AssertUnwindSafe(part))
            .unwrap_or_else(|panic| Err(Error::from_panic("a call on a CUDA device", &*panic)));
        done.map_err(|error| self.fail(run, error))
    }

    /// Makes an error that of all devices of the run, unless another one is already.
    pub fn fail(&self, run: i64, error: Error) -> Error {
        self.hosts.fail(run, error)
    }
}
