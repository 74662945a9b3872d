//! The pointers by which CUDA's libraries name their objects, each kind with a type of its own.

use cudarc::driver::sys;

/// An address in a device's memory: CUdeviceptr.
pub type Address = u64;

/// Work on a device, in order.
pub type Stream = Handle<sys::CUstream>;

/// A pointer of cudarc's type `P`, such as `CUcontext`, to an object of a library. A handle of
/// another kind does not compile in its place.
///
/// ```
/// # use cudarc::driver::sys::{CUevent, CUstream};
/// # use meshsolve::embedding::Stream;
/// let stream: unsafe fn(CUstream) -> Stream = Stream::new;
/// ```
///
/// An event is no stream:
///
/// ```compile_fail,E0308
/// # use cudarc::driver::sys::{CUevent, CUstream};
/// # use meshsolve::embedding::Stream;
/// let stream: unsafe fn(CUevent) -> Stream = Stream::new;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle<P>(P);

// SAFETY: a handle is only the pointer's value. The library alone dereferences it, in `unsafe`
// calls. Each of these states why this thread may make it.
unsafe impl<S> Send for Handle<*mut S> {}
// SAFETY: nothing changes a handle.
unsafe impl<S> Sync for Handle<*mut S> {}

impl<S> Handle<*mut S> {
    /// # Safety
    /// The library gave the pointer, or takes this null one for an object (a default stream). The
    /// object exists for as long as the handle or a copy is used. Every call with a handle relies
    /// on that.
    pub unsafe fn new(raw: *mut S) -> Self {
        Handle(raw)
    }

    /// The pointer, for a call of the library.
    pub fn raw(self) -> *mut S {
        self.0
    }
}
