//! The fine rotation: the remainder of a rotation after a group of columns has been rotated as a
//! whole.
//!
//! Column t of the group still has to move up by amounts[t], from 0 to less than the width of the
//! group (section 4.6). The sweep goes down the rows. Row i takes elements from the rows
//! i..i + width and is not needed again. So it works in place and keeps only the first rows for the
//! end. It takes the group by blocks of rows, and in a block one line's width of columns at a time.
//!
//! Within a line the amounts differ by less than its number of elements. They are applied bit by
//! bit, like the barrel rotation of section 6.2.2. Where bit k of its amount is set, a column takes
//! the element 2^k rows below. Each bit is one blend of a row with a later one, and rows stay in
//! registers in between.

use super::memory::{Element, LINE, WIDEST, prefetch_far};
use super::vector::{Vector, Work, with_widest};
use std::mem::MaybeUninit;

/// Rows of a block. Each block reads up to 15 rows again.
const BLOCK: usize = 16;

/// Bits of an amount within a line of 16 elements, the largest line.
const BITS: usize = 4;

/// The columns to sweep. A negative `stride` rotates down instead of up. Then `first` is the last
/// row, and the sweep takes the group upside down.
pub struct Sweep<'a> {
    pub first: *mut u8,
    pub stride: isize,
    pub rows: usize,
    /// Ascending by at most one, from 0 to less than `rows`. No wider than WIDEST bytes.
    pub amounts: &'a [usize],
}

/// The part of a sweep that is one block high and one line wide.
#[derive(Clone, Copy)]
struct Block<'a> {
    start: usize,
    count: usize,
    /// Bytes from the start of the sub-row.
    column: usize,
    amounts: &'a [usize],
    masks: &'a Masks,
    saved: *const u8,
    /// Bytes of a saved sub-row.
    pitch: usize,
}

/// For every bit of the amounts within a line, the bytes of the columns that have it set.
type Masks = [[u8; LINE]; BITS];

fn fill_masks<const S: usize>(masks: &mut Masks, amounts: &[usize]) {
    for (t, amount) in amounts.iter().enumerate() {
        for (k, mask) in masks.iter_mut().enumerate() {
            mask[t * S..][..S].fill(if (amount - amounts[0]) >> k & 1 == 1 { 0xFF } else { 0 });
        }
    }
}

impl Sweep<'_> {
    /// Number of rows to keep.
    pub fn depth(&self) -> usize {
        self.amounts[self.amounts.len() - 1]
    }

    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> *mut u8 {
        self.first.wrapping_offset(row as isize * self.stride).wrapping_add(column)
    }

    /// Row `row` of a block as it was before the sweep; past the end it is one of the first ones.
    /// Past those, any row serves, because no column takes from it.
    #[inline(always)]
    fn source(&self, row: usize, block: &Block) -> *const u8 {
        if row < self.rows {
            return self.at(row, block.column);
        }
        let kept = (row - self.rows).min(self.depth() - 1);
        block.saved.wrapping_add(kept * block.pitch + block.column)
    }

    /// Rotates column t up by amounts[t]: row i takes from row (i + amounts[t]) mod rows.
    ///
    /// # Safety
    /// The columns are initialised elements of S bytes that no other thread uses. `saved` holds
    /// `depth()` sub-rows. The machine has the instruction set of V.
    #[inline(always)]
    pub unsafe fn run<const S: usize, V: Vector>(&self, saved: *mut u8) {
        let pitch = self.amounts.len() * S;
        if self.depth() == 0 {
            return;
        }
        for row in 0..self.depth() {
            // SAFETY: depth < rows, and `saved` holds that many sub-rows.
            unsafe { saved.add(row * pitch).copy_from_nonoverlapping(self.at(row, 0), pitch) };
        }
        let mut masks = [[[0; LINE]; BITS]; WIDEST / LINE];
        for (masks, amounts) in masks.iter_mut().zip(self.amounts.chunks(LINE / S)) {
            fill_masks::<S>(masks, amounts);
        }
        for start in (0..self.rows).step_by(BLOCK) {
            let count = BLOCK.min(self.rows - start);
            let soon = start + self.depth() + BLOCK;
            for row in soon..(soon + BLOCK).min(self.rows) {
                (0..pitch).step_by(LINE).for_each(|column| prefetch_far(self.at(row, column)));
            }
            for (line, amounts) in self.amounts.chunks(LINE / S).enumerate() {
                let last = amounts[amounts.len() - 1];
                let (column, masks) = (line * LINE, &masks[line]);
                let block = Block { start, count, column, amounts, masks, saved, pitch };
                // SAFETY: the caller promises columns and `saved`. In these columns, earlier blocks
                // have moved, and this one has not.
                unsafe {
                    if last == 0 {
                        // These columns are in place.
                    } else if amounts.len() < LINE / S {
                        self.partial::<S>(block);
                    } else if last == amounts[0] {
                        self.whole::<S, V, 0>(block);
                    } else if S == 16 {
                        self.whole::<S, V, 2>(block);
                    } else if S == 8 {
                        self.whole::<S, V, 3>(block);
                    } else {
                        self.whole::<S, V, 4>(block);
                    }
                }
            }
        }
    }

    /// A full line; its amounts differ by less than 2^B.
    ///
    /// # Safety
    /// As for `run`. Rows from `start` on are unchanged.
    #[inline(always)]
    unsafe fn whole<const S: usize, V: Vector, const B: usize>(&self, block: Block) {
        // SAFETY: the caller promises the columns. A store to row `start + k - delay` follows the
        // load of row `start + base + k`, and loads only ascend.
        unsafe {
            let mask: [V; BITS] = std::array::from_fn(|k| V::load(block.masks[k].as_ptr()));
            let delay = (1 << B) - 1;
            let mut buffer = [MaybeUninit::<[u8; LINE]>::uninit(); BLOCK + (1 << BITS)];
            let buffer = buffer.as_mut_ptr().cast::<u8>();
            let first = block.start + block.amounts[0];
            let taken = block.count + delay;
            let rounded = taken.next_multiple_of(8);
            if first + rounded <= self.rows {
                for k in 0..rounded {
                    V::load(self.at(first + k, block.column)).store(buffer.add(k * LINE));
                }
            } else {
                for k in 0..rounded {
                    V::load(self.source(first + k, &block)).store(buffer.add(k * LINE));
                }
            }
            // before[k] holds the last 2^k rows before bit k was applied, as a ring.
            let mut before = [[mask[0]; 1 << (BITS - 1)]; BITS];
            for k0 in (0..taken).step_by(8) {
                for k in k0..k0 + 8 {
                    let mut line = V::load(buffer.add(k * LINE));
                    for bit in 0..B {
                        let slot = &mut before[bit][k % 8 % (1 << bit)];
                        let old = std::mem::replace(slot, line);
                        line = old.blend(line, mask[bit]);
                    }
                    if k >= delay && k < taken {
                        line.store(self.at(block.start + k - delay, block.column));
                    }
                }
            }
        }
    }

    /// Less than a line: element by element, from a copy.
    ///
    /// # Safety
    /// As for `whole`.
    unsafe fn partial<const S: usize>(&self, block: Block) {
        let mut buffer = [[MaybeUninit::<u8>::uninit(); LINE]; BLOCK + (1 << BITS)];
        let buffer = buffer.as_mut_ptr().cast::<u8>();
        let Block { start, count, column, amounts, .. } = block;
        let (width, base) = (amounts.len(), amounts[0]);
        // SAFETY: amounts within a line differ by less than 2^BITS, so the buffer holds all rows
        // that are taken. Those past the end are among the saved ones.
        unsafe {
            for k in 0..count + amounts[width - 1] - base {
                let source = self.source(start + base + k, &block);
                buffer.add(k * LINE).copy_from_nonoverlapping(source, width * S);
            }
            for k in 0..count {
                let target = self.at(start + k, column).cast::<Element<S>>();
                for (t, amount) in amounts.iter().enumerate() {
                    let source = buffer.add((k + amount - base) * LINE + t * S);
                    *target.add(t) = *source.cast();
                }
            }
        }
    }
}

/// A sweep of elements of S bytes; `saved` is as for [`Sweep::run`].
struct Whole<'a, const S: usize> {
    sweep: &'a Sweep<'a>,
    saved: *mut u8,
}

impl<const S: usize> Work<S> for Whole<'_, S> {
    #[inline(always)]
    unsafe fn run<V: Vector, const K: usize>(self) {
        // SAFETY: the caller promises columns, `saved` and instruction set.
        unsafe { self.sweep.run::<S, V>(self.saved) }
    }
}

/// Runs a sweep with the widest registers of the machine.
///
/// # Safety
/// As for [`Sweep::run`], apart from the instruction set.
pub unsafe fn sweep<const S: usize>(sweep: &Sweep, saved: *mut u8) {
    // SAFETY: the caller promises columns and `saved`.
    unsafe { with_widest(Whole::<S> { sweep, saved }) }
}
