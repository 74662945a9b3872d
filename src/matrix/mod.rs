//! Views of memory, and the distributed matrix as a view for each shard.
//!
//! | view | who may access its elements | made by |
//! |---|---|---|
//! | `faer::MatRef` | anybody, to read | [`Cells::read`], from a slice |
//! | `faer::MatMut` | its holder alone | [`Cells::write`], from a slice |
//! | [`Cells`] | workers of one call, in turn | [`Cells::new`], [`Buffer::cells`], scratch |
//!
//! Kernels of the CPU take the first two, so the compiler separates what they read from what they
//! write. Algorithms pass on [`Cells`]: several workers own tiles of one shard, and the memory may
//! be that of another device.
//!
//! [`Buffer::cells`]: crate::call::Buffer::cells

mod cells;

pub use cells::Cells;

use std::ops::Range;

use crate::layout::{Columns, GlobalRow, LocalColumn, TileColumn, TileRow};

/// An n x n matrix whose whole columns are distributed to ranks by `columns`. Rank r holds
/// `n/P` columns of n elements each, shard r. Its columns are contiguous if the matrix is to be
/// factored.
#[derive(Clone, Debug)]
pub struct Matrix<'a, T> {
    shards: Vec<Cells<'a, T>>,
    columns: &'a Columns,
}

impl<'a, T> Matrix<'a, T> {
    /// `shards` are in rank order, (row, column within the shard).
    pub fn new(shards: Vec<Cells<'a, T>>, columns: &'a Columns) -> Self {
        let (n, per_rank) = (columns.n(), columns.per_rank());
        assert_eq!(shards.len(), columns.ranks(), "one shard per rank");
        let fits = |shard: &Cells<T>| (shard.rows(), shard.cols()) == (n, per_rank);
        assert!(shards.iter().all(fits), "shards of {n} x {per_rank}");
        Matrix { shards, columns }
    }

    pub fn columns(&self) -> &'a Columns {
        self.columns
    }

    pub fn shard(&self, rank: usize) -> Cells<'a, T> {
        self.shards[rank]
    }

    pub fn shards(&self) -> &[Cells<'a, T>] {
        &self.shards
    }

    /// The same shards with other tiles.
    pub fn with_columns<'b>(&self, columns: &'b Columns) -> Matrix<'b, T>
    where
        'a: 'b,
    {
        Matrix::new(self.shards.clone(), columns)
    }

    /// All rows of tile column `t`.
    pub fn tile_column(&self, t: TileColumn) -> Cells<'a, T> {
        self.part(self.columns.tile(t).rank, self.local_columns(t))
    }

    /// Some rows of tile column `t`.
    pub fn rows(&self, t: TileColumn, rows: Range<GlobalRow>) -> Cells<'a, T> {
        self.tile_column(t).matrix_rows(rows)
    }

    /// The diagonal tile of tile column `t`.
    pub fn diagonal(&self, t: TileColumn) -> Cells<'a, T> {
        self.tile(t.row(), t)
    }

    /// The rows of tile `i` in tile column `j`.
    pub fn tile(&self, i: TileRow, j: TileColumn) -> Cells<'a, T> {
        self.rows(j, self.columns.rows(i))
    }

    /// The rows of tile column `t` below its diagonal tile.
    pub fn below(&self, t: TileColumn) -> Cells<'a, T> {
        self.rows(t, self.columns.tile(t).rows().end..self.all_rows().end)
    }

    pub fn all_rows(&self) -> Range<GlobalRow> {
        GlobalRow::new(0)..GlobalRow::new(self.columns.n())
    }

    /// Whole columns of a rank.
    pub fn part(&self, rank: usize, columns: Range<LocalColumn>) -> Cells<'a, T> {
        let count = columns.end - columns.start;
        self.shards[rank].sub(0, columns.start.get(), self.columns.n(), count)
    }

    /// Tile columns, joined where one follows another in a shard, as wide as `most` at most. Each
    /// has the number of its first tile column.
    pub fn adjacent(
        &self,
        tiles: impl Iterator<Item = TileColumn>,
        most: usize,
    ) -> Vec<(TileColumn, Cells<'a, T>)> {
        let mut runs: Vec<(TileColumn, usize, Range<LocalColumn>)> = Vec::new();
        for t in tiles {
            let (rank, own) = (self.columns.tile(t).rank, self.local_columns(t));
            match runs.last_mut() {
                Some((_, last, run))
                    if (*last, run.end) == (rank, own.start) && own.end - run.start <= most =>
                {
                    run.end = own.end;
                }
                _ => runs.push((t, rank, own)),
            }
        }
        runs.into_iter().map(|(t, rank, run)| (t, self.part(rank, run))).collect()
    }

    fn local_columns(&self, t: TileColumn) -> Range<LocalColumn> {
        let tile = self.columns.tile(t);
        tile.local..tile.local + tile.width
    }

    /// Column `position` of all shards, counted in rank order.
    pub fn column_at(&self, position: usize) -> Cells<'a, T> {
        let local = self.columns.per_rank();
        self.shards[position / local].column(position % local)
    }
}
