//! Streams beside the caller's, events by which streams wait for each other, and copies of blocks within a
//! device and between devices. Nothing here waits but what says so.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::zeroed;

use super::device::{Address, Device, Stream};
use super::load::functions;
use crate::error::Result;

type Handle = usize;

functions! {
    cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int) -> c_int;
    cuStreamCreateWithPriority(*mut Handle, c_uint, c_int) -> c_int;
    cuStreamDestroy_v2(Handle) -> c_int;
    cuStreamWaitEvent(Handle, Handle, c_uint) -> c_int;
    cuEventCreate(*mut Handle, c_uint) -> c_int;
    cuEventRecord(Handle, Handle) -> c_int;
    cuEventDestroy_v2(Handle) -> c_int;
    cuMemcpyHtoDAsync_v2(Address, *const c_void, usize, Handle) -> c_int;
    cuMemcpyDtoHAsync_v2(*mut c_void, Address, usize, Handle) -> c_int;
    cuMemcpyPeerAsync(Address, Handle, Address, Handle, usize, Handle) -> c_int;
    cuMemcpy2DAsync_v2(*const Copy2d, Handle) -> c_int;
    cuMemcpy3DPeerAsync(*const Copy3dPeer, Handle) -> c_int;
    cuMemsetD2D8Async(Address, usize, u8, usize, usize, Handle) -> c_int;
    cuCtxEnablePeerAccess(Handle, c_uint) -> c_int;
}

/// The functions of this file.
pub(super) struct Queues(Functions);

impl Queues {
    pub(super) fn of(library: &super::load::Library) -> Result<Queues> {
        Functions::of(library).map(Queues)
    }
}

/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: c_uint = 1;
/// CU_EVENT_DISABLE_TIMING.
const NO_TIMING: c_uint = 2;
/// CUmemorytype.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
/// CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED.
const ALREADY_ENABLED: c_int = 704;

/// One side of CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side2d {
    x_bytes: usize,
    y: usize,
    kind: c_uint,
    host: *mut c_void,
    device: Address,
    array: Handle,
    pitch: usize,
}

/// CUDA_MEMCPY2D.
#[repr(C)]
struct Copy2d {
    from: Side2d,
    to: Side2d,
    width: usize,
    height: usize,
}

/// One side of CUDA_MEMCPY3D_PEER.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side3d {
    x_bytes: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_uint,
    host: *mut c_void,
    device: Address,
    array: Handle,
    context: Handle,
    pitch: usize,
    height: usize,
}

/// CUDA_MEMCPY3D_PEER.
#[repr(C)]
struct Copy3dPeer {
    from: Side3d,
    to: Side3d,
    width: usize,
    height: usize,
    depth: usize,
}

/// CUevent: a place in a stream's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(Handle);

/// Lines of bytes whose beginnings lie `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    pub at: Address,
    pub pitch: usize,
}

impl Lines {
    fn side(self) -> Side2d {
        // SAFETY: integers and pointers, of which all may be zero.
        Side2d { kind: DEVICE, device: self.at, pitch: self.pitch, ..unsafe { zeroed() } }
    }

    fn side_of(self, device: &Device, height: usize) -> Side3d {
        Side3d {
            kind: DEVICE,
            device: self.at,
            context: device.context(),
            pitch: self.pitch,
            height,
            // SAFETY: as above.
            ..unsafe { zeroed() }
        }
    }
}

/// Lines of the host's memory, one after the other.
fn packed(at: *mut u8, width: usize) -> Side2d {
    // SAFETY: as above.
    Side2d { kind: HOST, host: at.cast(), pitch: width, ..unsafe { zeroed() } }
}

impl Device {
    fn queues(&self) -> &Functions {
        &self.queues_of_driver().0
    }

    /// A stream that waits for no other one, and whose work goes first.
    pub fn new_stream(&self) -> Result<Stream> {
        let _entered = self.enter()?;
        let (mut least, mut greatest, mut stream) = (0, 0, 0);
        // SAFETY: valid places.
        unsafe {
            let status = (self.queues().cuCtxGetStreamPriorityRange)(&mut least, &mut greatest);
            self.check("a stream", "cuCtxGetStreamPriorityRange", status)?;
            let create = self.queues().cuStreamCreateWithPriority;
            self.check(
                "a stream",
                "cuStreamCreateWithPriority",
                create(&mut stream, NON_BLOCKING, greatest),
            )?;
        }
        Ok(Stream(stream))
    }

    /// Ends a stream of [`Device::new_stream`], which has done its work.
    pub fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a stream of this device.
        let status = unsafe { (self.queues().cuStreamDestroy_v2)(stream.0) };
        self.check("a stream", "cuStreamDestroy", status)
    }

    pub fn new_event(&self) -> Result<Event> {
        let _entered = self.enter()?;
        let mut event = 0;
        // SAFETY: a valid place.
        let status = unsafe { (self.queues().cuEventCreate)(&mut event, NO_TIMING) };
        self.check("an event", "cuEventCreate", status)?;
        Ok(Event(event))
    }

    pub fn destroy_event(&self, event: Event) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: an event of this device.
        let status = unsafe { (self.queues().cuEventDestroy_v2)(event.0) };
        self.check("an event", "cuEventDestroy", status)
    }

    /// The event stands for all that the stream has been given so far.
    pub fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: both of this device.
        let status = unsafe { (self.queues().cuEventRecord)(event.0, stream.0) };
        self.check("an event", "cuEventRecord", status)
    }

    /// What the stream is given from now on comes after what the event, of any device, stands for.
    pub fn wait_for(&self, event: Event, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a stream of this device, an event that has been recorded.
        let status = unsafe { (self.queues().cuStreamWaitEvent)(stream.0, event.0, 0) };
        self.check("an event", "cuStreamWaitEvent", status)
    }

    /// Copies `height` lines of `width` bytes within the device.
    ///
    /// # Safety
    /// They are there, are of nobody else until the stream has done it, and do not overlap.
    pub unsafe fn copy_lines(
        &self,
        to: Lines,
        from: Lines,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        self.copy_2d(to.side(), from.side(), width, height, stream)
    }

    /// The same between two devices, of which this one need not be one.
    ///
    /// # Safety
    /// As for [`Device::copy_lines`].
    pub unsafe fn copy_lines_between(
        &self,
        (to, to_device): (Lines, &Device),
        (from, from_device): (Lines, &Device),
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        if width * height == 0 {
            return Ok(());
        }
        let _entered = self.enter()?;
        if height == 1 {
            let contexts = (to_device.context(), from_device.context());
            let copy = self.queues().cuMemcpyPeerAsync;
            // SAFETY: promised by the caller.
            let status = unsafe { copy(to.at, contexts.0, from.at, contexts.1, width, stream.0) };
            return self.check("copying between devices", "cuMemcpyPeerAsync", status);
        }
        let (from, to) = (from.side_of(from_device, height), to.side_of(to_device, height));
        let copy = Copy3dPeer { from, to, width, height, depth: 1 };
        // SAFETY: promised by the caller. The driver reads the description before it returns.
        let status = unsafe { (self.queues().cuMemcpy3DPeerAsync)(&copy, stream.0) };
        self.check("copying between devices", "cuMemcpy3DPeerAsync", status)
    }

    /// Lines of the device's memory, one after the other, after waiting for all that the stream has been
    /// given.
    ///
    /// # Safety
    /// They are there.
    pub unsafe fn read_lines(
        &self,
        from: Lines,
        width: usize,
        height: usize,
        to: *mut u8,
        stream: Stream,
    ) -> Result<()> {
        self.copy_2d(packed(to, width), from.side(), width, height, stream)?;
        self.wait(stream)
    }

    /// The reverse: when it returns, `from` has been read.
    ///
    /// # Safety
    /// As for [`Device::copy_lines`].
    pub unsafe fn write_lines(
        &self,
        to: Lines,
        from: *const u8,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        self.copy_2d(to.side(), packed(from.cast_mut(), width), width, height, stream)?;
        self.wait(stream)
    }

    /// One line may be longer than the largest pitch, 2 GiB, which no line of several may.
    fn copy_2d(
        &self,
        to: Side2d,
        from: Side2d,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        if width * height == 0 {
            return Ok(());
        }
        let (_entered, functions) = (self.enter()?, self.queues());
        // SAFETY: promised by the callers. The driver reads the description before it returns.
        let (what, name, status) = unsafe {
            match (height, from.kind, to.kind) {
                (1, HOST, _) => {
                    let status =
                        (functions.cuMemcpyHtoDAsync_v2)(to.device, from.host, width, stream.0);
                    ("writing", "cuMemcpyHtoDAsync", status)
                }
                (1, _, HOST) => {
                    let status =
                        (functions.cuMemcpyDtoHAsync_v2)(to.host, from.device, width, stream.0);
                    ("reading", "cuMemcpyDtoHAsync", status)
                }
                (1, _, _) => return self.copy(to.device, from.device, width, stream),
                _ => {
                    let copy = Copy2d { from, to, width, height };
                    let status = (functions.cuMemcpy2DAsync_v2)(&copy, stream.0);
                    ("copying", "cuMemcpy2DAsync", status)
                }
            }
        };
        self.check(what, name, status)
    }

    /// Sets lines of bytes to zero.
    ///
    /// # Safety
    /// As for [`Device::copy_lines`].
    pub unsafe fn clear_lines(
        &self,
        at: Lines,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        if width * height == 0 {
            return Ok(());
        }
        let _entered = self.enter()?;
        let clear = self.queues().cuMemsetD2D8Async;
        // SAFETY: promised by the caller.
        let status = unsafe { clear(at.at, at.pitch, 0, width, height, stream.0) };
        self.check("clearing memory", "cuMemsetD2D8Async", status)
    }

    /// Lets kernels of this device follow addresses of another one.
    pub fn reach(&self, other: &Device) -> Result<()> {
        if self.context() == other.context() {
            return Ok(());
        }
        let _entered = self.enter()?;
        // SAFETY: a context that is never destroyed.
        match unsafe { (self.queues().cuCtxEnablePeerAccess)(other.context(), 0) } {
            ALREADY_ENABLED => Ok(()),
            status => {
                let what = format!("reaching the memory of {}", other.name());
                self.check(&what, "cuCtxEnablePeerAccess", status)
            }
        }
    }
}
