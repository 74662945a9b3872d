//! A panel of LU as one worker of its group sees it.

use std::ops::Range;

use faer::{MatMut, MatRef};

use super::candidate::Candidate;
use crate::comm::{Members, Step};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// A panel as one worker of the group sees it.
pub struct GroupPanel<'a, T> {
    /// By columns, rows >= columns.
    pub(super) a: Cells<'a, T>,
    /// The row that was interchanged with row i. The leader writes it.
    pub(super) pivots: Cells<'a, i32>,
    /// The rows of this worker.
    pub rows: Range<usize>,
    pub(super) members: Members<'a>,
    /// The first column with a pivot that is zero or not finite.
    pub(super) unusable: Option<usize>,
}

impl<'a, T: Scalar> GroupPanel<'a, T> {
    /// # Safety
    /// *Order* (see [`Cells`]): all members of the group factor this panel, and nothing else
    /// accesses it or its pivots meanwhile.
    pub unsafe fn new(
        a: Cells<'a, T>,
        pivots: Cells<'a, i32>,
        rows: Range<usize>,
        members: Members<'a>,
    ) -> Self {
        let is_tall = a.rows() >= a.cols() && pivots.rows() == a.cols();
        assert!(a.row_stride() == 1 && is_tall, "a tall panel by columns");
        GroupPanel { a, pivots, rows, members, unusable: None }
    }

    /// Elements that no member writes before the next barrier.
    pub(super) fn read(&self, rows: &Range<usize>, columns: &Range<usize>) -> MatRef<'a, T> {
        let part = self.a.sub(rows.start, columns.start, rows.len(), columns.len());
        // SAFETY: *order*: members write other elements, between the barriers of `factor_columns`.
        unsafe { part.read() }
    }

    /// Elements of this worker until the next barrier: its rows in a strip or a product, else its
    /// columns.
    pub fn own(&mut self, rows: &Range<usize>, columns: &Range<usize>) -> MatMut<'_, T> {
        let part = self.a.sub(rows.start, columns.start, rows.len(), columns.len());
        // SAFETY: *order*: members have other rows or columns, between the barriers of
        // `factor_columns`.
        unsafe { part.write() }
    }

    pub fn leads(&self) -> bool {
        self.members.leads()
    }

    /// Records the pivot of column `j`.
    pub fn note_pivot(&mut self, j: usize, row: usize, usable: bool) {
        if !usable {
            self.unusable.get_or_insert(j);
        }
        if self.leads() {
            // SAFETY: *order*: only the leader writes pivots, and a barrier comes before the others
            // read them.
            unsafe { self.pivots.at(j, 0).write(row as i32) };
        }
    }

    /// The best of the workers' candidates, with the leader's row on the diagonal.
    pub fn all_reduce(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        self.members.all_reduce(mine, |all| Candidate::best(all))
    }
}
