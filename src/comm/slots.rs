//! Memory in which a worker shows the members of its group a value.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// Bytes of a value of any type that is shown.
const BYTES: usize = 384;

/// Two values, used by turns: a worker that writes a slot again has passed the barrier in between, which every
/// member reaches after reading.
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

// SAFETY: plain memory; `Members::agree` says who writes and reads it when.
unsafe impl Sync for Slot {}

impl Slots {
    /// The slot of a turn, 0 or 1.
    pub fn at<T>(&self, turn: usize) -> *mut T {
        const { assert!(size_of::<T>() <= BYTES && align_of::<T>() <= 128) };
        self.0[turn].0.get().cast()
    }
}
