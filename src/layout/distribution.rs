//! The distribution of an m x n matrix over a grid of p x q ranks: a partition of its rows and one of
//! its columns. Pure integers.
//!
//! | distribution | constructor |
//! |---|---|
//! | tiles of mb x nb over a p x q grid | [`Distribution::new`] |
//! | the shards of a JAX array, `P('x', 'y')` on a p x q mesh | [`Distribution::shards`] |
//! | `P('x', None)`, `P(None, 'x')` | the same on a P x 1 or 1 x P grid |
//! | whole columns in tiles whose widths differ by at most one | [`Distribution::whole_columns`] |
//! | the transpose, as row-major memory is that of A^T | [`Distribution::transposed`] |
//!
//! ```
//! use meshsolve::layout::{Distribution, GlobalColumn, GlobalRow, Grid, Mapping};
//! let cyclic = Distribution::new((8, 12), (2, 3), Grid::new(2, 2), Mapping::BlockCyclic);
//! // Element (5, 4): rows 4 and 5 are the second tile of grid row 0, columns 3 to 5 the first of
//! // grid column 1.
//! let (row, local_row) = cyclic.rows().local(GlobalRow::new(5));
//! let (column, local_column) = cyclic.columns().local(GlobalColumn::new(4));
//! assert_eq!(cyclic.grid().rank(row, column), 1);
//! assert_eq!((local_row.get(), local_column.get()), (3, 1));
//! ```

use super::index::{Column, Row};
use super::partition::{Mapping, Partition};

/// A grid of p x q ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: usize,
    columns: usize,
    /// Rank (r, c) has number r + p c, not r q + c.
    by_columns: bool,
}

impl Grid {
    /// A p x q grid whose ranks count row by row, as JAX counts the devices of a mesh.
    pub const fn new(rows: usize, columns: usize) -> Self {
        Grid { rows, columns, by_columns: false }
    }

    pub fn rows(self) -> usize {
        self.rows
    }

    pub fn columns(self) -> usize {
        self.columns
    }

    pub fn ranks(self) -> usize {
        self.rows * self.columns
    }

    /// The number of rank (row, column).
    pub fn rank(self, row: usize, column: usize) -> usize {
        if self.by_columns { row + self.rows * column } else { row * self.columns + column }
    }

    /// The grid of the transpose, in which each rank keeps its number.
    pub fn transposed(self) -> Self {
        let is_flat = self.rows == 1 || self.columns == 1;
        let by_columns = !is_flat && !self.by_columns;
        Grid { rows: self.columns, columns: self.rows, by_columns }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    rows: Partition<Row>,
    columns: Partition<Column>,
    grid: Grid,
}

impl Distribution {
    /// An m x n matrix in tiles of at most mb x nb.
    ///
    /// Panics unless the grid divides m and n, and all sizes of tiles are positive.
    pub fn new(
        (m, n): (usize, usize),
        (mb, nb): (usize, usize),
        grid: Grid,
        mapping: Mapping,
    ) -> Self {
        Distribution {
            rows: Partition::new(m, grid.rows, mb, mapping),
            columns: Partition::new(n, grid.columns, nb, mapping),
            grid,
        }
    }

    /// The shards of a JAX array: one tile for each rank.
    pub fn shards((m, n): (usize, usize), grid: Grid) -> Self {
        let tile = ((m / grid.rows).max(1), (n / grid.columns).max(1));
        Self::new((m, n), tile, grid, Mapping::Block)
    }

    /// Whole columns in tiles of at most nb columns. Rows are cut where columns are, so tiles on the
    /// diagonal are square; further rows are cut into tiles of nb.
    pub fn whole_columns(
        (m, n): (usize, usize),
        ranks: usize,
        nb: usize,
        mapping: Mapping,
    ) -> Self {
        Self::of_columns(m, Partition::new(n, ranks, nb, mapping), nb)
    }

    /// The same of columns that are cut already.
    pub fn of_columns(m: usize, columns: Partition<Column>, nb: usize) -> Self {
        let (n, ranks) = (columns.extent(), columns.ranks());
        let ends = columns.each().map(|t| columns.range(t).end.get());
        let ends = ends.chain((n..m).step_by(nb).map(|start| start + nb));
        let mut last = 0;
        let rows = Partition::of_one_rank(ends.map(|end| end.min(m)).filter(|&end| {
            let is_new = end > last;
            last = end;
            is_new
        }));
        Distribution { rows, columns, grid: Grid::new(1, ranks) }
    }

    /// That of the transpose.
    pub fn transposed(&self) -> Self {
        Distribution {
            rows: self.columns.turned(),
            columns: self.rows.turned(),
            grid: self.grid.transposed(),
        }
    }

    /// Tiles of the same sizes in the block mapping.
    pub fn in_block_mapping(&self) -> Self {
        let ((m, n), (mb, nb)) = ((self.m(), self.n()), (self.mb().max(1), self.nb().max(1)));
        match self.grid.rows == 1 && self.is_square_on_diagonal() {
            true => Self::whole_columns((m, n), self.grid.columns, nb, Mapping::Block),
            false => Self::new((m, n), (mb, nb), self.grid, Mapping::Block),
        }
    }

    pub fn rows(&self) -> &Partition<Row> {
        &self.rows
    }

    pub fn columns(&self) -> &Partition<Column> {
        &self.columns
    }

    /// Rows of the matrix.
    pub fn m(&self) -> usize {
        self.rows.extent()
    }

    /// Columns of the matrix.
    pub fn n(&self) -> usize {
        self.columns.extent()
    }

    /// The most rows of a tile.
    pub fn mb(&self) -> usize {
        self.rows.widest()
    }

    /// The most columns of a tile.
    pub fn nb(&self) -> usize {
        self.columns.widest()
    }

    pub fn grid(&self) -> Grid {
        self.grid
    }

    pub fn ranks(&self) -> usize {
        self.grid.ranks()
    }

    /// Whether ranks hold whole columns.
    pub fn has_whole_columns(&self) -> bool {
        self.grid.rows == 1
    }

    /// Whether rows and columns are cut alike, as far as both go.
    pub fn is_square_on_diagonal(&self) -> bool {
        let (rows, columns) = (self.rows.each(), self.columns.each());
        rows.zip(columns).all(|(i, j)| self.rows.range(i) == self.columns.tile(j).rows())
    }

    /// Rows and columns of a shard.
    pub fn shard(&self) -> (usize, usize) {
        (self.rows.per_rank(), self.columns.per_rank())
    }
}
