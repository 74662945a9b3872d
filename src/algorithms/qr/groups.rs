//! Workers that reduce rows into one triangle, in turn at each of its blocks of rows.
//!
//! ```text
//! worker 0   rows 0: block 0, 1, 2, ..., rows 2: block 0, 1, 2, ...
//! worker 1            rows 1: block 0, 1, 2, ..., rows 3: block 0, ...
//! ```
//! A worker waits at each block for the rows before its own. Blocks take less time from the first to
//! the last, so all have work while a group has fewer workers than half of the blocks.

use std::ops::Range;

use crate::comm::{Phase, Signal, Step};
use crate::device::Worker;
use crate::scalar::Scalar;

/// Blocks of a triangle for each worker of a group, at least: twice as many as all need to have work.
const BLOCKS: usize = 4;

/// How workers share triangles.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    workers: usize,
    count: usize,
    /// Blocks of a triangle.
    blocks: usize,
}

impl Groups {
    /// As few as workers can share, for triangles of so many blocks.
    pub fn new(workers: usize, blocks: usize) -> Groups {
        Groups { workers, count: workers.div_ceil(Groups::most(blocks)), blocks }
    }

    /// The most workers that share a triangle of so many blocks.
    pub fn most(blocks: usize) -> usize {
        (blocks / BLOCKS).max(1)
    }

    /// Each worker alone.
    pub fn alone(workers: usize) -> Groups {
        Groups { workers, count: workers, blocks: 0 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The group of a worker.
    pub fn of(&self, worker: usize) -> usize {
        (worker * self.count + self.count - 1) / self.workers
    }

    /// The first worker of a group.
    pub fn first(&self, group: usize) -> usize {
        group * self.workers / self.count
    }

    fn members(&self, group: usize) -> Range<usize> {
        self.first(group)..self.first(group + 1)
    }
}

/// A worker's turns at the blocks of a triangle, round by round. All its group makes as many rounds.
pub struct Turns {
    group: usize,
    members: Range<usize>,
    worker: usize,
    /// Where groups have several workers.
    phase: Option<Phase>,
    blocks: usize,
    /// The number of its turns that have ended.
    ended: usize,
}

impl Turns {
    /// All workers call this together.
    pub fn new<T: Scalar>(worker: &mut impl Worker<T>, groups: Groups) -> Turns {
        let (me, group) = (worker.worker(), groups.of(worker.worker()));
        let phase = (groups.count < groups.workers).then(|| worker.phase(Signal::Blocks));
        let (members, blocks) = (groups.members(group), groups.blocks);
        Turns { group, members, worker: me, phase, blocks, ended: 0 }
    }

    pub fn group(&self) -> usize {
        self.group
    }

    pub fn is_first(&self) -> bool {
        self.members.start == self.worker
    }

    /// Workers of the group.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The number of this one among them.
    pub fn member(&self) -> usize {
        self.worker - self.members.start
    }

    /// Waits for the turn at the next block.
    pub fn wait<T: Scalar>(&self, worker: &mut impl Worker<T>) -> Step {
        let Some(phase) = &self.phase else { return Ok(()) };
        if !self.is_first() {
            return worker.wait(phase, self.worker - 1, self.ended + 1);
        }
        // The last one has to end this turn of the round before, if there was one.
        match self.ended.checked_sub(self.blocks) {
            Some(before) => worker.wait(phase, self.members.end - 1, before + 1),
            None => Ok(()),
        }
    }

    /// Ends that turn.
    pub fn announce<T: Scalar>(&mut self, worker: &mut impl Worker<T>) {
        self.ended += 1;
        if let Some(phase) = &self.phase {
            worker.announce(phase, self.ended);
        }
    }
}
