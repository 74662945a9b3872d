//! A call site on CUDA devices: the host thread of each device gives its part to the device's stream.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::hosts::Hosts;
use crate::backend::cuda::device::{Devices, Stream};
use crate::call::{Allocate, Attributes, Buffer};
use crate::error::{Error, Kind, Result};
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
    /// An error for routines that do not work on CUDA devices.
    pub fn new(attributes: &dyn Attributes) -> Result<CudaSite> {
        let site = Site::new(attributes)?;
        if site.configured.on_cuda().is_none() {
            let message = format!(
                "meshsolve.{}: expected operands on CPU devices, got CUDA devices; of CUDA devices \
                 transpose_inplace is all that this version supports: move them with \
                 jax.device_put(x, jax.devices(\"cpu\")[0])",
                site.routine
            );
            return Err(Error::new(Kind::FailedPrecondition, message));
        }
        let hosts = Hosts::new(site.routine, site.world);
        Ok(CudaSite { site, hosts })
    }

    /// Gives the stream one device's part. Returns when it has been given, or waits for the other devices
    /// where the routine needs them; then all return the same.
    pub fn run(&self, devices: &Devices, arrival: CudaArrival) -> Result<()> {
        let run = arrival.run;
        let part = || -> Result<()> {
            self.hosts.failure(run)?;
            let routine = self.site.configured.on_cuda().ok_or_else(|| {
                Error::new(Kind::Internal, "meshsolve: a routine that is not for CUDA devices")
            })?;
            let device = devices.of_stream(arrival.stream)?;
            let mut part = Part::new(&device, &self.hosts, self.site.world, arrival);
            routine.run(&mut part)?;
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
