//! Workers that work on one panel together, and the part of each.

use std::ops::Range;

/// A member's rows start at multiples of this, counted from the top of the matrix. Two members then
/// do not write to one cache line.
const ROW_MULTIPLE: usize = 16;

/// Columns of a member come in multiples of this.
const COLUMN_MULTIPLE: usize = 8;

/// An upper bound of the barriers of a group for each column of its panel.
const BARRIERS: usize = 8;

/// `size` workers from worker `leader` on, modulo the workers of the call. The leader is member 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub leader: usize,
    pub size: usize,
    /// Barriers that the members have passed. The group of a later panel starts with a higher
    /// count.
    passed: usize,
}

impl Group {
    /// The group for the panel that begins at column `first` of the matrix.
    pub fn new(leader: usize, size: usize, first: usize) -> Self {
        Group { leader, size, passed: BARRIERS * first }
    }

    /// The index of a worker among the members; `None` if it is not one.
    pub fn index_of(&self, worker: usize, workers: usize) -> Option<usize> {
        let index = (worker + workers - self.leader) % workers;
        (index < self.size).then_some(index)
    }

    /// The workers, in the order of their indices.
    pub fn members(&self, workers: usize) -> impl Iterator<Item = usize> + use<> {
        let leader = self.leader;
        (0..self.size).map(move |index| (leader + index) % workers)
    }

    /// The number of the last barrier.
    pub fn barriers(&self) -> usize {
        self.passed
    }

    /// Counts a barrier and returns its number; every member then waits at it.
    pub fn next_barrier(&mut self) -> usize {
        self.passed += 1;
        self.passed
    }

    /// The rows of member `index` in a panel of `rows` rows that begins in row `first` of the
    /// matrix.
    pub fn rows(&self, index: usize, first: usize, rows: usize) -> Range<usize> {
        let start = |index: usize| match index {
            0 => 0,
            _ => {
                rows.min((first + rows * index / self.size).next_multiple_of(ROW_MULTIPLE) - first)
            }
        };
        start(index)..if index + 1 == self.size { rows } else { start(index + 1) }
    }

    /// The part of member `index` of the given columns.
    pub fn columns(&self, index: usize, columns: Range<usize>) -> Range<usize> {
        let part = columns.len().div_ceil(self.size).next_multiple_of(COLUMN_MULTIPLE);
        let start = |index: usize| columns.end.min(columns.start + index * part);
        start(index)..start(index + 1)
    }
}
