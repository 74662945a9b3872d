//! Views of memory, and the distributed matrix as a view for each shard.
//!
//! | view | who may access its elements | made by |
//! |---|---|---|
//! | `faer::MatRef` | anybody, to read | [`Cells::read`], from a slice |
//! | `faer::MatMut` | its holder alone | [`Cells::write`], from a slice |
//! | [`Cells`] | workers of one call, in turn | [`Cells::new`], [`Buffer::cells`], scratch |
//! | [`Remote`] | nobody: a communicator makes one of the above of it | [`DistMatrix`], [`Blocks`] |
//!
//! Kernels of the CPU take the first two, so the compiler separates what they read from what they
//! write. Algorithms pass on [`Cells`]: several workers own tiles of one shard. What another rank
//! has is [`Remote`]; [`Comm`](crate::comm::Comm) hands out a view of it where memory is shared.
//!
//! [`Buffer::cells`]: crate::call::Buffer::cells

mod cells;
mod columns;
mod panel;
mod remote;

pub use cells::Cells;
pub use columns::Columns;
pub use panel::Panel;
pub use remote::{Blocks, Remote};

use std::ops::Range;

use crate::layout::{
    Column, Distribution, GlobalRow, LocalColumn, Partition, Row, Tile, TileColumn, TileRow,
};

/// A distributed matrix, as one worker has it. Columns of a shard are contiguous if the matrix is to
/// be factored.
///
/// [`Cells`] of it are those of the worker's own rank, or of all ranks whose memory is shared. Other
/// elements are [`Remote`].
///
/// Tile columns, and rows of them, are those of ranks that hold whole columns; they panic on other
/// grids. Tiles exist on all grids.
#[derive(Clone, Debug)]
pub struct DistMatrix<'a, T> {
    /// By rank.
    shards: Vec<Remote<'a, T>>,
    distribution: &'a Distribution,
    /// The rank whose memory the worker reaches; `None` if it reaches that of all.
    here: Option<usize>,
}

/// A part of a shard whose rows and columns follow each other in the matrix, too.
pub struct Run<'a, T> {
    pub rows: Tile<Row>,
    pub columns: Tile<Column>,
    pub cells: Cells<'a, T>,
}

impl<'a, T> DistMatrix<'a, T> {
    /// `shards` are in rank order, (row, column within the shard), in memory that the worker reaches.
    pub fn new(shards: Vec<Cells<'a, T>>, distribution: &'a Distribution) -> Self {
        let (rows, columns) = distribution.shard();
        assert_eq!(shards.len(), distribution.ranks(), "one shard per rank");
        let fits = |shard: &Cells<T>| (shard.rows(), shard.cols()) == (rows, columns);
        assert!(shards.iter().all(fits), "shards of {rows} x {columns}");
        let shards = shards.into_iter().map(Remote::new).collect();
        DistMatrix { shards, distribution, here: None }
    }

    /// The same as a worker has it that reaches the memory of rank `here` alone, if there is one.
    pub fn seen_from(self, here: Option<usize>) -> Self {
        DistMatrix { here, ..self }
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

    /// The shard of a rank whose memory the worker reaches.
    pub fn shard(&self, rank: usize) -> Cells<'a, T> {
        self.reached(self.shards[rank])
    }

    /// The shards of all ranks.
    pub fn remote_shards(&self) -> &[Remote<'a, T>] {
        &self.shards
    }

    /// The same shards in another distribution.
    pub fn with_distribution<'b>(&self, distribution: &'b Distribution) -> DistMatrix<'b, T>
    where
        'a: 'b,
    {
        assert_eq!(distribution.shard(), self.distribution.shard(), "the same shards");
        DistMatrix { shards: self.shards.clone(), distribution, here: self.here }
    }

    /// The first rows of the same shards, as many as `distribution` has.
    pub fn first_rows<'b>(&self, distribution: &'b Distribution) -> DistMatrix<'b, T>
    where
        'a: 'b,
    {
        let (rows, columns) = distribution.shard();
        let first = |there: &Remote<'a, T>| Remote::new(there.cells().sub(0, 0, rows, columns));
        let shards = self.shards.iter().map(first).collect();
        DistMatrix { shards, distribution, here: self.here }
    }

    fn reached(&self, there: Remote<'a, T>) -> Cells<'a, T> {
        let (rank, here) = (there.rank(), self.here);
        assert!(here.is_none_or(|here| here == rank), "rank {rank} is reached by a communicator");
        there.cells()
    }

    /// All rows of tile column `t`.
    pub fn tile_column(&self, t: TileColumn) -> Cells<'a, T> {
        self.part(self.columns().tile(t).rank, self.local_columns(t))
    }

    /// Some rows of tile column `t`.
    pub fn rows_of(&self, t: TileColumn, rows: Range<GlobalRow>) -> Cells<'a, T> {
        self.tile_column(t).matrix_rows(rows)
    }

    /// The same, whose rank may be any.
    pub fn remote_rows_of(&self, t: TileColumn, rows: Range<GlobalRow>) -> Remote<'a, T> {
        self.remote_part(self.columns().tile(t).rank, self.local_columns(t)).matrix_rows(rows)
    }

    /// The diagonal tile of tile column `t`.
    pub fn diagonal(&self, t: TileColumn) -> Cells<'a, T> {
        self.tile(t.row(), t)
    }

    /// The rows of tile `i` in tile column `j`.
    pub fn tile(&self, i: TileRow, j: TileColumn) -> Cells<'a, T> {
        self.reached(self.remote_tile(i, j))
    }

    /// The same, whose rank may be any.
    pub fn remote_tile(&self, i: TileRow, j: TileColumn) -> Remote<'a, T> {
        self.remote_run(self.rows().tile(i), self.columns().tile(j))
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
        self.reached(self.remote_part(rank, columns))
    }

    fn remote_part(&self, rank: usize, columns: Range<LocalColumn>) -> Remote<'a, T> {
        assert!(self.distribution.has_whole_columns(), "ranks with whole columns");
        let count = columns.end - columns.start;
        Remote::new(self.shards[rank].cells().sub(0, columns.start.get(), self.m(), count))
    }

    /// The runs of a rank, by columns. There is one where the mapping is block.
    pub fn runs(&self, rank: usize) -> impl Iterator<Item = Run<'a, T>> {
        let grid = self.distribution.grid();
        let (rows, columns) = (self.rows().runs(), self.columns().runs());
        let pairs =
            columns.into_iter().flat_map(move |c| rows.clone().into_iter().map(move |r| (r, c)));
        let own = pairs.filter(move |(r, c)| grid.rank(r.rank, c.rank) == rank);
        let run = |(rows, columns)| Run {
            rows,
            columns,
            cells: self.reached(self.remote_run(rows, columns)),
        };
        own.map(run).collect::<Vec<_>>().into_iter()
    }

    fn remote_run(&self, rows: Tile<Row>, columns: Tile<Column>) -> Remote<'a, T> {
        let shard = self.shards[self.distribution.grid().rank(rows.rank, columns.rank)].cells();
        let (row, column) = (rows.local.get(), columns.local.get());
        Remote::new(shard.sub(row, column, rows.width, columns.width))
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
    pub fn remote_column(&self, grid_row: usize, position: usize) -> Remote<'a, T> {
        let local = self.columns().per_rank();
        let rank = self.distribution.grid().rank(grid_row, position / local);
        Remote::new(self.shards[rank].cells().column(position % local))
    }

    /// Row `position` of the shards in a column of the grid, as a column.
    pub fn remote_row(&self, grid_column: usize, position: usize) -> Remote<'a, T> {
        let local = self.rows().per_rank();
        let rank = self.distribution.grid().rank(position / local, grid_column);
        Remote::new(self.shards[rank].cells().transposed().column(position % local))
    }

    /// Column `position` of the shards where ranks hold whole columns.
    pub fn column(&self, position: usize) -> Cells<'a, T> {
        self.reached(self.remote_column(0, position))
    }
}
