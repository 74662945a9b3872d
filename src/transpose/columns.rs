//! The column steps, a group of adjacent columns at a time.
//!
//! Both steps are one map per group plus a small offset per column. Row i of column j0 + t gathers
//! from row base(i) + offset(t), modulo m. For the rotation (eq. 23) base(i) = i + floor(j0/b), and
//! offsets are the growth of floor(j/b). For the column shuffle (eq. 26) base is s'_j0 and
//! offset(t) = t. R2C applies the inverse maps.
//!
//! A group that fits in scratch is read once and written once. Otherwise its columns first take
//! their offsets ([`fine`](super::fine)), then whole sub-rows move ([`cycles`](super::cycles)); the
//! inverse reverses this.

use super::cycles::{Permutation, Rotation, follow};
use super::fine::{Sweep, sweep};
use super::maps::Maps;
use super::memory::{Element, LINE, Pieces, SubRows, WIDEST};

/// The most columns of a group.
pub const WIDEST_COLUMNS: usize = WIDEST / 4;

/// The kind of a column step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Eq. 23 and its inverse, eq. 36.
    Rotate,
    /// Eq. 26 and its inverse.
    Permute,
}

/// The width of groups, and whether one fits in scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    pub width: usize,
    pub held: bool,
}

impl Tiling {
    /// The widest group with bookkeeping that fits in max(m, n) elements of `size` bytes.
    pub fn new(m: usize, n: usize, size: usize) -> Self {
        let (line, room) = (LINE / size, m.max(n));
        let mut width = WIDEST / size;
        // There should be enough groups for all threads.
        while width > line && n / width < 16 {
            width /= 2;
        }
        let fit = room / m;
        // Narrower groups were slower than streamed ones.
        if fit >= 4 * line {
            return Tiling { width: width.min(fit - fit % line), held: true };
        }
        // A fine rotation keeps less than width * width elements. No column may rotate by all m
        // rows.
        while width > 1 && (width * width > room || width > m) {
            width /= 2;
        }
        Tiling { width, held: false }
    }

    /// Bytes of scratch for one group.
    pub fn scratch_bytes(&self, m: usize, size: usize) -> usize {
        if self.held {
            return m * self.width * size;
        }
        ((self.width - 1) * self.width * size).max(m.div_ceil(8))
    }
}

/// Does one step on the columns from `column` on, as many as `tiling` has.
///
/// # Safety
/// `data` is an m x n array of elements of S bytes. No other thread uses these columns. `scratch`
/// holds `tiling.scratch_bytes`.
pub unsafe fn run<const S: usize>(
    maps: &Maps,
    tiling: Tiling,
    (step, forward): (Step, bool),
    column: usize,
    data: *mut u8,
    scratch: *mut u8,
) {
    let width = tiling.width.min(maps.n - column);
    let sub_rows = SubRows {
        base: data.wrapping_add(column * S),
        stride: maps.n * S,
        rows: maps.m,
        bytes: width * S,
    };
    let mut offsets = [0; WIDEST_COLUMNS];
    let offsets = &mut offsets[..width];
    let first = maps.rotation(column);
    for (t, offset) in offsets.iter_mut().enumerate() {
        *offset = match step {
            Step::Rotate => maps.rotation(column + t) - first,
            Step::Permute => t,
        };
    }
    // SAFETY: the caller promises columns and scratch.
    unsafe {
        if tiling.held {
            offsets.iter_mut().for_each(|offset| *offset %= maps.m);
            match step {
                Step::Rotate => hold::<S>(&sub_rows, |i| i + first, offsets, forward, scratch),
                Step::Permute => {
                    hold::<S>(&sub_rows, |i| maps.source_row(i, column), offsets, forward, scratch)
                }
            }
            return;
        }
        if forward {
            fine::<S>(&sub_rows, offsets, true, scratch);
        }
        match step {
            Step::Rotate => follow(&sub_rows, Rotation::new(maps.m, first), forward),
            // s'_j for the first column j: the rotation by j (eq. 32) after the row permutation
            // (eq. 33).
            Step::Permute => {
                let source = |i| maps.source_row(i, column);
                follow(&sub_rows, Permutation::new(maps.m, source, scratch), forward);
            }
        }
        if !forward {
            fine::<S>(&sub_rows, offsets, false, scratch);
        }
    }
}

/// # Safety
/// As for [`run`]. `offsets.len()` is the width of the group; scratch is the fine rotation's.
unsafe fn fine<const S: usize>(sub_rows: &SubRows, offsets: &[usize], up: bool, scratch: *mut u8) {
    let stride = sub_rows.stride as isize;
    let (first, stride) =
        if up { (sub_rows.base, stride) } else { (sub_rows.at(sub_rows.rows - 1), -stride) };
    let columns = Sweep { first, stride, rows: sub_rows.rows, amounts: offsets };
    // SAFETY: the caller promises columns and scratch.
    unsafe { sweep::<S>(&columns, scratch) };
}

/// Moves the whole group through scratch. `forward` copies it and gathers; otherwise it scatters
/// and copies back. `base` is below 2m, the offsets are below m.
///
/// # Safety
/// As for [`run`]; scratch holds the group.
unsafe fn hold<const S: usize>(
    sub_rows: &SubRows,
    base: impl Fn(usize) -> usize,
    offsets: &[usize],
    forward: bool,
    scratch: *mut u8,
) {
    let SubRows { rows, bytes, .. } = *sub_rows;
    let width = offsets.len();
    let wrap = |i: usize| if i >= rows { i - rows } else { i };
    let (fill, drain) = (forward, !forward);
    let copy_all = |out: bool| {
        for i in 0..rows {
            let (row, slot) = (sub_rows.at(i), scratch.wrapping_add(i * bytes));
            // SAFETY: row i is in the group and slot i in scratch; they do not overlap.
            unsafe {
                if out {
                    row.copy_from_nonoverlapping(slot, bytes);
                } else {
                    slot.copy_from_nonoverlapping(row, bytes);
                }
            }
        }
    };
    if fill {
        copy_all(false);
    }
    for i in 0..rows {
        let row = sub_rows.at(i).cast::<Element<S>>();
        let image = wrap(base(i));
        for (t, offset) in offsets.iter().enumerate() {
            // SAFETY: both rows are below m, t is below the width.
            unsafe {
                let slot = scratch.cast::<Element<S>>().add(wrap(image + offset) * width + t);
                if forward {
                    *row.add(t) = *slot;
                } else {
                    *slot = *row.add(t);
                }
            }
        }
    }
    if drain {
        copy_all(true);
    }
}
