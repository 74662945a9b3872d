//! Routines on CUDA devices. XLA has a host thread for each local device, which issues a program's
//! work in the program's order. Each thread enqueues its part on its device's stream and returns
//! without waiting for it.

use std::sync::Arc;

use crate::call::{Allocate, Buffer};
use crate::device::cuda::device::Device;
use crate::device::cuda::handle::Stream;
use crate::error::{Error, Kind, Result};
use crate::rendezvous::Hosts;
use crate::scalar::DType;

/// A routine with its attributes, at one call site.
pub trait OnCuda: Send + Sync {
    /// Checks the buffers of one device and enqueues its part on the stream.
    fn run(&self, part: &mut Part) -> Result<()>;
}

/// One device's part of a call; all buffers are in its memory.
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

/// One device's part of a call, with the other devices.
pub struct Part<'a, 's> {
    device: &'a Arc<Device>,
    hosts: &'a Arc<Hosts>,
    /// Number of devices on the mesh axis.
    pub world: usize,
    arrival: CudaArrival<'s>,
    /// Rank and group, after the first read.
    place: Option<(usize, i64)>,
}

impl<'a, 's> Part<'a, 's> {
    pub fn new(
        device: &'a Arc<Device>,
        hosts: &'a Arc<Hosts>,
        world: usize,
        arrival: CudaArrival<'s>,
    ) -> Self {
        Part { device, hosts, world, arrival, place: None }
    }

    pub fn device(&self) -> &'a Arc<Device> {
        self.device
    }

    pub fn stream(&self) -> Stream {
        self.arrival.stream
    }

    pub fn args(&self) -> &[Buffer] {
        &self.arrival.args
    }

    pub fn rets(&self) -> &[Buffer] {
        &self.arrival.rets
    }

    /// Rank along the mesh axis and group of the call. They are in the device's memory: the first
    /// call waits for all work on the stream.
    pub fn place(&mut self) -> Result<(usize, i64)> {
        if let Some(place) = self.place {
            return Ok(place);
        }
        let place = &self.arrival.place;
        place.check("ffi_target", "operand `place`", DType::S32, &[2])?;
        // SAFETY: two int32 in the device's memory (checked). XLA keeps them alive during the call.
        let bytes: [u8; 8] =
            unsafe { self.device.read(place.as_ptr().addr() as u64, self.arrival.stream) }?;
        let number = |k: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|b| bytes[4 * k + b]));
        // A negative rank becomes one beyond every world. The rendezvous refuses it by name.
        Ok(*self.place.insert((number(0) as usize, number(1).into())))
    }

    /// XLA's number of the device, for messages.
    pub fn number(&self) -> i32 {
        self.arrival.device
    }

    /// Waits for the host threads of all ranks of the group. The last one passes the parcels of all to
    /// `make`; all get its value. After it, the ranks must by themselves all return the same.
    pub fn gather<V: Send + 'static, S: Clone + Send + 'static>(
        &mut self,
        parcel: V,
        make: impl FnOnce(Vec<V>) -> Result<S>,
    ) -> Result<S> {
        let (rank, group) = self.place()?;
        let CudaArrival { run, device, .. } = self.arrival;
        self.hosts.gather((run, group), (rank, device), parcel, make)
    }

    /// The address of `bytes` bytes of the device's memory, for work on the stream.
    pub fn scratch(&mut self, routine: &str, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.arrival.scratch.allocate(bytes).ok_or_else(|| {
            let message = format!(
                "meshsolve.{routine}: {}: expected {bytes} bytes of scratch, got none; free memory of the \
                 device, or give JAX more of it with XLA_PYTHON_CLIENT_MEM_FRACTION",
                self.device.name()
            );
            Error::new(Kind::ResourceExhausted, message)
        })
    }

    /// Copies operand `arg` to result `ret`. It does nothing where XLA has aliased them.
    pub fn pass_through(&self, arg: usize, ret: usize) -> Result<()> {
        let (from, to) = (&self.args()[arg], &self.rets()[ret]);
        if from.as_ptr() == to.as_ptr() || from.bytes() == 0 {
            return Ok(());
        }
        let [to, source] = [to, from].map(|buffer| buffer.as_ptr().addr() as u64);
        // SAFETY: XLA's buffers are either identical or disjoint. The routine has checked that
        // their sizes are equal.
        unsafe { self.device.copy(to, source, from.bytes(), self.stream()) }
    }
}
