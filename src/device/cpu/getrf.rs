//! LU factorisation of a panel with partial pivoting by the workers of a group. It halves the
//! columns recursively down to strips that stay in cache, as in LAPACK's `getrf2` (Toledo, SIAM J.
//! Matrix Anal. Appl. 18, 1997). All but the strips is products and triangular solves.
//!
//! Every worker has rows of its own for strips and products. Interchanges and triangular solves
//! touch all rows and divide the columns, between barriers. The order of operations on an entry
//! depends on the number of workers, because products of few rows use other kernels. It does not
//! depend on which one is first.

use std::ops::Range;

use faer::MatMut;
use faer::reborrow::ReborrowMut;

use super::blas;
use super::candidate::STRIP;
use super::panel::GroupPanel;
use super::strip::strip;
use crate::comm::Step;
use crate::device::{Op, Triangle};
use crate::scalar::Scalar;
use crate::transpose::memory::prefetch;

/// Rows of a product. The kernels pack all the rows that they get into scratch of their own.
const PRODUCT_ROWS: usize = 1536;

impl<T: Scalar> GroupPanel<'_, T> {
    /// `P A = L U`. Returns the first column with a pivot that is zero or not finite.
    pub fn factor(mut self) -> Step<Option<usize>> {
        let columns = 0..self.a.cols();
        self.factor_columns(columns.clone())?;
        self.members.barrier()?;
        self.interchange_left(columns);
        self.members.barrier()?;
        Ok(self.unusable)
    }

    fn factor_columns(&mut self, columns: Range<usize>) -> Step {
        if columns.len() <= STRIP {
            return strip(self, columns);
        }
        let middle = middle(&columns);
        let (left, right) = (columns.start..middle, middle..columns.end);
        self.factor_columns(left.clone())?;
        self.members.barrier()?;
        self.interchange_left(left.clone());
        let mine = self.members.columns(right.clone());
        self.interchange(&left, mine.clone());
        if left.len() > STRIP {
            self.members.barrier()?;
        }
        let l = self.read(&left, &left);
        blas::trsm(l, Triangle::UnitLower, Op::None, self.own(&left, &mine));
        self.members.barrier()?;
        let own = middle.max(self.rows.start)..self.rows.end;
        for top in own.clone().step_by(PRODUCT_ROWS) {
            let rows = top..own.end.min(top + PRODUCT_ROWS);
            let (l, u) = (self.read(&rows, &left), self.read(&left, &right));
            blas::gemm(self.own(&rows, &right), -T::ONE, l, Op::None, u);
        }
        self.factor_columns(right)
    }

    /// Applies the interchanges of later columns of a factored range to the columns on their left.
    fn interchange_left(&mut self, columns: Range<usize>) {
        let mut rest = columns;
        while rest.len() > STRIP {
            let middle = middle(&rest);
            let mine = self.members.columns(rest.start..middle);
            self.interchange(&(middle..rest.end), mine);
            rest.start = middle;
        }
    }

    /// Interchanges rows of `columns` by the pivots of `of`.
    fn interchange(&mut self, of: &Range<usize>, columns: Range<usize>) {
        let rows = 0..self.a.rows();
        // SAFETY: *order*: a barrier came after the leader wrote these pivots.
        let pivots = unsafe { self.pivots.row_range(of.clone()).read() };
        swap_rows(self.own(&rows, &columns), of.start, blas::column(pivots, 0), false);
    }
}

fn middle(columns: &Range<usize>) -> usize {
    columns.start + (columns.len() / 2).next_multiple_of(STRIP)
}

/// Interchanges row `first + i` with row `pivots[i]`: i ascending, or descending if `back`. Where
/// columns are contiguous, each interchange also prefetches lines of the next column.
pub fn swap_rows<T: Scalar>(mut x: MatMut<T>, first: usize, pivots: &[i32], back: bool) {
    let count = pivots.len();
    let ordered = |i: usize| if back { count - 1 - i } else { i };
    let pairs = (0..count).map(|i| (first + ordered(i), pivots[ordered(i)] as usize));
    let pairs = pairs.filter(|(i, p)| i != p);
    if x.row_stride() == 1 {
        for j in 0..x.ncols() {
            let next = x.as_ptr().wrapping_offset(x.col_stride() * (j as isize + 1));
            let column = blas::column_mut(x.rb_mut(), j);
            for (i, p) in pairs.clone() {
                prefetch(next.wrapping_add(p).cast());
                column.swap(i, p);
            }
        }
    } else {
        for (i, p) in pairs {
            for j in 0..x.ncols() {
                (x[(i, j)], x[(p, j)]) = (x[(p, j)], x[(i, j)]);
            }
        }
    }
}
