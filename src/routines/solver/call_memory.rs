//! The memory of a call: that of its operands, and its scratch.

use bytemuck::Pod;

use super::sizes::Sizes;
use crate::device::cpu::Scratch;
use crate::device::cuda::rank_scratch::RankScratch;
use crate::device::memory::{CpuMemory, Memory};
use crate::error::Result;
use crate::layout::Layout;
use crate::matrix::Cells;
use crate::scalar::Scalar;
use crate::settings::Float64;
use crate::stats::visible;

/// Parts of the scratch of CPU devices begin at multiples of this, in bytes.
const ALIGNMENT: usize = 64;

pub struct CallMemory {
    pub memory: Box<dyn Memory>,
    scratch: Held,
    /// Devices of this kind that the process sees.
    pub visible: usize,
    /// How these devices multiply float64.
    pub float64: Float64,
}

/// A region of the scratch.
#[derive(Clone, Copy, Debug)]
pub enum Region {
    /// That of one worker, of `Sizes::own` elements, but for stages that take [`CallMemory::of_workers`].
    Own(usize),
    /// That which the phases use in turn, in the memory that a worker reaches: staging columns of the
    /// redistribution, partial sums, scratch of the transposition, vectors of an estimate, panels
    /// and products of an inverse.
    Shared(usize),
    /// The sums of one worker, initially zeros.
    Sums(usize),
    /// Row interchanges where they are neither operand nor result, in the memory that a worker
    /// reaches.
    Pivots(usize),
}

enum Held {
    /// In the order of [`Region`]; with the bytes before the last two.
    Cpu { scratch: Scratch, sums: usize, pivots: usize },
    /// By rank.
    Devices(Vec<RankScratch>),
}

impl CallMemory {
    /// Memory of devices.
    ///
    /// # Safety
    /// *Memory* (see [`Cells`]): the parts have the bytes of their `needs`, until this is dropped.
    pub unsafe fn on_devices(
        memory: Box<dyn Memory>,
        scratches: Vec<RankScratch>,
        float64: Float64,
    ) -> Self {
        CallMemory { memory, scratch: Held::Devices(scratches), visible: visible(true), float64 }
    }

    /// Memory of CPU devices.
    pub fn host<T: Scalar>(sizes: &Sizes) -> Result<Self> {
        let count = sizes.workers * sizes.sums;
        let sums = (sizes.scratch() * size_of::<T>()).next_multiple_of(ALIGNMENT);
        let pivots = (sums + count * size_of::<f64>()).next_multiple_of(ALIGNMENT);
        let scratch = Scratch::new(pivots + sizes.pivots * size_of::<i32>())?;
        // SAFETY: *order*, as no worker has begun.
        unsafe { scratch.cells::<f64>(sums, count).write().fill(0.0) };
        Ok(CallMemory {
            memory: Box::new(CpuMemory),
            scratch: Held::Cpu { scratch, sums, pivots },
            visible: visible(false),
            float64: Float64::Native,
        })
    }

    /// The regions `Own` and `Shared` of all CPU workers together, as a column. A stage that takes it has
    /// barriers before and after.
    pub fn of_workers<T: Pod>(&self, sizes: &Sizes) -> Cells<'_, T> {
        match &self.scratch {
            Held::Cpu { scratch, .. } => scratch.cells(0, sizes.scratch()),
            Held::Devices(_) => panic!("devices have no scratch together"),
        }
    }

    /// A region of the scratch, as a column.
    pub fn region<T: Pod>(&self, sizes: &Sizes, region: Region) -> Cells<'_, T> {
        let &Sizes { workers, own, shared, sums, pivots, .. } = sizes;
        let size = size_of::<T>();
        let count = match region {
            Region::Own(_) => own,
            Region::Shared(_) => shared,
            Region::Sums(_) => sums,
            Region::Pivots(_) => pivots,
        };
        match &self.scratch {
            Held::Cpu { scratch, sums, pivots } => {
                let at = match region {
                    Region::Own(worker) => worker * own * size,
                    Region::Shared(_) => workers * own * size,
                    Region::Sums(worker) => sums + worker * count * size,
                    Region::Pivots(_) => *pivots,
                };
                scratch.cells(at, count)
            }
            Held::Devices(ranks) => {
                let (Region::Own(rank)
                | Region::Sums(rank)
                | Region::Shared(rank)
                | Region::Pivots(rank)) = region;
                let of = &ranks[rank];
                let (at, room) = match region {
                    Region::Own(_) => (of.own, of.needs.own),
                    Region::Shared(_) => (of.shared, of.needs.shared),
                    Region::Sums(_) => (of.sums, of.needs.sums),
                    Region::Pivots(_) => (of.pivots, of.needs.pivots),
                };
                assert!(count * size <= room, "inside the scratch");
                let first = std::ptr::without_provenance_mut(at as usize);
                // SAFETY: *memory*, promised to `on_devices`. Any bits are a T.
                unsafe { Cells::new(first, &Layout::left((count, 1)), rank) }
            }
        }
    }
}
