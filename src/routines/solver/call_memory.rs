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
    scratch: Parts,
    /// Devices of this kind that the process sees.
    pub visible: usize,
    /// How these devices multiply float64.
    pub float64: Float64,
}

/// A part of the scratch.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// That of one worker, of `Sizes::own` elements.
    Own(usize),
    /// That which the phases use in turn: staging columns of the redistribution, the workers'
    /// partial sums, scratch of the transposition.
    Shared,
    /// The sums of one worker, initially zeros.
    Sums(usize),
    /// Row interchanges where they are neither operand nor result.
    Pivots,
}

enum Parts {
    /// In the order of [`Part`]; with the bytes before the last two.
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
        CallMemory { memory, scratch: Parts::Devices(scratches), visible: visible(true), float64 }
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
            scratch: Parts::Cpu { scratch, sums, pivots },
            visible: visible(false),
            float64: Float64::Native,
        })
    }

    /// A part of the scratch, as a column.
    pub fn part<T: Pod>(&self, sizes: &Sizes, part: Part) -> Cells<'_, T> {
        let &Sizes { workers, own, shared, sums, pivots, .. } = sizes;
        let size = size_of::<T>();
        let count = match part {
            Part::Own(_) => own,
            Part::Shared => shared,
            Part::Sums(_) => sums,
            Part::Pivots => pivots,
        };
        match &self.scratch {
            Parts::Cpu { scratch, sums, pivots } => {
                let at = match part {
                    Part::Own(worker) => worker * own * size,
                    Part::Shared => workers * own * size,
                    Part::Sums(worker) => sums + worker * count * size,
                    Part::Pivots => *pivots,
                };
                scratch.cells(at, count)
            }
            Parts::Devices(ranks) => {
                let (at, room) = match part {
                    Part::Own(rank) => (ranks[rank].own, ranks[rank].needs.own),
                    Part::Shared => (ranks[0].shared, ranks[0].needs.shared),
                    Part::Sums(rank) => (ranks[rank].sums, ranks[rank].needs.sums),
                    Part::Pivots => (ranks[0].pivots, ranks[0].needs.pivots),
                };
                assert!(count * size <= room, "inside the scratch");
                let first = std::ptr::without_provenance_mut(at as usize);
                // SAFETY: *memory*, promised to `on_devices`. Any bits are a T.
                unsafe { Cells::new(first, &Layout::left((count, 1))) }
            }
        }
    }
}
