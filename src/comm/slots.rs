//! Memory in which a worker shows a value to the members of its group.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The size limit of a shown value, in bytes.
const BYTES: usize = 384;

/// Two values, used alternately. Before a worker writes a slot again, it has passed a barrier that
/// every member reaches after reading.
#[derive(Default)]
#[repr(align(128))]
pub struct Slots([Slot; 2]);

#[repr(align(128))]
struct Slot(UnsafeCell<[MaybeUninit<u8>; BYTES]>);

impl Default for Slot {
    fn default() -> Self {
        Slot(UnsafeCell::new([MaybeUninit::uninit(); BYTES]))
    }
}

// SAFETY: plain memory. `Members::all_reduce` orders its writes and reads.
unsafe impl Sync for Slot {}

impl Slots {
    /// The slot of a turn, 0 or 1.
    pub fn at<T>(&self, turn: usize) -> *mut T {
        const { assert!(size_of::<T>() <= BYTES && align_of::<T>() <= 128) };
        self.0[turn].0.get().cast()
    }
}
