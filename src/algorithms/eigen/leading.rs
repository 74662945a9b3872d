//! The leading part of a Hermitian matrix that may be padded, by the lower tiles of tile columns.

use std::ops::Range;

use crate::algorithms::owned_from;
use crate::device::{Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix};
use crate::scalar::Scalar;

pub struct Leading<'m, 'a, T> {
    a: &'m DistMatrix<'a, T>,
    n: usize,
}

impl<'m, 'a, T: Scalar> Leading<'m, 'a, T> {
    /// That of order n.
    pub fn new(a: &'m DistMatrix<'a, T>, n: usize) -> Self {
        Leading { a, n }
    }

    /// The whole matrix.
    pub fn a(&self) -> &'m DistMatrix<'a, T> {
        self.a
    }

    pub fn order(&self) -> usize {
        self.n
    }

    /// Its tile columns.
    pub fn tiles(&self) -> impl Iterator<Item = TileColumn> + Clone + use<'m, 'a, T> {
        let (columns, n) = (self.a.columns(), self.n);
        columns.each().take_while(move |&t| columns.tile(t).global.get() < n)
    }

    /// The rows of the diagonal tile.
    pub fn rows(&self, t: TileColumn) -> Range<usize> {
        let tile = self.a.columns().tile(t);
        tile.global.get()..(tile.global.get() + tile.width).min(self.n)
    }

    /// Tile column t from a row on.
    pub fn column(&self, t: TileColumn, from: usize) -> Cells<'a, T> {
        let rows = GlobalRow::new(from)..GlobalRow::new(self.n);
        self.a.rows_of(t, rows).sub(0, 0, self.n - from, self.rows(t).len())
    }

    /// Tile column t from its diagonal tile on.
    pub fn lower(&self, t: TileColumn) -> Cells<'a, T> {
        self.column(t, self.rows(t).start)
    }

    /// The part of that which is in the trailing matrix from row and column `top` on, and the first
    /// row and column of it, counted from there; `None` if there is none.
    pub fn trailing(&self, t: TileColumn, top: usize) -> Option<(usize, Cells<'a, T>)> {
        let rows = self.rows(t);
        let first = rows.start.max(top);
        let column = (first < rows.end).then(|| self.column(t, first))?;
        let left = first - rows.start;
        Some((first - top, column.sub(0, left, column.rows(), column.cols() - left)))
    }

    /// The columns of tile column t that are left of the trailing matrix, in the rows of that.
    pub fn before(&self, t: TileColumn, top: usize) -> Cells<'a, T> {
        let (rows, column) = (self.rows(t), self.column(t, top));
        column.sub(0, 0, column.rows(), rows.end.min(top).saturating_sub(rows.start))
    }

    /// A worker's tile columns from t on.
    pub fn owned<W: Worker<T>>(&self, worker: &W, t: TileColumn) -> Vec<TileColumn> {
        let owned = owned_from(worker, self.a.columns(), t);
        owned.take_while(|&t| self.a.columns().tile(t).global.get() < self.n).collect()
    }

    /// Fills in the upper halves of this worker's diagonal tiles, whose diagonal becomes real.
    pub fn complete_diagonal<W: Worker<T>>(&self, worker: &mut W) {
        for t in self.owned(worker, TileColumn::new(0)) {
            let width = self.rows(t).len();
            let upper = self.lower(t).sub(0, 0, width, width).transposed();
            worker.mirror(upper, upper, true, true);
        }
    }

    /// Multiplies this worker's tiles by a power of two. `room` is for a tile.
    pub fn scale<W: Worker<T>>(&self, worker: &mut W, by: f64, room: Cells<T>) {
        worker.clear(room);
        worker.make_unit_lower(room);
        for tile in self.pieces(worker, room.rows()) {
            let identity = room.sub(0, 0, tile.rows(), tile.rows());
            worker.trmm(identity, Triangle::Lower, T::from_f64_impl(by), tile);
        }
    }

    /// The parts of this worker's tile columns from the diagonal tile on, of at most so many rows.
    pub fn pieces<W: Worker<T>>(&self, worker: &W, rows: usize) -> Vec<Cells<'a, T>> {
        let columns = self.owned(worker, TileColumn::new(0)).into_iter().map(|t| self.lower(t));
        let cut = |column: Cells<'a, T>| {
            let starts = (0..column.rows()).step_by(rows);
            starts.map(move |top| column.sub(top, 0, rows.min(column.rows() - top), column.cols()))
        };
        columns.flat_map(cut).collect()
    }
}
