//! The scratch of workers that share memory and find eigenvectors. They divide first, and then transform
//! back; both stages take all of it, from its beginning on.

use crate::device::cpu::back::Room;
use crate::device::cpu::real_columns;
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// Elements of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// To transform back: for all workers together, and for each.
    pub back: Room,
    /// To divide, for each.
    divide: usize,
}

impl Parts {
    /// For a matrix of order n, and reflectors up to a width.
    pub fn of<T: Scalar>(n: usize, width: usize) -> Parts {
        Parts { back: Room::of::<T>(n, width), divide: real_columns::room::<T>(n) }
    }

    /// Elements of all for so many workers.
    pub fn elements(&self, workers: usize) -> usize {
        (self.back.shared + workers * self.back.own).max(workers * self.divide)
    }

    /// A worker's part to divide.
    pub fn of_division<'c, T>(&self, all: Cells<'c, T>, worker: usize) -> Cells<'c, T> {
        all.sub(worker * self.divide, 0, self.divide, 1)
    }

    /// The part of all workers to transform back, and a worker's own.
    pub fn of_way_back<'c, T>(&self, all: Cells<'c, T>, worker: usize) -> [Cells<'c, T>; 2] {
        let Room { shared, own } = self.back;
        [all.sub(0, 0, shared, 1), all.sub(shared + worker * own, 0, own, 1)]
    }
}
