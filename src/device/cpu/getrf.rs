//! LU factorisation of a panel with partial pivoting by the workers of a group: recursive halving of the
//! columns down to strips that stay in cache, as in LAPACK's `getrf2` (Toledo, SIAM J. Matrix Anal.
//! Appl. 18, 1997). Everything but the strips is products and triangular solves.
//!
//! Every member has rows of its own for strips and products. Interchanges and triangular solves touch
//! rows of all members and go by columns, between barriers. The order of operations on an entry depends
//! on how many members there are, as products of few rows go by other kernels, but not on who is first.

use std::ops::Range;

use super::blas;
use super::members::Members;
use super::strip::{Candidate, STRIP, strip};
use crate::comm::Step;
use crate::device::{Op, Triangle};
use crate::matrix::Block;
use crate::scalar::Scalar;
use crate::transpose::memory::prefetch;

/// Rows of a product: the kernels pack as much of the panel into scratch of their own as they are given.
const PRODUCT_ROWS: usize = 1536;

/// A panel as one member of the group sees it.
pub struct Panel<'a, T> {
    /// Column-major, rows >= columns.
    pub a: Block<T>,
    /// Row that was interchanged with row i; written by the leader.
    pub pivots: Block<i32>,
    /// This member's rows.
    pub rows: Range<usize>,
    pub members: Members<'a>,
    /// The first column whose pivot is zero or not finite.
    pub unusable: Option<usize>,
}

impl<T: Scalar> Panel<'_, T> {
    /// `P A = L U`; the first column whose pivot is zero or not finite, if there is one.
    ///
    /// # Safety
    /// As for all of `blas`, with the members' parts as parts of one worker.
    pub unsafe fn factor(mut self) -> Step<Option<usize>> {
        let (a, pivots) = (self.a, self.pivots);
        assert!(a.row_stride == 1 && a.rows >= a.cols && pivots.rows == a.cols, "a tall panel");
        // SAFETY: the caller's.
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
            // SAFETY: the caller's.
            return unsafe { strip(self, columns) };
        }
        let (a, middle) = (self.a, middle(&columns));
        let (left, right) = (columns.start..middle, middle..columns.end);
        // SAFETY: the caller's; the parts of the panel do not overlap.
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

    /// What later columns of a factored range have interchanged, in the columns to their left.
    unsafe fn interchange_left(&self, columns: Range<usize>) {
        let mut rest = columns;
        while rest.len() > STRIP {
            let middle = middle(&rest);
            // SAFETY: the caller's.
            unsafe {
                self.interchange(&(middle..rest.end), self.members.columns(rest.start..middle))
            };
            rest.start = middle;
        }
    }

    /// Interchanges rows of `columns` as the pivots of `of` say.
    unsafe fn interchange(&self, of: &Range<usize>, columns: Range<usize>) {
        let x = self.a.sub(0, columns.start, self.a.rows, columns.len());
        // SAFETY: the caller's.
        unsafe {
            let pivots = blas::slice(self.pivots.sub(of.start, 0, of.len(), 1));
            swap_rows(x, of.start, pivots, false);
        }
    }

    /// Whether this worker leads the group.
    pub fn leads(&self) -> bool {
        self.members.index == 0
    }

    /// Notes the pivot of column `j`.
    pub fn note_pivot(&mut self, j: usize, row: usize, usable: bool) {
        if !usable {
            self.unusable.get_or_insert(j);
        }
        if self.leads() {
            // SAFETY: the leader's to write, between the barriers that others read it after.
            unsafe { self.pivots.sub(j, 0, 1, 1).ptr.write(row as i32) };
        }
    }

    /// The best of the members' candidates, with the leader's row on the diagonal.
    pub fn agree(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        self.members.agree(mine)
    }
}

/// Where a range of columns is halved.
fn middle(columns: &Range<usize>) -> usize {
    columns.start + (columns.len() / 2).next_multiple_of(STRIP)
}

/// Interchanges row `first + i` with row `pivots[i]`, i ascending, or descending if `back`. Where columns
/// are contiguous, lines of the next column are asked for beside each interchange.
///
/// # Safety
/// As for all of `blas`.
pub unsafe fn swap_rows<T: Scalar>(x: Block<T>, first: usize, pivots: &[i32], back: bool) {
    let count = pivots.len();
    let ordered = |i: usize| if back { count - 1 - i } else { i };
    let pairs = (0..count).map(|i| (first + ordered(i), pivots[ordered(i)] as usize));
    let pairs = pairs.filter(|(i, p)| i != p);
    let at = |i: usize, j: usize| x.ptr.wrapping_add(i * x.row_stride + j * x.col_stride);
    let swap = |i: usize, p: usize, j: usize| {
        assert!(i < x.rows && p < x.rows, "rows of the block");
        // SAFETY: two elements of the block.
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
