//! Workers that work on one panel together, and what part of it is whose.

use std::ops::Range;

/// Rows of a member are multiples of this, counted from the top of the matrix, so that two members do
/// not write to one line of memory.
const ROW_MULTIPLE: usize = 16;

/// Columns of a member come in multiples of this.
const COLUMN_MULTIPLE: usize = 8;

/// More than the members of a group meet for each column of their panel.
const BARRIERS: usize = 8;

/// `size` workers from worker `leader` on, going round the workers of the call; members are numbered from the
/// leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub leader: usize,
    pub size: usize,
    /// How often the members have met; a later panel's group begins with a higher count.
    passed: usize,
}

impl Group {
    /// For the panel that begins at column `first` of the matrix.
    pub fn new(leader: usize, size: usize, first: usize) -> Self {
        Group { leader, size, passed: BARRIERS * first }
    }

    /// The number of a worker among the members.
    pub fn index_of(&self, worker: usize, workers: usize) -> Option<usize> {
        let index = (worker + workers - self.leader) % workers;
        (index < self.size).then_some(index)
    }

    /// The workers, in the order of their numbers.
    pub fn members(&self, workers: usize) -> impl Iterator<Item = usize> + use<> {
        let leader = self.leader;
        (0..self.size).map(move |index| (leader + index) % workers)
    }

    /// The number of the last barrier.
    pub fn barriers(&self) -> usize {
        self.passed
    }

    /// The number of the next barrier, which takes place.
    pub fn next_barrier(&mut self) -> usize {
        self.passed += 1;
        self.passed
    }

    /// A member's rows of a panel of so many rows that begins in row `first` of the matrix.
    pub fn rows(&self, index: usize, first: usize, rows: usize) -> Range<usize> {
        let start = |index: usize| match index {
            0 => 0,
            _ => {
                rows.min((first + rows * index / self.size).next_multiple_of(ROW_MULTIPLE) - first)
            }
        };
        start(index)..if index + 1 == self.size { rows } else { start(index + 1) }
    }

    /// A member's part of so many columns.
    pub fn columns(&self, index: usize, columns: Range<usize>) -> Range<usize> {
        let part = columns.len().div_ceil(self.size).next_multiple_of(COLUMN_MULTIPLE);
        let start = |index: usize| columns.end.min(columns.start + index * part);
        start(index)..start(index + 1)
    }
}
