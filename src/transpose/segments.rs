//! Moves contiguous segments to their places after the transposition of the blocks: the second pass
//! of the gcd-block algorithm.
//!
//! The array is a sequence of segments, each one row of a block: d elements. They are numbered (i,
//! j, k) in row-major order with i < down, j < d, k < across: block row, row within the block,
//! block column. The transpose has the same segments in the order (k, j, i).
//!
//! A cycle of this permutation may hold nearly the whole array, which would leave all work to one
//! worker. But the moves of one part of all segments do not depend on the other parts. So a unit is
//! a slice of every segment, and all workers walk the same cycles, each with slices of its own.

use super::cycles::{Permutation, Saved, gather};
use super::divide::Divider;
use super::memory::SubRows;
use std::ops::Range;

/// Bytes of a slice: two lines, so a segment has work for many workers.
const SLICE: usize = 128;

/// The most bytes of adjacent slices that move together. Wider parts are faster.
const WIDE: usize = 8192;

/// The segments of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    pub down: usize,
    pub across: usize,
    /// Elements of a segment, d.
    pub side: usize,
    by_down: Divider,
    by_side: Divider,
}

impl Segments {
    /// The segments of `down` x `across` blocks with sides of `side` elements, all positive.
    pub fn new(down: usize, across: usize, side: usize) -> Self {
        let (by_down, by_side) = (Divider::new(down), Divider::new(side));
        Segments { down, across, side, by_down, by_side }
    }

    pub fn count(&self) -> usize {
        self.down * self.side * self.across
    }

    /// The segment that belongs in the place of segment `h`.
    #[inline(always)]
    pub fn source(&self, h: usize) -> usize {
        let t = self.by_down.quotient(h);
        let k = self.by_side.quotient(t);
        let (i, j) = (h - t * self.down, t - k * self.side);
        (i * self.side + j) * self.across + k
    }

    /// Units of work: slices.
    pub fn units(&self, size: usize) -> usize {
        (self.side * size).div_ceil(SLICE)
    }

    /// Bytes of scratch: a bit for every segment, and the part of a segment that moves together.
    pub fn scratch_bytes(&self, size: usize) -> usize {
        self.count().div_ceil(8) + WIDE.min(self.side * size)
    }
}

/// Moves some slices of all segments of elements of `size` bytes.
///
/// # Safety
/// `data` is the array, no other thread uses these slices, and `scratch` holds `scratch_bytes`.
pub unsafe fn run(
    segments: &Segments,
    size: usize,
    units: Range<usize>,
    data: *mut u8,
    scratch: *mut u8,
) {
    let (rows, stride) = (segments.count(), segments.side * size);
    let (start, end) = (units.start * SLICE, stride.min(units.end * SLICE));
    for first in (start..end).step_by(WIDE) {
        let bytes = WIDE.min(end - first);
        let sub_rows = SubRows { base: data.wrapping_add(first), stride, rows, bytes };
        // SAFETY: the caller promises slices and scratch; the bits of the walk precede the saved
        // part.
        unsafe {
            let walk = Permutation::new(rows, |h| segments.source(h), scratch);
            gather::<0>(&sub_rows, walk, Saved::room(scratch.add(rows.div_ceil(8))));
        }
    }
}
