//! LU factorisation of a panel with partial pivoting by the workers of a group. It halves the
//! columns recursively down to strips that stay in cache, as in LAPACK's `getrf2` (Toledo, SIAM J.
//! Matrix Anal. Appl. 18, 1997). All but the strips is products and triangular solves.
//!
//! Every worker has rows of its own for strips and products. Interchanges and triangular solves
//! touch all rows and divide the columns, between barriers. The order of operations on an entry
//! depends on the number of workers, because products of few rows use other kernels. It does not
//! depend on which one is first.

use std::ops::Range;

use super::blas;
use super::members::Members;
use super::strip::{Candidate, STRIP, strip};
use crate::comm::Step;
use crate::device::{Op, Triangle};
use crate::matrix::Block;
use crate::scalar::Scalar;
use crate::transpose::memory::prefetch;

/// Rows of a product. The kernels pack all the rows that they get into scratch of their own.
const PRODUCT_ROWS: usize = 1536;

/// A panel as one worker of the group sees it.
pub struct Panel<'a, T> {
    /// Column-major, rows >= columns.
    pub a: Block<T>,
    /// The row that was interchanged with row i. The leader writes it.
    pub pivots: Block<i32>,
    /// The rows of this worker.
    pub rows: Range<usize>,
    pub members: Members<'a>,
    /// The first column with a pivot that is zero or not finite.
    pub unusable: Option<usize>,
}

impl<T: Scalar> Panel<'_, T> {
    /// `P A = L U`. Returns the first column with a pivot that is zero or not finite.
    ///
    /// # Safety
    /// The contract of `blas`, with the parts of all workers as parts of one worker.
    pub unsafe fn factor(mut self) -> Step<Option<usize>> {
        let (a, pivots) = (self.a, self.pivots);
        assert!(a.row_stride == 1 && a.rows >= a.cols && pivots.rows == a.cols, "a tall panel");
        // SAFETY: the contract of `blas`.
        unsafe {
            self.factor_columns(0..a.cols)?;
            self.members.barrier()?;
            self.interchange_left(0..a.cols);
        }
        self.members.barrier()?;
        Ok(self.unusable)
    }

    unsafe fn factor_columns(&mut self, columns: Range<usize>) -> Step {
        if columns.len() <= STRIP {
            // SAFETY: the contract of `blas`.
            return unsafe { strip(self, columns) };
        }
        let (a, middle) = (self.a, middle(&columns));
        let (left, right) = (columns.start..middle, middle..columns.end);
        // SAFETY: the contract of `blas`; the parts of the panel do not overlap.
        unsafe {
            self.factor_columns(left.clone())?;
            self.members.barrier()?;
            self.interchange_left(left.clone());
            let mine = self.members.columns(right.clone());
            self.interchange(&left, mine.clone());
            let part = |rows: &Range<usize>, columns: &Range<usize>| {
                a.sub(rows.start, columns.start, rows.len(), columns.len())
            };
            if left.len() > STRIP {
                self.members.barrier()?;
            }
            let unit = Triangle::UnitLower;
            blas::trsm(part(&left, &left), unit, Op::None, part(&left, &mine));
            self.members.barrier()?;
            let own = middle.max(self.rows.start)..self.rows.end;
            for top in own.clone().step_by(PRODUCT_ROWS) {
                let rows = top..own.end.min(top + PRODUCT_ROWS);
                let (c, l) = (part(&rows, &right), part(&rows, &left));
                blas::gemm(c, -T::ONE, l, Op::None, part(&left, &right), Op::None);
            }
            self.factor_columns(right)
        }
    }

    /// Applies the interchanges of later columns of a factored range to the columns on their left.
    unsafe fn interchange_left(&self, columns: Range<usize>) {
        let mut rest = columns;
        while rest.len() > STRIP {
            let middle = middle(&rest);
            // SAFETY: the contract of `blas`.
            unsafe {
                self.interchange(&(middle..rest.end), self.members.columns(rest.start..middle))
            };
            rest.start = middle;
        }
    }

    /// Interchanges rows of `columns` by the pivots of `of`.
    unsafe fn interchange(&self, of: &Range<usize>, columns: Range<usize>) {
        let x = self.a.sub(0, columns.start, self.a.rows, columns.len());
        // SAFETY: the contract of `blas`.
        unsafe {
            let pivots = blas::slice(self.pivots.sub(of.start, 0, of.len(), 1));
            swap_rows(x, of.start, pivots, false);
        }
    }

    pub fn leads(&self) -> bool {
        self.members.index == 0
    }

    /// Records the pivot of column `j`.
    pub fn note_pivot(&mut self, j: usize, row: usize, usable: bool) {
        if !usable {
            self.unusable.get_or_insert(j);
        }
        if self.leads() {
            // SAFETY: only the leader writes pivots, and a barrier comes before the others read
            // them.
            unsafe { self.pivots.sub(j, 0, 1, 1).ptr.write(row as i32) };
        }
    }

    /// The best of the workers' candidates, with the leader's row on the diagonal.
    pub fn all_reduce(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        self.members.all_reduce(mine)
    }
}

fn middle(columns: &Range<usize>) -> usize {
    columns.start + (columns.len() / 2).next_multiple_of(STRIP)
}

/// Interchanges row `first + i` with row `pivots[i]`: i ascending, or descending if `back`. Where
/// columns are contiguous, each interchange also prefetches lines of the next column.
///
/// # Safety
/// The contract of `blas`.
pub unsafe fn swap_rows<T: Scalar>(x: Block<T>, first: usize, pivots: &[i32], back: bool) {
    let count = pivots.len();
    let ordered = |i: usize| if back { count - 1 - i } else { i };
    let pairs = (0..count).map(|i| (first + ordered(i), pivots[ordered(i)] as usize));
    let pairs = pairs.filter(|(i, p)| i != p);
    let at = |i: usize, j: usize| x.ptr.wrapping_add(i * x.row_stride + j * x.col_stride);
    let swap = |i: usize, p: usize, j: usize| {
        assert!(i < x.rows && p < x.rows, "rows of the block");
        // SAFETY: two elements of the block, by the assertion.
        unsafe { std::ptr::swap(at(i, j), at(p, j)) };
    };
    if x.row_stride < x.col_stride {
        for j in 0..x.cols {
            for (i, p) in pairs.clone() {
                prefetch(at(p, j + 1).cast());
                swap(i, p, j);
            }
        }
    } else {
        pairs.for_each(|(i, p)| (0..x.cols).for_each(|j| swap(i, p, j)));
    }
}
