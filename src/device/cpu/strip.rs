//! A few columns of a panel, column by column: the part of a factorisation with partial pivoting that is
//! neither product nor triangular solve.
//!
//! LAPACK's rules: the pivot is the first entry with the largest |Re| + |Im|, a NaN only where it is
//! the first candidate; a zero pivot is noted, its column left as it is, and the factorisation goes on.
//! So is one that is not finite.
//!
//! Each member of a group has its own rows. For a column they meet once: everybody has posted the best
//! candidate among the own rows with that row of the strip, and one the row on the diagonal besides;
//! then all know the pivot, and whoever has one of the two rows writes the other into it.

use std::ops::Range;

use super::getrf::Panel;
use crate::comm::Step;
use crate::matrix::Block;
use crate::scalar::Scalar;

/// Columns of a strip.
pub const STRIP: usize = 8;

/// Rows of a strip that are worked on at a time: they stay in the first-level cache.
const BLOCK_ROWS: usize = 256;

/// Entries that are compared side by side.
const SIDE: usize = 16;

/// What a member offers for a column.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Candidate<T> {
    /// Its |Re| + |Im|.
    pub size: f64,
    pub row: usize,
    /// Whether the row on the diagonal is this member's.
    pub has_diagonal: bool,
    /// The row's entries in the strip.
    pub entries: [T; STRIP],
    /// Those of the row on the diagonal.
    pub diagonal: [T; STRIP],
}

/// Factors columns of a panel within the rows of this worker, with the widest vectors that the processor
/// has.
///
/// # Safety
/// As for all of `blas`.
pub unsafe fn strip<T: Scalar>(panel: &mut Panel<T>, columns: Range<usize>) -> Step {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the caller's; the processor has been asked.
            return unsafe { strip_avx512(panel, columns) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { strip_avx2(panel, columns) };
        }
    }
    // SAFETY: the caller's.
    unsafe { strip_portable(panel, columns) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn strip_avx512<T: Scalar>(panel: &mut Panel<T>, columns: Range<usize>) -> Step {
    // SAFETY: the caller's.
    unsafe { strip_portable(panel, columns) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn strip_avx2<T: Scalar>(panel: &mut Panel<T>, columns: Range<usize>) -> Step {
    // SAFETY: the caller's.
    unsafe { strip_portable(panel, columns) }
}

/// Column by column: interchange, divide, subtract from the columns to the right, and look for the next
/// pivot while its column is at hand.
#[inline(always)]
unsafe fn strip_portable<T: Scalar>(panel: &mut Panel<T>, columns: Range<usize>) -> Step {
    let (a, own) = (panel.a, panel.rows.clone());
    // SAFETY: the caller's; columns are contiguous and disjoint, and the rows are this worker's.
    let column = |j: usize, rows: Range<usize>| unsafe {
        std::slice::from_raw_parts_mut(a.sub(rows.start, j, rows.len(), 1).ptr, rows.len())
    };
    let first = |j: usize| own.contains(&j).then_some(j);
    let top = columns.start.max(own.start).min(own.end);
    let mut largest = Largest::none::<T>(first(columns.start));
    largest.look(column(columns.start, top..own.end), top);
    for j in columns.clone() {
        // SAFETY: the caller's.
        let (row, pivot) = unsafe { interchange(panel, &columns, j, &largest)? };
        let at_pivot = pivot[j - columns.start];
        let usable = at_pivot != T::ZERO && at_pivot.is_number();
        panel.note_pivot(j, row, usable);
        let singular = at_pivot == T::ZERO;
        let reciprocal = at_pivot.safe_reciprocal();
        let below = own.start.max(j + 1).min(own.end);
        let mut next = Largest::none::<T>(first(j + 1));
        for top in (below..own.end).step_by(BLOCK_ROWS) {
            let rows = top..(top + BLOCK_ROWS).min(own.end);
            let l = column(j, rows.clone());
            match reciprocal {
                _ if singular => {}
                Some(r) => l.iter_mut().for_each(|x| *x *= r),
                None => l.iter_mut().for_each(|x| *x = x.divided_by(at_pivot)),
            }
            for c in j + 1..columns.end {
                let u = -pivot[c - columns.start];
                let target = column(c, rows.clone());
                target.iter_mut().zip(l.iter()).for_each(|(x, l)| *x += u * *l);
            }
            if j + 1 < columns.end {
                next.look(column(j + 1, rows), top);
            }
        }
        largest = next;
    }
    Ok(())
}

/// Agrees with the group on the pivot of column `j` and interchanges the rows of the strip, unless it is
/// zero; the pivot's row, its number and its entries.
#[inline(never)]
unsafe fn interchange<T: Scalar>(
    panel: &mut Panel<T>,
    columns: &Range<usize>,
    j: usize,
    largest: &Largest<T::Real>,
) -> Step<(usize, [T; STRIP])> {
    let strip = panel.a.sub(0, columns.start, panel.a.rows, columns.len());
    // SAFETY: the caller's; only of rows that are this worker's.
    let entries = |row: usize| unsafe { row_of(strip, row) };
    let has_diagonal = panel.rows.contains(&j);
    let mine = Candidate {
        size: largest.value.map_or(0.0, |size| T::from_real_impl(&size).magnitude()),
        row: largest.index,
        has_diagonal,
        entries: if largest.index < panel.rows.end {
            entries(largest.index)
        } else {
            [T::ZERO; STRIP]
        },
        diagonal: if has_diagonal { entries(j) } else { [T::ZERO; STRIP] },
    };
    let Candidate { row, entries, diagonal, .. } = panel.agree(mine)?;
    if entries[j - columns.start] != T::ZERO && row != j {
        let writes = [(j, entries), (row, diagonal)];
        for (row, entries) in writes.iter().filter(|(row, _)| panel.rows.contains(row)) {
            for (c, &entry) in entries[..columns.len()].iter().enumerate() {
                // SAFETY: the caller's; an element of this worker's rows.
                unsafe { strip.sub(*row, c, 1, 1).ptr.write(entry) };
            }
        }
    }
    Ok((row, entries))
}

unsafe fn row_of<T: Scalar>(strip: Block<T>, row: usize) -> [T; STRIP] {
    // SAFETY: the caller's.
    let entry = |c: usize| unsafe { strip.sub(row, c, 1, 1).ptr.read() };
    std::array::from_fn(|c| if c < strip.cols { entry(c) } else { T::ZERO })
}

/// The first of the largest entries seen so far.
struct Largest<R> {
    index: usize,
    value: Option<R>,
}

impl<R: PartialOrd + Copy> Largest<R> {
    /// Of no entries yet. Only where the `first` candidate of all is to come it counts whatever it is;
    /// others must be larger than zero.
    #[inline(always)]
    fn none<T: Scalar<Real = R>>(first: Option<usize>) -> Self {
        match first {
            Some(index) => Largest { index, value: None },
            None => Largest { index: usize::MAX, value: Some(T::abs1_impl(&T::ZERO)) },
        }
    }

    /// Sees more entries, `offset` the index of the first.
    #[inline(always)]
    fn look<T: Scalar<Real = R>>(&mut self, entries: &[T], offset: usize) {
        let Some(first) = entries.first().map(T::abs1_impl) else { return };
        let seen = *self.value.get_or_insert(first);
        let mut side = [seen; SIDE];
        let (whole, rest) = entries.as_chunks::<SIDE>();
        for chunk in whole {
            for (most, x) in side.iter_mut().zip(chunk) {
                let x = T::abs1_impl(x);
                *most = if x > *most { x } else { *most };
            }
        }
        for (most, x) in side.iter_mut().zip(rest) {
            let x = T::abs1_impl(x);
            *most = if x > *most { x } else { *most };
        }
        let most = side.into_iter().fold(seen, |most, x| if x > most { x } else { most });
        if most > seen {
            let index = entries.iter().position(|x| T::abs1_impl(x) == most);
            self.index = offset + index.expect("just seen");
            self.value = Some(most);
        }
    }
}
