//! One device's part of a call as plain data, and the job that combines the parts of all devices.
//! The layers below the FFI border know nothing else of XLA.

use crate::error::{Error, Result};
use crate::scalar::DType;

/// An array of one device: row-major `dims`, `dtype`, address.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub ptr: *mut u8,
    pub dtype: DType,
    pub dims: Vec<usize>,
}

// SAFETY: an address and its description. XLA keeps the memory alive until the handler's future
// completes.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn bytes(&self) -> usize {
        self.dims.iter().product::<usize>() * self.dtype.size()
    }

    /// As messages name an array: `float64[8,2]`.
    pub fn describe(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        format!("{}[{}]", self.dtype.name(), dims.join(","))
    }

    pub fn check(&self, routine: &str, what: &str, dtype: DType, dims: &[usize]) -> Result<()> {
        if self.dtype == dtype && self.dims == dims {
            return Ok(());
        }
        let expected = Buffer { ptr: self.ptr, dtype, dims: dims.to_vec() };
        Err(Error::invalid(format!(
            "meshsolve.{routine}: {what}: expected {}, got {}",
            expected.describe(),
            self.describe()
        )))
    }
}

/// The attributes of a call site, equal on all devices by construction.
pub trait Attributes {
    /// `None` if the attribute does not exist or is no integer.
    fn int(&self, name: &str) -> Option<i64>;
    /// `None` if the attribute does not exist or is no string.
    fn text(&self, name: &str) -> Option<String>;
    /// The number of attributes.
    fn count(&self) -> usize;
}

/// One device's part of a call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Position along the mesh axis, from 0.
    pub rank: usize,
    /// XLA's number of the device, for messages.
    pub device: i32,
    /// Operands and results without the leading `place` operand.
    pub args: Vec<Buffer>,
    pub rets: Vec<Buffer>,
}

/// The source of scratch in a device's memory. XLA frees the scratch when the handler returns.
/// Therefore only work on the handler's own stream may use it.
pub trait Allocate {
    /// The address of `bytes` bytes, a multiple of 16; `None` if the memory is too small.
    fn allocate(&mut self, bytes: usize) -> Option<u64>;
}

/// The work of one call. `workers` threads run it at the same time.
pub trait Job: Send + Sync {
    fn workers(&self) -> usize;
    /// Runs the part of worker `worker`. It may wait only for other workers of the same job.
    fn run(&self, worker: usize) -> Result<()>;
    /// Wakes every waiting worker after one has failed.
    fn stop(&self);
    /// The library calls this once, after every worker has returned without an error.
    fn finish(&self) -> Result<()>;
}

impl Call {
    /// Copies operand `arg` to result `ret`. It does nothing where XLA has aliased them.
    pub fn pass_through(&self, arg: usize, ret: usize) {
        let (from, to) = (&self.args[arg], &self.rets[ret]);
        debug_assert_eq!(from.bytes(), to.bytes());
        if from.ptr != to.ptr {
            // SAFETY: XLA's buffers are either identical or disjoint, and stay alive until the
            // future completes. The routine has checked that their sizes are equal when it prepared
            // the job.
            unsafe { std::ptr::copy_nonoverlapping(from.ptr, to.ptr, from.bytes()) };
        }
    }

    pub fn is_aliased(&self, arg: usize, ret: usize) -> bool {
        self.args[arg].ptr == self.rets[ret].ptr
    }
}
