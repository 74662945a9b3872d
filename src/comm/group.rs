//! Workers that work on one panel together, and the part of each.

use std::ops::Range;

use super::{Phase, Step};

/// A member's rows start at multiples of this, counted from the top of the matrix. Two members then
/// do not write to one cache line.
const ROW_MULTIPLE: usize = 16;

/// Columns of a member come in multiples of this.
const COLUMN_MULTIPLE: usize = 8;

/// `size` workers from worker `leader` on, modulo the workers of the call. The leader is member 0.
pub struct Group {
    leader: usize,
    size: usize,
    /// Counts the barriers that each member has reached; none for a single member.
    barriers: Option<Phase>,
    /// Barriers that this worker has passed.
    passed: usize,
}

impl Group {
    /// All workers of the call have the same `barriers`, a phase for this group alone.
    pub fn new(leader: usize, size: usize, barriers: Option<Phase>) -> Self {
        assert_eq!(barriers.is_some(), size > 1, "a phase for the barriers of several workers");
        Group { leader, size, barriers, passed: 0 }
    }

    /// The number of members.
    pub fn size(&self) -> usize {
        self.size
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

    /// The number of barriers that this worker has passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Member `me` waits for the others, of all `workers` of the call.
    pub fn barrier(&mut self, me: usize, workers: usize) -> Step {
        let Some(barriers) = &self.barriers else { return Ok(()) };
        self.passed += 1;
        barriers.announce(me, self.passed);
        self.members(workers).try_for_each(|member| barriers.wait(member, self.passed))
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
