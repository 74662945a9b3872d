//! Views of what other workers have. A communicator opens them: it hands out the same memory where
//! workers share it, and a copy where they do not.

use std::ops::Range;

use super::Cells;
use crate::layout::GlobalRow;

/// A view of elements that may be in another rank's memory. No kernel takes it.
#[derive(Debug)]
pub struct Remote<'a, T>(Cells<'a, T>);

impl<T> Clone for Remote<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Remote<'_, T> {}

impl<'a, T> Remote<'a, T> {
    pub fn new(cells: Cells<'a, T>) -> Self {
        Remote(cells)
    }

    /// The rank that has the elements.
    pub fn rank(&self) -> usize {
        self.0.rank()
    }

    pub fn column(&self, col: usize) -> Self {
        Remote(self.0.column(col))
    }

    /// The diagonal of a square view as a column.
    pub fn diagonal(&self) -> Self {
        Remote(self.0.diagonal())
    }

    /// Rows of the matrix, of a view that has all of them.
    pub fn matrix_rows(&self, rows: Range<GlobalRow>) -> Self {
        Remote(self.0.matrix_rows(rows))
    }

    pub fn row_range(&self, rows: Range<usize>) -> Self {
        Remote(self.0.row_range(rows))
    }

    /// The elements where they are, for communicators and engines, which reach them.
    pub(crate) fn cells(self) -> Cells<'a, T> {
        self.0
    }
}

/// A block of each worker, all of one shape. Where workers share memory, all may be the same one:
/// [`Comm::receive`](crate::comm::Comm::receive) then has nothing to copy.
#[derive(Clone, Debug)]
pub struct Blocks<'a, T> {
    own: Cells<'a, T>,
    all: Vec<Remote<'a, T>>,
}

impl<'a, T> Blocks<'a, T> {
    /// `all` are in the order of the workers; `worker` is the one that has this value.
    pub fn new(all: impl Iterator<Item = Cells<'a, T>>, worker: usize) -> Self {
        let all: Vec<_> = all.map(Remote::new).collect();
        Blocks { own: all[worker].cells(), all }
    }

    /// This worker's block.
    pub fn own(&self) -> Cells<'a, T> {
        self.own
    }

    /// The block of a worker.
    pub fn of(&self, worker: usize) -> Remote<'a, T> {
        self.all[worker]
    }

    /// A part of each block.
    pub fn part(&self, part: impl Fn(Cells<'a, T>) -> Cells<'a, T>) -> Self {
        let all = self.all.iter().map(|one| Remote(part(one.0))).collect();
        Blocks { own: part(self.own), all }
    }
}
