//! Factors a few columns of a panel, column by column: the part of a factorisation with partial
//! pivoting that is neither product nor triangular solve.
//!
//! LAPACK's rules: the pivot is the first entry with the largest |Re| + |Im|, a NaN only where it
//! is the first candidate. If it is zero, that is reported, the column stays as it is, and the
//! factorisation continues. The same holds if it is not finite.
//!
//! Each worker of a group has its own rows. A column needs one barrier. Before it, each worker
//! posts the best candidate among its rows, with that row of the strip. The owner of the row on the
//! diagonal posts that row, too. Then all know the pivot, and the owner of either row writes the
//! other into it.

use std::ops::Range;

use faer::MatRef;
use faer::reborrow::{Reborrow, ReborrowMut};

use super::blas::column_mut;
use super::candidate::{Candidate, STRIP};
use super::panel::GroupPanel;
use crate::comm::Step;
use crate::scalar::Scalar;

/// Rows of a strip that are processed at a time. They stay in the first-level cache.
const BLOCK_ROWS: usize = 256;

/// Number of independent comparisons.
const SIDE: usize = 16;

/// Factors columns of a panel within the rows of this worker, with the widest vectors of the
/// processor.
pub fn strip<T: Scalar>(panel: &mut GroupPanel<T>, columns: Range<usize>) -> Step {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512, as just seen.
            return unsafe { strip_avx512(panel, columns) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as just seen.
            return unsafe { strip_avx2(panel, columns) };
        }
    }
    strip_portable(panel, columns)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn strip_avx512<T: Scalar>(panel: &mut GroupPanel<T>, columns: Range<usize>) -> Step {
    strip_portable(panel, columns)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn strip_avx2<T: Scalar>(panel: &mut GroupPanel<T>, columns: Range<usize>) -> Step {
    strip_portable(panel, columns)
}

/// For each column: interchanges, divides, subtracts from the columns to the right. It finds the
/// next pivot while the next column is in cache.
#[inline(always)]
fn strip_portable<T: Scalar>(panel: &mut GroupPanel<T>, columns: Range<usize>) -> Step {
    let own = panel.rows.clone();
    let first = |j: usize| own.contains(&j).then_some(j);
    let top = columns.start.max(own.start).min(own.end);
    let mut largest = Largest::none::<T>(first(columns.start));
    largest.look(column_mut(panel.own(&(top..own.end), &columns), 0), top);
    for j in columns.clone() {
        let (row, pivot) = interchange(panel, &columns, j, &largest)?;
        let at_pivot = pivot[j - columns.start];
        let usable = at_pivot != T::ZERO && at_pivot.is_number();
        panel.note_pivot(j, row, usable);
        let singular = at_pivot == T::ZERO;
        let reciprocal = at_pivot.safe_reciprocal();
        let below = own.start.max(j + 1).min(own.end);
        let mut next = Largest::none::<T>(first(j + 1));
        for top in (below..own.end).step_by(BLOCK_ROWS) {
            let rows = top..(top + BLOCK_ROWS).min(own.end);
            let part = panel.own(&rows, &(j..columns.end));
            let (l, mut rest) = part.split_at_col_mut(1);
            let l = column_mut(l, 0);
            match reciprocal {
                _ if singular => {}
                Some(r) => l.iter_mut().for_each(|x| *x *= r),
                None => l.iter_mut().for_each(|x| *x = x.divided_by(at_pivot)),
            }
            for c in 0..rest.ncols() {
                let u = -pivot[j + 1 + c - columns.start];
                let target = column_mut(rest.rb_mut(), c);
                target.iter_mut().zip(l.iter()).for_each(|(x, l)| *x += u * *l);
            }
            if rest.ncols() > 0 {
                next.look(column_mut(rest, 0), top);
            }
        }
        largest = next;
    }
    Ok(())
}

/// Agrees with the group on the pivot of column `j`, and interchanges the rows of the strip unless
/// it is zero. Returns the pivot's row number and entries.
#[inline(never)]
fn interchange<T: Scalar>(
    panel: &mut GroupPanel<T>,
    columns: &Range<usize>,
    j: usize,
    largest: &Largest<T::Real>,
) -> Step<(usize, [T; STRIP])> {
    let own = panel.rows.clone();
    let strip = panel.own(&own, columns);
    let entries = |row: usize| match row {
        row if own.contains(&row) => row_of(strip.rb(), row - own.start),
        _ => [T::ZERO; STRIP],
    };
    let mine = Candidate {
        size: largest.value.map_or(0.0, |size| T::from_real_impl(&size).magnitude()),
        row: largest.index,
        has_diagonal: own.contains(&j),
        entries: entries(largest.index),
        diagonal: entries(j),
    };
    let Candidate { row, entries, diagonal, .. } = panel.all_reduce(mine)?;
    if entries[j - columns.start] != T::ZERO && row != j {
        let mut strip = panel.own(&own, columns);
        let writes = [(j, entries), (row, diagonal)];
        for (row, entries) in writes.iter().filter(|(row, _)| own.contains(row)) {
            for (c, &entry) in entries[..columns.len()].iter().enumerate() {
                strip[(row - own.start, c)] = entry;
            }
        }
    }
    Ok((row, entries))
}

fn row_of<T: Scalar>(strip: MatRef<T>, row: usize) -> [T; STRIP] {
    std::array::from_fn(|c| if c < strip.ncols() { strip[(row, c)] } else { T::ZERO })
}

/// The first of the largest entries up to now.
struct Largest<R> {
    index: usize,
    value: Option<R>,
}

impl<R: PartialOrd + Copy> Largest<R> {
    /// No entries yet. The `first` candidate of all counts with any value; others must be larger
    /// than zero.
    #[inline(always)]
    fn none<T: Scalar<Real = R>>(first: Option<usize>) -> Self {
        match first {
            Some(index) => Largest { index, value: None },
            None => Largest { index: usize::MAX, value: Some(T::abs1_impl(&T::ZERO)) },
        }
    }

    /// Takes more entries; `offset` is the index of the first.
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
