//! The ranks of a call: their memory, and their announcements. A host thread that has seen an
//! announcement makes its stream wait for the matching event. No host thread waits for a device.

use std::sync::{Arc, Mutex};

use super::device::Device;
use super::device::queue::{Event, Lines};
use super::handle::{Address, Stream};
use super::seat::Seat;
use crate::comm::Phase;
use crate::device::memory::{Memory, Place};
use crate::error::Result;
use crate::settings::Float64;

pub struct CudaCommunicator {
    pub seats: Vec<Seat>,
    pub float64: Float64,
    /// For each rank, its announcements.
    announced: Vec<Announced>,
    /// For each rank, an event for each barrier that it has reached.
    barriers: Vec<Mutex<Vec<Event>>>,
}

/// Numbers of phases and counts there, with their events, ascending.
type Announced = Mutex<Vec<((usize, usize), Event)>>;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl CudaCommunicator {
    pub fn new(seats: Vec<Seat>, float64: Float64) -> CudaCommunicator {
        let ranks = seats.len();
        CudaCommunicator {
            seats,
            float64,
            announced: (0..ranks).map(|_| Mutex::default()).collect(),
            barriers: (0..ranks).map(|_| Mutex::default()).collect(),
        }
    }

    /// Lets kernels of a rank use addresses of all ranks.
    pub fn reach_all(&self, rank: usize) -> Result<()> {
        let device = &self.seats[rank].device;
        self.seats.iter().try_for_each(|seat| {
            device.reach(&seat.device, seat.memory.iter().map(|range| range.start))
        })
    }

    /// Records the event of a rank's count, before host threads see the count.
    pub fn announce(&self, phase: &Phase, rank: usize, count: usize, event: Event) {
        locked(&self.announced[rank]).push(((phase.number(), count), event));
    }

    /// The event of a count that the rank has reached.
    pub fn event(&self, phase: &Phase, rank: usize, count: usize) -> Option<Event> {
        let all = locked(&self.announced[rank]);
        let index = all.partition_point(|(announced, _)| *announced < (phase.number(), count));
        let (announced, event) = all.get(index)?;
        (announced.0 == phase.number()).then_some(*event)
    }

    /// Records an event before the rank's next barrier. Returns the barrier's number.
    pub fn arrive(&self, rank: usize, event: Event) -> usize {
        let mut events = locked(&self.barriers[rank]);
        events.push(event);
        events.len() - 1
    }

    /// The events of the other ranks at a barrier that all have reached.
    pub fn at_barrier(&self, rank: usize, number: usize) -> Vec<Event> {
        let others = (0..self.seats.len()).filter(|other| *other != rank);
        others.map(|other| locked(&self.barriers[other])[number]).collect()
    }

    /// Copies lines from one rank's memory to another's, or within it, on a stream of any device.
    ///
    /// # Safety
    /// Both ranges exist, and no other work uses them until the stream has done this.
    pub unsafe fn copy(
        &self,
        (to_rank, to): (usize, Lines),
        (from_rank, from): (usize, Lines),
        (width, height): (usize, usize),
        by: &Device,
        stream: Stream,
    ) -> Result<()> {
        let device = |rank: usize| &*self.seats[rank].device;
        let (target, source) = (device(to_rank), device(from_rank));
        // SAFETY: the caller promises both ranges.
        unsafe {
            if std::ptr::eq(target, source) && std::ptr::eq(target, by) {
                by.copy_lines(to, from, width, height, stream)
            } else {
                by.copy_lines_between((to, target), (from, source), width, height, stream)
            }
        }
    }
}

/// The memory of all ranks, each through its own stream. So earlier work of that rank is done
/// first.
pub struct CudaMemory(pub Arc<CudaCommunicator>);

fn address(at: *mut u8) -> Address {
    at.addr() as Address
}

impl Memory for CudaMemory {
    unsafe fn read(
        &self,
        (rank, at): Place,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()> {
        let (seat, at) = (&self.0.seats[rank], address(at));
        let packed = stride == size || count <= 1;
        let (width, height) = if packed { (size * count, 1) } else { (size, count) };
        let lines = Lines { at, pitch: if packed { width } else { stride } };
        // SAFETY: the caller promises the ranges, for its sole use.
        unsafe { seat.device.read_lines(lines, width, height, to, seat.stream) }
    }

    unsafe fn write(&self, from: *const u8, (rank, at): Place, bytes: usize) -> Result<()> {
        let (seat, lines) = (&self.0.seats[rank], Lines { at: address(at), pitch: bytes });
        // SAFETY: the caller promises the ranges, for its sole use.
        unsafe { seat.device.write_lines(lines, from, bytes, 1, seat.stream) }
    }

    unsafe fn fill(&self, (rank, to): Place, word: &[u8], count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let (Seat { device, stream, .. }, at) = (&self.0.seats[rank], address(to));
        let mut value = [0; 8];
        value[..word.len()].copy_from_slice(word);
        // In columns, as many as keep the device busy.
        let rows = count.min(1 << 14);
        let fill = |at: Address, rows: usize, cols: usize| {
            let kernel = device.kernel("fill", &format!("fill_{}", word.len()))?;
            let arguments = [at, rows as u64, rows as u64, cols as u64, u64::from_ne_bytes(value)];
            // SAFETY: the caller promises the ranges, for its sole use.
            unsafe { device.launch(&kernel, &arguments, *stream) }
        };
        let whole = count / rows;
        fill(at, rows, whole)?;
        if !count.is_multiple_of(rows) {
            fill(at + (whole * rows * word.len()) as Address, count % rows, 1)?;
        }
        device.wait(*stream)
    }
}
