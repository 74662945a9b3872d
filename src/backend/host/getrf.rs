//! LU factorisation of a panel with partial pivoting on one thread: recursive halving of the columns
//! down to strips that stay in cache, as in LAPACK's `getrf2` (Toledo, SIAM J. Matrix Anal. Appl. 18,
//! 1997). Everything but the strips is products and triangular solves.
//!
//! LAPACK's rules: the pivot is the first entry with the largest |Re| + |Im|, a NaN only where it is
//! the first candidate; a zero pivot is noted, its column left as it is, and the factorisation goes on.

use super::blas;
use crate::backend::{Op, Triangle};
use crate::matrix::Block;
use crate::scalar::Scalar;

/// Columns of a strip.
const STRIP: usize = 8;

/// Rows of a strip that are worked on at a time: they stay in the first-level cache.
const ROWS: usize = 256;

/// Rows of a product: the kernels pack as much of the panel into scratch of their own as they are given.
const PRODUCT_ROWS: usize = 1536;

/// Entries that are compared side by side.
const SIDE: usize = 16;

/// `P A = L U` for a column-major panel, rows >= columns. `pivots[i]` becomes the row that was
/// interchanged with row i. The first column whose pivot is zero, if there is one.
///
/// # Safety
/// As for all of `blas`.
pub unsafe fn getrf<T: Scalar>(a: Block<T>, pivots: &mut [i32]) -> Option<usize> {
    assert!(a.row_stride == 1 && a.rows >= a.cols && pivots.len() == a.cols, "a tall panel");
    if a.cols <= STRIP {
        // SAFETY: the caller's.
        return unsafe { strip(a, pivots) };
    }
    let half = (a.cols / 2).next_multiple_of(STRIP);
    let (left, right) = (a.sub(0, 0, a.rows, half), a.sub(0, half, a.rows, a.cols - half));
    let (above, below) = pivots.split_at_mut(half);
    let (top, rest) = (right.sub(0, 0, half, right.cols), right.rows_from(half));
    // SAFETY: the caller's; the parts of the panel do not overlap.
    unsafe {
        let first = getrf(left, above);
        swap_rows(right, 0, above, false);
        blas::trsm(left.sub(0, 0, half, half), Triangle::UnitLower, Op::None, top);
        let l = left.rows_from(half);
        for row in (0..rest.rows).step_by(PRODUCT_ROWS) {
            let part = |m: Block<T>| m.sub(row, 0, PRODUCT_ROWS.min(m.rows - row), m.cols);
            blas::gemm(part(rest), -T::ONE, part(l), Op::None, top, Op::None);
        }
        let second = getrf(rest, below);
        swap_rows(left.rows_from(half), 0, below, false);
        below.iter_mut().for_each(|p| *p += half as i32);
        first.or(second.map(|column| half + column))
    }
}

/// Interchanges row `first + i` with row `pivots[i]`, i ascending, or descending if `back`.
///
/// # Safety
/// As for all of `blas`.
pub unsafe fn swap_rows<T: Scalar>(x: Block<T>, first: usize, pivots: &[i32], back: bool) {
    let count = pivots.len();
    let ordered = |i: usize| if back { count - 1 - i } else { i };
    let pairs = (0..count).map(|i| (first + ordered(i), pivots[ordered(i)] as usize));
    let pairs = pairs.filter(|(i, p)| i != p);
    let swap = |i: usize, p: usize, j: usize| {
        assert!(i < x.rows && p < x.rows, "rows of the block");
        let at = |row: usize| x.ptr.wrapping_add(row * x.row_stride + j * x.col_stride);
        // SAFETY: two elements of the block.
        unsafe { std::ptr::swap(at(i), at(p)) };
    };
    if x.row_stride < x.col_stride {
        (0..x.cols).for_each(|j| pairs.clone().for_each(|(i, p)| swap(i, p, j)));
    } else {
        pairs.for_each(|(i, p)| (0..x.cols).for_each(|j| swap(i, p, j)));
    }
}

/// The same for few columns, with the widest vectors that the processor has.
unsafe fn strip<T: Scalar>(a: Block<T>, pivots: &mut [i32]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the caller's; the processor has been asked.
            return unsafe { strip_avx512(a, pivots) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { strip_avx2(a, pivots) };
        }
    }
    // SAFETY: the caller's.
    unsafe { strip_portable(a, pivots) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn strip_avx512<T: Scalar>(a: Block<T>, pivots: &mut [i32]) -> Option<usize> {
    // SAFETY: the caller's.
    unsafe { strip_portable(a, pivots) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn strip_avx2<T: Scalar>(a: Block<T>, pivots: &mut [i32]) -> Option<usize> {
    // SAFETY: the caller's.
    unsafe { strip_portable(a, pivots) }
}

/// Column by column: interchange, divide, subtract from the columns to the right, and look for the next
/// pivot while its column is at hand.
#[inline(always)]
unsafe fn strip_portable<T: Scalar>(a: Block<T>, pivots: &mut [i32]) -> Option<usize> {
    // SAFETY: the caller's; columns are contiguous and disjoint.
    let column = |j: usize| unsafe {
        std::slice::from_raw_parts_mut(a.ptr.wrapping_add(j * a.col_stride), a.rows)
    };
    let mut zero = None;
    let mut pivot = Largest::of(column(0), 0);
    for j in 0..a.cols {
        pivots[j] = pivot.index as i32;
        let at_pivot = column(j)[pivot.index];
        let singular = at_pivot == T::ZERO;
        if singular {
            zero = zero.or(Some(j));
        } else {
            // SAFETY: the caller's.
            unsafe { swap_rows(a, j, &pivots[j..=j], false) };
        }
        let reciprocal = at_pivot.safe_reciprocal();
        let mut next = Largest::none(j + 1);
        for top in (j + 1..a.rows).step_by(ROWS) {
            let rows = top..(top + ROWS).min(a.rows);
            let l = &mut column(j)[rows.clone()];
            match reciprocal {
                _ if singular => {}
                Some(r) => l.iter_mut().for_each(|x| *x *= r),
                None => l.iter_mut().for_each(|x| *x = x.divided_by(at_pivot)),
            }
            for c in j + 1..a.cols {
                let u = -column(c)[j];
                let target = &mut column(c)[rows.clone()];
                target.iter_mut().zip(l.iter()).for_each(|(x, l)| *x += u * *l);
            }
            if j + 1 < a.cols {
                next.look(&column(j + 1)[rows.clone()], top);
            }
        }
        pivot = next;
    }
    zero
}

/// The first of the largest entries seen so far.
struct Largest<R> {
    index: usize,
    value: Option<R>,
}

impl<R: PartialOrd + Copy> Largest<R> {
    #[inline(always)]
    fn none(index: usize) -> Self {
        Largest { index, value: None }
    }

    #[inline(always)]
    fn of<T: Scalar<Real = R>>(entries: &[T], offset: usize) -> Self {
        let mut largest = Largest::none(offset);
        largest.look(entries, offset);
        largest
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
            let place = entries.iter().position(|x| T::abs1_impl(x) == most);
            self.index = offset + place.expect("just seen");
            self.value = Some(most);
        }
    }
}
