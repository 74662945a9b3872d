//! Where a call works: the memory of its operands, and scratch beside it.

use super::sizes::Sizes;
use crate::device::cpu::Scratch;
use crate::device::memory::{CpuMemory, Memory};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::settings::Float64;
use crate::stats::visible;

pub struct Ground<T> {
    pub memory: Box<dyn Memory>,
    /// Scratch of each worker, of `Sizes::own` elements.
    pub own: Vec<*mut T>,
    /// What the phases share: staging columns of the redistribution, the workers' partial sums, scratch of
    /// the transposition, one after another.
    pub shared: *mut T,
    /// Row interchanges where they are neither operand nor result.
    pub pivots: *mut i32,
    /// The workers' sums, zeros at first; none where the call needs none.
    pub sums: Vec<*mut f64>,
    /// Devices of this kind that the process sees.
    pub visible: usize,
    /// How float64 is multiplied there.
    pub float64: Float64,
    /// What of it is to be freed after the call.
    _held: Option<Held<T>>,
}

// SAFETY: addresses; the phases of the routine say which worker uses which part.
unsafe impl<T> Send for Ground<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Ground<T> {}

struct Held<T> {
    _scratch: Scratch<T>,
    _sums: Vec<f64>,
    _pivots: Vec<i32>,
}

impl<T: Scalar> Ground<T> {
    /// Memory of devices, which somebody else frees after the call.
    pub fn on_devices(
        memory: Box<dyn Memory>,
        own: Vec<*mut T>,
        shared: *mut T,
        pivots: *mut i32,
        sums: Vec<*mut f64>,
        float64: Float64,
    ) -> Self {
        Ground { memory, own, shared, pivots, sums, visible: visible(true), float64, _held: None }
    }

    /// Memory of the host.
    pub fn host(sizes: &Sizes) -> Result<Self> {
        let Sizes { workers, own, shared, .. } = *sizes;
        let scratch = Scratch::new(workers * own + shared)?;
        let mut sums = vec![0.0; sizes.sums * workers];
        let mut pivots = vec![0; sizes.pivots];
        let each = sizes.sums.max(1);
        Ok(Ground {
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
