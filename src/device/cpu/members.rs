//! A group as one of its workers sees it: its barriers, and how its workers agree on a pivot (an
//! all-reduce).

use std::ops::Range;

use super::candidate::Candidate;
use crate::comm::{Communicator, Group, Step};
use crate::scalar::Scalar;

pub struct Members<'a> {
    index: usize,
    comm: &'a Communicator,
    worker: usize,
    group: &'a mut Group,
}

impl<'a> Members<'a> {
    pub fn new(comm: &'a Communicator, worker: usize, group: &'a mut Group) -> Self {
        let index = group.index_of(worker, comm.workers()).expect("a member of the group");
        Members { index, comm, worker, group }
    }

    pub fn leads(&self) -> bool {
        self.index == 0
    }

    /// Waits for the group's workers.
    pub fn barrier(&mut self) -> Step {
        self.group.barrier(self.worker, self.comm.workers())
    }

    /// This worker's rows of a panel that begins in row `first` of the matrix.
    pub fn rows(&self, first: usize, rows: usize) -> Range<usize> {
        self.group.rows(self.index, first, rows)
    }

    pub fn columns(&self, columns: Range<usize>) -> Range<usize> {
        self.group.columns(self.index, columns)
    }

    /// The best of the workers' candidates, the first among equals, with the entries of the row on
    /// the diagonal.
    pub fn all_reduce<T: Scalar>(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        if self.group.size() == 1 {
            return Ok(mine);
        }
        let turn = (self.group.passed() + 1) % 2;
        let slot = |worker: usize| self.comm.slots(worker).at::<Candidate<T>>(turn);
        // SAFETY: this worker's slot. Every worker has read its last content (see `Slots`).
        unsafe { slot(self.worker).write(mine) };
        self.barrier()?;
        // SAFETY: written before the barrier, and not again before every worker has read it.
        let read = |worker: usize| unsafe { &*slot(worker) };
        let mut members = self.group.members(self.comm.workers()).map(read);
        let top = members.find(|one| one.has_diagonal).expect("the row is a member's");
        // No candidate exceeds a NaN on the diagonal; other NaNs are no candidates.
        let best = members.fold(top, |best, one| if one.size > best.size { one } else { best });
        Ok(Candidate { diagonal: top.diagonal, ..*best })
    }
}
