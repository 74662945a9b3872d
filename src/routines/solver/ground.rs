//! Where a call works: the memory of its operands, and scratch beside it.

use super::sizes::Sizes;
use crate::backend::host::Scratch;
use crate::backend::memory::{HostMemory, Memory};
use crate::error::Result;
use crate::scalar::Scalar;

pub struct Ground<T> {
    pub memory: Box<dyn Memory>,
    /// Scratch of each lane, of `Sizes::own` elements.
    pub own: Vec<*mut T>,
    /// What the phases share: staging columns of the redistribution, the lanes' partial sums, scratch of
    /// the transposition, one after another.
    pub shared: *mut T,
    /// Row interchanges where they are neither operand nor result.
    pub pivots: *mut i32,
    /// The lanes' sums of rows, zeros at first; none where the call needs none.
    pub row_sums: Vec<*mut f64>,
    /// What of it is to be freed after the call.
    _held: Option<Held<T>>,
}

// SAFETY: addresses; the phases of the routine say which lane uses which part.
unsafe impl<T> Send for Ground<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Ground<T> {}

struct Held<T> {
    _scratch: Scratch<T>,
    _row_sums: Scratch<f64>,
    _pivots: Vec<i32>,
}

impl<T: Scalar> Ground<T> {
    /// Memory of devices, which somebody else frees after the call.
    pub fn on_devices(
        memory: Box<dyn Memory>,
        own: Vec<*mut T>,
        shared: *mut T,
        pivots: *mut i32,
        row_sums: Vec<*mut f64>,
    ) -> Self {
        Ground { memory, own, shared, pivots, row_sums, _held: None }
    }

    /// Memory of the host.
    pub fn host(sizes: &Sizes) -> Result<Self> {
        let Sizes { lanes, own, shared, .. } = *sizes;
        let scratch = Scratch::new(lanes * own + shared)?;
        let row_sums = Scratch::new(sizes.row_sums * lanes)?;
        let mut pivots = vec![0; sizes.pivots];
        let sums = if sizes.row_sums > 0 { 0..lanes } else { 0..0 };
        Ok(Ground {
            memory: Box::new(HostMemory),
            own: (0..lanes).map(|lane| scratch.at(lane * own)).collect(),
            shared: scratch.at(lanes * own),
            pivots: pivots.as_mut_ptr(),
            row_sums: sums.map(|lane| row_sums.at(lane * sizes.row_sums)).collect(),
            _held: Some(Held { _scratch: scratch, _row_sums: row_sums, _pivots: pivots }),
        })
    }
}
