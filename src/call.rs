//! One device's part of a call as plain data, and the job that all parts together become. This is
//! all that the layers below the FFI border know of XLA.

use crate::error::{Error, Result};
use crate::scalar::DType;

/// An array of one device: row-major `dims`, `dtype`, address.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub ptr: *mut u8,
    pub dtype: DType,
    pub dims: Vec<usize>,
}

// SAFETY: an address and its description; XLA keeps the memory alive until the call is answered.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn bytes(&self) -> usize {
        self.dims.iter().product::<usize>() * self.dtype.size()
    }

    /// `float64[8,2]`, as messages name an array.
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
    /// `None` if there is no such attribute or it is no integer.
    fn int(&self, name: &str) -> Option<i64>;
    /// `None` if there is no such attribute or it is no string.
    fn text(&self, name: &str) -> Option<String>;
    /// How many attributes there are.
    fn count(&self) -> usize;
}

/// What one device brings to a call.
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

/// Where scratch in a device's memory comes from. It goes back when the handler returns, which is why only
/// work on the handler's own stream may use it.
pub trait Allocate {
    /// The address of so many bytes at a multiple of 16; `None` if there are not as many.
    fn allocate(&mut self, bytes: usize) -> Option<u64>;
}

/// The work of one call, done by `workers` threads at once.
pub trait Job: Send + Sync {
    fn workers(&self) -> usize;
    /// The part of worker `worker`; it may wait for other workers of the same job and for nothing else.
    fn run(&self, worker: usize) -> Result<()>;
    /// Wakes every waiting worker because one has failed.
    fn stop(&self);
    /// Called once, after every worker has returned without an error.
    fn finish(&self) -> Result<()>;
}

impl Call {
    /// Result `ret` starts as operand `arg`; nothing to do where XLA has aliased them.
    pub fn pass_through(&self, arg: usize, ret: usize) {
        let (from, to) = (&self.args[arg], &self.rets[ret]);
        debug_assert_eq!(from.bytes(), to.bytes());
        if from.ptr != to.ptr {
            // SAFETY: XLA's buffers are either one and the same or disjoint, equal in size (checked
            // when the job was prepared), and stay alive until the call is answered.
            unsafe { std::ptr::copy_nonoverlapping(from.ptr, to.ptr, from.bytes()) };
        }
    }

    pub fn is_aliased(&self, arg: usize, ret: usize) -> bool {
        self.args[arg].ptr == self.rets[ret].ptr
    }
}
