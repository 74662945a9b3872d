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

use crate::layout::{
    Column, Distribution, GlobalRow, LocalColumn, Partition, Row, Tile, TileColumn, TileRow,
};

/// A matrix by its shards. Columns of a shard are contiguous if the matrix is to be factored.
///
/// Tile columns, and rows of them, are those of ranks that hold whole columns; they panic on other
/// grids. Tiles exist on all grids.
#[derive(Clone, Debug)]
pub struct Matrix<'a, T> {
    shards: Vec<Cells<'a, T>>,
    distribution: &'a Distribution,
}

/// A part of a shard whose rows and columns follow each other in the matrix, too.
pub struct Run<'a, T> {
    pub rows: Tile<Row>,
    pub columns: Tile<Column>,
    pub cells: Cells<'a, T>,
}

impl<'a, T> Matrix<'a, T> {
    /// `shards` are in rank order, (row, column within the shard).
    pub fn new(shards: Vec<Cells<'a, T>>, distribution: &'a Distribution) -> Self {
        let (rows, columns) = distribution.shard();
        assert_eq!(shards.len(), distribution.ranks(), "one shard per rank");
        let fits = |shard: &Cells<T>| (shard.rows(), shard.cols()) == (rows, columns);
        assert!(shards.iter().all(fits), "shards of {rows} x {columns}");
        Matrix { shards, distribution }
    }

    pub fn distribution(&self) -> &'a Distribution {
        self.distribution
    }

    /// Rows of the matrix.
    pub fn m(&self) -> usize {
        self.distribution.m()
    }

    /// Columns of the matrix.
    pub fn n(&self) -> usize {
        self.distribution.n()
    }

    /// Whether it is square, and ranks hold whole columns.
    pub fn is_square_by_columns(&self) -> bool {
        self.m() == self.n() && self.distribution.has_whole_columns()
    }

    /// How its rows are cut.
    pub fn rows(&self) -> &'a Partition<Row> {
        self.distribution.rows()
    }

    /// How its columns are cut.
    pub fn columns(&self) -> &'a Partition<Column> {
        self.distribution.columns()
    }

    pub fn shard(&self, rank: usize) -> Cells<'a, T> {
        self.shards[rank]
    }

    pub fn shards(&self) -> &[Cells<'a, T>] {
        &self.shards
    }

    /// The same shards in another distribution.
    pub fn with_distribution<'b>(&self, distribution: &'b Distribution) -> Matrix<'b, T>
    where
        'a: 'b,
    {
        Matrix::new(self.shards.clone(), distribution)
    }

    /// All rows of tile column `t`.
    pub fn tile_column(&self, t: TileColumn) -> Cells<'a, T> {
        self.part(self.columns().tile(t).rank, self.local_columns(t))
    }

    /// Some rows of tile column `t`.
    pub fn rows_of(&self, t: TileColumn, rows: Range<GlobalRow>) -> Cells<'a, T> {
        self.tile_column(t).matrix_rows(rows)
    }

    /// The diagonal tile of tile column `t`.
    pub fn diagonal(&self, t: TileColumn) -> Cells<'a, T> {
        self.tile(t.row(), t)
    }

    /// The rows of tile `i` in tile column `j`.
    pub fn tile(&self, i: TileRow, j: TileColumn) -> Cells<'a, T> {
        self.run(self.rows().tile(i), self.columns().tile(j)).cells
    }

    /// The rows of tile column `t` below its diagonal tile.
    pub fn below(&self, t: TileColumn) -> Cells<'a, T> {
        self.rows_of(t, self.columns().tile(t).rows().end..self.all_rows().end)
    }

    pub fn all_rows(&self) -> Range<GlobalRow> {
        self.rows().all()
    }

    /// Whole columns of a rank.
    pub fn part(&self, rank: usize, columns: Range<LocalColumn>) -> Cells<'a, T> {
        assert!(self.distribution.has_whole_columns(), "ranks with whole columns");
        let count = columns.end - columns.start;
        self.shards[rank].sub(0, columns.start.get(), self.m(), count)
    }

    /// The runs of a rank, by columns. There is one where the mapping is block.
    pub fn runs(&self, rank: usize) -> impl Iterator<Item = Run<'a, T>> {
        let grid = self.distribution.grid();
        let (rows, columns) = (self.rows().runs(), self.columns().runs());
        let pairs =
            columns.into_iter().flat_map(move |c| rows.clone().into_iter().map(move |r| (r, c)));
        let own = pairs.filter(move |(r, c)| grid.rank(r.rank, c.rank) == rank);
        own.map(|(r, c)| self.run(r, c)).collect::<Vec<_>>().into_iter()
    }

    fn run(&self, rows: Tile<Row>, columns: Tile<Column>) -> Run<'a, T> {
        let shard = self.shards[self.distribution.grid().rank(rows.rank, columns.rank)];
        let (row, column) = (rows.local.get(), columns.local.get());
        Run { rows, columns, cells: shard.sub(row, column, rows.width, columns.width) }
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
            let (rank, own) = (self.columns().tile(t).rank, self.local_columns(t));
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
        let tile = self.columns().tile(t);
        tile.local..tile.local + tile.width
    }

    /// Column `position` of the shards in a row of the grid, counted in rank order.
    pub fn column_at(&self, grid_row: usize, position: usize) -> Cells<'a, T> {
        let local = self.columns().per_rank();
        let rank = self.distribution.grid().rank(grid_row, position / local);
        self.shards[rank].column(position % local)
    }

    /// Row `position` of the shards in a column of the grid, as a column.
    pub fn row_at(&self, grid_column: usize, position: usize) -> Cells<'a, T> {
        let local = self.rows().per_rank();
        let rank = self.distribution.grid().rank(position / local, grid_column);
        self.shards[rank].transposed().column(position % local)
    }
}
