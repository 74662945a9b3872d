//! A group as one of its workers sees it: its barriers, and reductions of values with what belongs
//! to them, as a pivot with its row.

use std::ops::Range;

use super::{Communicator, Group, Step};

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

    /// What `reduce` makes of the members' values, in the order of their indices. All members get
    /// the same.
    #[inline(always)]
    pub fn all_reduce<V: Copy>(
        &mut self,
        mine: V,
        reduce: impl FnOnce(&mut dyn Iterator<Item = &V>) -> V,
    ) -> Step<V> {
        if self.group.size() == 1 {
            return Ok(mine);
        }
        let turn = (self.group.passed() + 1) % 2;
        let slot = |worker: usize| self.comm.slots(worker).at::<V>(turn);
        // SAFETY: this worker's slot. Every worker has read its last content (see `Slots`).
        unsafe { slot(self.worker).write(mine) };
        self.barrier()?;
        // SAFETY: written before the barrier, and not again before every worker has read it.
        let read = |worker: usize| unsafe { &*slot(worker) };
        Ok(reduce(&mut self.group.members(self.comm.workers()).map(read)))
    }
}
