//! Further streams, events by which streams wait for each other, and copies of blocks within a
//! device and between devices. Functions wait only where their comments state it.

use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

use cudarc::driver::sys;
use sys::CUmemorytype::{CU_MEMORYTYPE_DEVICE as DEVICE, CU_MEMORYTYPE_HOST as HOST};

use super::Device;
use crate::device::cuda::handle::{Address, Handle, Stream};
use crate::device::cuda::load::{self, call, functions};
use crate::error::{Error, Kind, Result};

functions! {
    cuCtxGetStreamPriorityRange cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamWaitEvent
    cuEventCreate cuEventRecord cuEventDestroy_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyPeerAsync cuMemcpy2DAsync_v2 cuMemcpy3DPeerAsync cuMemsetD2D8Async cuCtxEnablePeerAccess
    cuMemGetAccess cuLaunchHostFunc
}

pub(super) struct Queues(Functions);

impl Queues {
    pub(super) fn of(library: &load::Library) -> Result<Queues> {
        Functions::of(library).map(Queues)
    }
}

const NON_BLOCKING: c_uint = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
const NO_TIMING: c_uint = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
const ALREADY_ENABLED: c_int = sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as c_int;
const UNSUPPORTED: c_int = sys::CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED as c_int;
const TOO_MANY: c_int = sys::CUresult::CUDA_ERROR_TOO_MANY_PEERS as c_int;
const READ_AND_WRITE: u64 = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u64;

/// A point in a stream's work.
pub type Event = Handle<sys::CUevent>;

/// Lines of bytes that begin `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    pub at: Address,
    pub pitch: usize,
}

/// One side of a copy of lines: the host's memory or the device's.
struct Side {
    kind: sys::CUmemorytype,
    host: *mut c_void,
    device: Address,
    pitch: usize,
}

impl Lines {
    fn side(self) -> Side {
        Side { kind: DEVICE, host: null_mut(), device: self.at, pitch: self.pitch }
    }
}

/// Lines of the host's memory, one after the other.
fn packed(at: *mut u8, width: usize) -> Side {
    Side { kind: HOST, host: at.cast(), device: 0, pitch: width }
}

impl Device {
    fn queues(&self) -> &Functions {
        &self.interface.queues.0
    }

    /// A stream that waits for no other one. Its work has the highest priority.
    pub fn new_stream(&self) -> Result<Stream> {
        let (_entered, queues) = (self.enter()?, self.queues());
        let (mut least, mut greatest, mut stream) = (0, 0, null_mut());
        // SAFETY: writes local variables. The stream exists until its owner, `Tools`, destroys it.
        unsafe {
            let status = call!(queues, cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
            self.check("a stream", "cuCtxGetStreamPriorityRange", status)?;
            let out = &mut stream;
            let status = call!(queues, cuStreamCreateWithPriority(out, NON_BLOCKING, greatest));
            self.check("a stream", "cuStreamCreateWithPriority", status)?;
            Ok(Stream::new(stream))
        }
    }

    /// Ends a stream of [`Device::new_stream`] that has done its work.
    pub fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a stream of this device. Its owner, `Tools`, does not use it again.
        let status = unsafe { call!(self.queues(), cuStreamDestroy_v2(stream.raw())) };
        self.check("a stream", "cuStreamDestroy", status)
    }

    pub fn new_event(&self) -> Result<Event> {
        let _entered = self.enter()?;
        let mut event = null_mut();
        // SAFETY: writes a local variable. The event exists until its owner destroys it: `Tools`,
        // or the function of `CudaMemory` that has made it.
        unsafe {
            let status = call!(self.queues(), cuEventCreate(&mut event, NO_TIMING));
            self.check("an event", "cuEventCreate", status)?;
            Ok(Event::new(event))
        }
    }

    pub fn destroy_event(&self, event: Event) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: an event of this device. Its owner, see `new_event`, does not use it again.
        let status = unsafe { call!(self.queues(), cuEventDestroy_v2(event.raw())) };
        self.check("an event", "cuEventDestroy", status)
    }

    /// The event marks all work that the stream has now.
    pub fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the makers of both promise that they exist. The driver refuses other contexts'.
        let status = unsafe { call!(self.queues(), cuEventRecord(event.raw(), stream.raw())) };
        self.check("an event", "cuEventRecord", status)
    }

    /// Later work of the stream runs after the work that the event, of any device, marks.
    pub fn wait_for(&self, event: Event, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the makers of both promise that they exist. Without a record there is no wait.
        let status =
            unsafe { call!(self.queues(), cuStreamWaitEvent(stream.raw(), event.raw(), 0)) };
        self.check("an event", "cuStreamWaitEvent", status)
    }

    /// Runs `work` on a thread of the driver once the stream has done all that it has now. After a
    /// failure of the stream it never runs. It may not call the driver.
    pub fn run_after<W: FnOnce() + Send + 'static>(&self, stream: Stream, work: W) -> Result<()> {
        unsafe extern "C" fn run<W: FnOnce()>(work: *mut c_void) {
            // SAFETY: the driver calls this once, with the pointer that it was given.
            let work = unsafe { Box::from_raw(work.cast::<W>()) };
            // A panic may not reach the driver.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
        let _entered = self.enter()?;
        let work = Box::into_raw(Box::new(work)).cast();
        // SAFETY: the work is `Send`, has no references, and is lost if the stream fails.
        let status =
            unsafe { call!(self.queues(), cuLaunchHostFunc(stream.raw(), Some(run::<W>), work)) };
        let launched = self.check("a function of the host", "cuLaunchHostFunc", status);
        if launched.is_err() {
            // SAFETY: the driver has refused it, and will not call it.
            drop(unsafe { Box::from_raw(work.cast::<W>()) });
        }
        launched
    }

    /// Copies `height` lines of `width` bytes within the device.
    ///
    /// # Safety
    /// The lines exist and do not overlap. No other work uses them until the stream has done this.
    pub unsafe fn copy_lines(
        &self,
        to: Lines,
        from: Lines,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        match (width * height, height) {
            (0, _) => Ok(()),
            // SAFETY: the caller promises the lines.
            (_, 1) => unsafe { self.copy(to.at, from.at, width, stream) },
            _ => {
                // SAFETY: the caller promises the lines.
                unsafe { self.copy_2d("copying", to.side(), from.side(), width, height, stream) }
            }
        }
    }

    /// The same between two devices. This device may be a third one.
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
        let (_entered, queues, what) = (self.enter()?, self.queues(), "copying between devices");
        let (target, source) =
            (to_device.context().handle().raw(), from_device.context().handle().raw());
        if height == 1 {
            let (to, from) = (to.at, from.at);
            // SAFETY: the caller promises the lines.
            let status = unsafe {
                call!(queues, cuMemcpyPeerAsync(to, target, from, source, width, stream.raw()))
            };
            return self.check(what, "cuMemcpyPeerAsync", status);
        }
        let copy = sys::CUDA_MEMCPY3D_PEER {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: DEVICE,
            srcHost: null(),
            srcDevice: from.at,
            srcArray: null_mut(),
            srcContext: source,
            srcPitch: from.pitch,
            srcHeight: height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: DEVICE,
            dstHost: null_mut(),
            dstDevice: to.at,
            dstArray: null_mut(),
            dstContext: target,
            dstPitch: to.pitch,
            dstHeight: height,
            WidthInBytes: width,
            Height: height,
            Depth: 1,
        };
        // SAFETY: the caller promises the lines. The driver reads the description before it
        // returns.
        let status = unsafe { call!(queues, cuMemcpy3DPeerAsync(&copy, stream.raw())) };
        self.check(what, "cuMemcpy3DPeerAsync", status)
    }

    /// Reads lines of the device's memory, packed, after waiting for all work of the stream.
    ///
    /// # Safety
    /// The lines exist, and `to` has room.
    pub unsafe fn read_lines(
        &self,
        from: Lines,
        width: usize,
        height: usize,
        to: *mut u8,
        stream: Stream,
    ) -> Result<()> {
        if width * height > 0 && height == 1 {
            let _entered = self.enter()?;
            let (to, from, stream) = (to.cast(), from.at, stream.raw());
            // SAFETY: the caller promises lines and room.
            let status =
                unsafe { call!(self.queues(), cuMemcpyDtoHAsync_v2(to, from, width, stream)) };
            self.check("reading", "cuMemcpyDtoHAsync", status)?;
        } else if width * height > 0 {
            // SAFETY: the caller promises lines and room.
            unsafe {
                self.copy_2d("reading", packed(to, width), from.side(), width, height, stream)?
            };
        }
        self.wait(stream)
    }

    /// The reverse: on return, `from` has been read.
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
        if width * height > 0 && height == 1 {
            let _entered = self.enter()?;
            let (to, from, stream) = (to.at, from.cast(), stream.raw());
            // SAFETY: the caller promises the lines.
            let status =
                unsafe { call!(self.queues(), cuMemcpyHtoDAsync_v2(to, from, width, stream)) };
            self.check("writing", "cuMemcpyHtoDAsync", status)?;
        } else if width * height > 0 {
            // SAFETY: the caller promises the lines.
            unsafe {
                self.copy_2d(
                    "writing",
                    to.side(),
                    packed(from.cast_mut(), width),
                    width,
                    height,
                    stream,
                )?
            };
        }
        self.wait(stream)
    }

    /// Several lines. A single one may exceed the largest pitch, 2 GiB, which these may not.
    ///
    /// # Safety
    /// As for [`Device::copy_lines`].
    unsafe fn copy_2d(
        &self,
        what: &str,
        to: Side,
        from: Side,
        width: usize,
        height: usize,
        stream: Stream,
    ) -> Result<()> {
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: from.kind,
            srcHost: from.host,
            srcDevice: from.device,
            srcArray: null_mut(),
            srcPitch: from.pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: to.kind,
            dstHost: to.host,
            dstDevice: to.device,
            dstArray: null_mut(),
            dstPitch: to.pitch,
            WidthInBytes: width,
            Height: height,
        };
        let _entered = self.enter()?;
        // SAFETY: the caller promises the lines. The driver reads the description before it
        // returns.
        let status = unsafe { call!(self.queues(), cuMemcpy2DAsync_v2(&copy, stream.raw())) };
        self.check(what, "cuMemcpy2DAsync", status)
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
        let Lines { at, pitch } = at;
        // SAFETY: the caller promises the lines.
        let status = unsafe {
            call!(self.queues(), cuMemsetD2D8Async(at, pitch, 0, width, height, stream.raw()))
        };
        self.check("clearing memory", "cuMemsetD2D8Async", status)
    }

    /// Lets kernels of this device use addresses of another one, including those of given pieces of
    /// memory. Access to the other context does not imply access to memory that is mapped address
    /// by address, as JAX's is.
    pub fn reach(&self, other: &Device, mut memory: impl Iterator<Item = Address>) -> Result<()> {
        if self.context().handle() == other.context().handle() {
            return Ok(());
        }
        let _entered = self.enter()?;
        // SAFETY: `Devices` promises that the context is never destroyed.
        let status = unsafe {
            call!(self.queues(), cuCtxEnablePeerAccess(other.context().handle().raw(), 0))
        };
        match status {
            0 | ALREADY_ENABLED if memory.all(|at| self.may_access(at)) => Ok(()),
            0 | ALREADY_ENABLED => Err(self.apart(other, "memory that is not mapped for it")),
            UNSUPPORTED | TOO_MANY => Err(self.apart(other, &self.driver().text(status))),
            status => {
                let what = format!("reaching the memory of {}", other.name());
                self.check(&what, "cuCtxEnablePeerAccess", status)
            }
        }
    }

    /// Whether kernels may use an address of another device that this one reaches. The driver has
    /// no answer for memory that is not mapped address by address; all of it is accessible.
    fn may_access(&self, at: Address) -> bool {
        let location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            __bindgen_anon_1: sys::CUmemLocation_st__bindgen_ty_1 { id: self.number() },
        };
        let mut flags = 0;
        // SAFETY: local variables; the address is not dereferenced.
        let status = unsafe { call!(self.queues(), cuMemGetAccess(&mut flags, &location, at)) };
        status != 0 || flags == READ_AND_WRITE
    }

    fn apart(&self, other: &Device, got: &str) -> Error {
        let text = format!(
            "meshsolve: {}: expected to reach the memory of {}, got {got}; an LU factor of a matrix by rows \
             and engine=\"cusolvermg\" need GPUs with peer access (nvidia-smi topo -p2p r shows them): give \
             A by columns, leave engine=None, or use a mesh of such GPUs",
            self.name(),
            other.name()
        );
        Error::new(Kind::FailedPrecondition, text)
    }
}
