//! Elements as opaque bytes, and a group of columns as the sub-rows that move together.

use super::divide::Divider;
use std::mem::MaybeUninit;

/// An element: S bytes of any content (NaN patterns, padding) at any address. Copies compile to
/// single moves.
pub type Element<const S: usize> = [MaybeUninit<u8>; S];

/// The line of the machine, in bytes: the unit in which memory is read.
pub const LINE: usize = 64;

/// The widest sub-row, in bytes.
pub const WIDEST: usize = 512;

/// Bytes of a piece that are prefetched. All of 2 KiB and more took a third longer. The processor
/// takes few requests at a time, and early lines leave the first level again.
const ASKED: usize = 512;

/// Some adjacent columns of a row-major array.
#[derive(Clone, Copy)]
pub struct SubRows {
    /// The sub-row in row 0.
    pub base: *mut u8,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Number of rows, m.
    pub rows: usize,
    /// Bytes of a sub-row.
    pub bytes: usize,
}

/// Numbered pieces of memory of the same size.
pub trait Pieces {
    /// The address of piece `i`, within the array if it is one of the pieces.
    fn at(&self, i: usize) -> *mut u8;
    /// Bytes of a piece.
    fn bytes(&self) -> usize;

    /// Prefetches the first lines of piece `i`. The processor then prefetches the rest of a long
    /// piece itself. This is only a hint: it never faults.
    #[inline(always)]
    fn prefetch(&self, i: usize) {
        let address = self.at(i);
        for offset in (0..self.bytes().min(ASKED)).step_by(LINE) {
            prefetch_far(address.wrapping_add(offset));
        }
    }
}

impl Pieces for SubRows {
    /// The sub-row in row `i`.
    #[inline(always)]
    fn at(&self, i: usize) -> *mut u8 {
        self.base.wrapping_add(i * self.stride)
    }

    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Parts of chunks, with a gap after each line of chunks.
#[derive(Clone, Copy)]
pub struct Chunks {
    /// The part of the first chunk.
    pub base: *mut u8,
    /// Bytes from one chunk to the next within a line.
    pub stride: usize,
    /// Divides by the number of chunks in a line.
    pub line: Divider,
    /// Bytes between the end of the last chunk of a line and the next line.
    pub gap: usize,
    /// Bytes of a part.
    pub bytes: usize,
}

impl Pieces for Chunks {
    #[inline(always)]
    fn at(&self, i: usize) -> *mut u8 {
        self.base.wrapping_add(i * self.stride + self.line.quotient(i) * self.gap)
    }

    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }
}

#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine can prefetch, and accepts any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches a line from `address` on, then the others of `bytes` bytes.
#[inline(always)]
pub fn prefetch_lines(address: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        prefetch(address.wrapping_add(at));
    }
}

/// As [`prefetch`], but past the first-level cache, for data that is not needed at once.
#[inline(always)]
pub fn prefetch_far(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint, for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Copies a sub-row. W is its size if it is known at compile time, or 0.
///
/// # Safety
/// Both sides hold `bytes` bytes and do not overlap; W is 0 or `bytes`.
#[inline(always)]
pub unsafe fn copy<const W: usize>(target: *mut u8, source: *const u8, bytes: usize) {
    // SAFETY: the caller promises both sides, disjoint.
    unsafe { target.copy_from_nonoverlapping(source, if W > 0 { W } else { bytes }) };
}
