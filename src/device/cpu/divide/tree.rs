//! The binary tree of parts of T, and which workers have rows of which part.

use std::ops::Range;

/// The most rows of a leaf.
const LEAF: usize = 32;

/// Halves of halves of n rows. All leaves have the same depth.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    n: usize,
    depth: usize,
    workers: usize,
}

/// A part of T that two children make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub first: usize,
    /// The first row of the right child.
    pub middle: usize,
    pub end: usize,
}

impl Node {
    pub fn rows(self) -> Range<usize> {
        self.first..self.end
    }
}

/// Which part of the work on a node a worker does.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    index: usize,
    count: usize,
}

impl Share {
    /// That of so many pieces of work.
    pub fn of(self, pieces: usize) -> Range<usize> {
        pieces * self.index / self.count..pieces * (self.index + 1) / self.count
    }

    pub fn is_first(self) -> bool {
        self.index == 0
    }
}

impl Tree {
    pub fn new(n: usize, workers: usize) -> Self {
        let leaves = n.div_ceil(LEAF).max(1).next_power_of_two();
        Tree { n, depth: leaves.trailing_zeros() as usize, workers }
    }

    pub fn order(self) -> usize {
        self.n
    }

    pub fn workers(self) -> usize {
        self.workers
    }

    pub fn depth(self) -> usize {
        self.depth
    }

    /// The first row of a part at a level; the root has level 0.
    fn row(self, level: usize, part: usize) -> usize {
        // As 128 bits, because n may fill most of 64.
        ((self.n as u128 * part as u128) >> level) as usize
    }

    /// The parts of T at a level, of which leaves have the last.
    pub fn part(self, level: usize, part: usize) -> Range<usize> {
        self.row(level, part)..self.row(level, part + 1)
    }

    pub fn node(self, level: usize, part: usize) -> Node {
        let Range { start: first, end } = self.part(level, part);
        Node { first, middle: self.row(level + 1, 2 * part + 1), end }
    }

    /// The leaves of a worker.
    pub fn leaves(self, worker: usize) -> Range<usize> {
        let leaf = |worker: usize| (worker << self.depth) / self.workers;
        leaf(worker)..leaf(worker + 1)
    }

    /// The rows of a worker.
    pub fn rows(self, worker: usize) -> Range<usize> {
        let leaves = self.leaves(worker);
        self.row(self.depth, leaves.start)..self.row(self.depth, leaves.end)
    }

    /// The parts at a level in which a worker has rows.
    pub fn parts(self, level: usize, worker: usize) -> Range<usize> {
        let (leaves, below) = (self.leaves(worker), self.depth - level);
        if leaves.is_empty() {
            return 0..0;
        }
        leaves.start >> below..((leaves.end - 1) >> below) + 1
    }

    /// What a worker does of the work on a part in which it has rows.
    pub fn share(self, level: usize, part: usize, worker: usize) -> Share {
        let has = |other: &usize| self.parts(level, *other).contains(&part);
        let index = (0..worker).filter(has).count();
        Share { index, count: index + (worker..self.workers).filter(has).count() }
    }

    /// Whether several workers have rows of one part at this level.
    pub fn is_shared(self, level: usize) -> bool {
        let leaves = 1 << (self.depth - level);
        (1..self.workers).any(|worker| !self.leaves(worker).start.is_multiple_of(leaves))
    }
}
