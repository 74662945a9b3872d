//! The memory of a call: that of its operands, and its scratch.

use super::sizes::Sizes;
use crate::device::cpu::Scratch;
use crate::device::memory::{CpuMemory, Memory};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::settings::Float64;
use crate::stats::visible;

pub struct CallMemory<T> {
    pub memory: Box<dyn Memory>,
    /// Scratch of each worker, of `Sizes::own` elements.
    pub own: Vec<*mut T>,
    /// Scratch that the phases use in turn: staging columns of the redistribution, the workers'
    /// partial sums, scratch of the transposition.
    pub shared: *mut T,
    /// Row interchanges where they are neither operand nor result.
    pub pivots: *mut i32,
    /// The workers' sums, initially zeros; empty where the call needs none.
    pub sums: Vec<*mut f64>,
    /// Devices of this kind that the process sees.
    pub visible: usize,
    /// How these devices multiply float64.
    pub float64: Float64,
    /// The part of this memory to be freed after the call.
    _held: Option<Held<T>>,
}

// SAFETY: addresses. The phases of the routine determine which worker uses which part.
unsafe impl<T> Send for CallMemory<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for CallMemory<T> {}

struct Held<T> {
    _scratch: Scratch<T>,
    _sums: Vec<f64>,
    _pivots: Vec<i32>,
}

impl<T: Scalar> CallMemory<T> {
    /// Memory of devices; the caller keeps it until the call ends.
    pub fn on_devices(
        memory: Box<dyn Memory>,
        own: Vec<*mut T>,
        shared: *mut T,
        pivots: *mut i32,
        sums: Vec<*mut f64>,
        float64: Float64,
    ) -> Self {
        CallMemory {
            memory,
            own,
            shared,
            pivots,
            sums,
            visible: visible(true),
            float64,
            _held: None,
        }
    }

    /// Memory of CPU devices.
    pub fn host(sizes: &Sizes) -> Result<Self> {
        let Sizes { workers, own, shared, .. } = *sizes;
        let scratch = Scratch::new(workers * own + shared)?;
        let mut sums = vec![0.0; sizes.sums * workers];
        let mut pivots = vec![0; sizes.pivots];
        let each = sizes.sums.max(1);
        Ok(CallMemory {
            memory: Box::new(CpuMemory),
            own: (0..workers).map(|worker| scratch.at(worker * own)).collect(),
            shared: scratch.at(workers * own),
            pivots: pivots.as_mut_ptr(),
            sums: sums.chunks_exact_mut(each).map(|own| own.as_mut_ptr()).collect(),
            visible: visible(false),
            float64: Float64::Native,
            _held: Some(Held { _scratch: scratch, _sums: sums, _pivots: pivots }),
        })
    }
}
