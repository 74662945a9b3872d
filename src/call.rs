//! One device's part of a call as plain data, and the job that combines the parts of all devices.
//! The layers below the FFI border know nothing else of XLA.

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::matrix::Cells;
use crate::scalar::DType;

/// An array of one device: row-major `dims`, `dtype`, address.
#[derive(Clone, Debug)]
pub struct Buffer {
    first: *mut u8,
    dtype: DType,
    dims: Vec<usize>,
    /// The rank that has it, from [`Call::new`] on.
    rank: usize,
}

// SAFETY: an address and its description. Views of it keep their own promises between threads.
unsafe impl Send for Buffer {}
// SAFETY: the same; nothing here changes.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Safety
    /// *Memory* (see [`Cells`]): `first` is aligned, and initialised elements of that number and
    /// dtype follow it in one allocation of the device. Until the call has its reply, the memory
    /// lives, and only the call accesses it. Two buffers of a call are the same memory or disjoint.
    /// No view of this buffer or of a clone is used after the reply. It is memory of the rank whose
    /// call takes it.
    pub unsafe fn new(first: *mut u8, dtype: DType, dims: Vec<usize>) -> Buffer {
        Buffer { first, dtype, dims, rank: 0 }
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.first
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// The elements in any layout. T has their size; panics where the layout leaves the array.
    pub fn cells<T: Pod>(&self, layout: &Layout) -> Cells<'_, T> {
        assert_eq!(size_of::<T>(), self.dtype.size(), "elements of {}", self.describe());
        assert!(layout.cosize() <= self.elements(), "{layout} leaves {}", self.describe());
        let first = self.first.cast::<T>();
        assert!(first.is_aligned(), "aligned elements of {}", self.describe());
        // SAFETY: *memory*, promised to `new`. Any bits are a T.
        unsafe { Cells::new(first, layout, self.rank) }
    }

    /// All elements as a column.
    pub fn column<T: Pod>(&self) -> Cells<'_, T> {
        self.cells(&Layout::left((self.elements(), 1)))
    }

    /// A matrix as its rows follow each other.
    pub fn by_rows<T: Pod>(&self) -> Cells<'_, T> {
        self.cells(&Layout::right((self.dims[0], self.dims[1])))
    }

    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    pub fn describe(&self) -> String {
        describe(self.dtype, &self.dims)
    }

    pub fn check(&self, routine: &str, what: &str, dtype: DType, dims: &[usize]) -> Result<()> {
        if self.dtype == dtype && self.dims == dims {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "meshsolve.{routine}: {what}: expected {}, got {}",
            describe(dtype, dims),
            self.describe()
        )))
    }
}

/// As messages name an array: `float64[8,2]`.
fn describe(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("{}[{}]", dtype.name(), dims.join(","))
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
    ///
    /// # Safety
    /// *Order* (see [`Cells`]): it runs once for each number, all before `finish`.
    unsafe fn run(&self, worker: usize) -> Result<()>;
    /// Wakes every waiting worker after one has failed.
    fn stop(&self);
    /// The library calls this once, after every worker has returned without an error.
    fn finish(&self) -> Result<()>;
}

impl Call {
    /// All buffers are memory of this rank.
    pub fn new(rank: usize, device: i32, args: Vec<Buffer>, rets: Vec<Buffer>) -> Call {
        let of_rank = |buffers: Vec<Buffer>| {
            buffers.into_iter().map(|buffer| Buffer { rank, ..buffer }).collect()
        };
        Call { rank, device, args: of_rank(args), rets: of_rank(rets) }
    }

    /// Copies operand `arg` to result `ret`. It does nothing where XLA has aliased them.
    ///
    /// # Safety
    /// Memory of the CPU. *Order* (see [`Cells`]): nothing else accesses the two meanwhile.
    pub unsafe fn pass_through(&self, arg: usize, ret: usize) {
        let (from, to) = (&self.args[arg], &self.rets[ret]);
        assert_eq!(from.bytes(), to.bytes(), "an operand and a result of the same size");
        if from.first != to.first {
            // SAFETY: *memory* of both, which are disjoint, promised to `Buffer::new`. The caller
            // promises *order*.
            unsafe { std::ptr::copy_nonoverlapping(from.first, to.first, from.bytes()) };
        }
    }

    pub fn is_aliased(&self, arg: usize, ret: usize) -> bool {
        self.args[arg].first == self.rets[ret].first
    }
}
