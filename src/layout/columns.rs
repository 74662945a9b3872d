//! How the columns of an n x n matrix are distributed to P ranks, tile by tile.
//!
//! Every rank holds n/P whole columns, cut into k pieces. Their widths w_0..w_{k-1} differ by at
//! most one. In the *block* distribution the shards follow one another as the caller sees them. In
//! the *block-cyclic* one, global tile t = i*P + d is piece i of rank d. Capacities match for every
//! n divisible by P, so there is no padding. A permutation of whole columns turns one distribution
//! into the other.
//!
//! The *tiler*, a value of the layout algebra, maps each tile to its place (see the worked table of
//! the parent module). Widths may differ, so an explicit list holds them.

use std::ops::Range;

use super::{GlobalColumn, GlobalRow, Layout, LocalColumn, LocalRow, TileColumn, TileRow};

/// Which rank owns which columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    Block,
    BlockCyclic,
}

/// A run of whole columns on one rank: the unit of the distributed algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub rank: usize,
    /// First column within the shard of `rank`.
    pub local: LocalColumn,
    /// First column within the matrix.
    pub global: GlobalColumn,
    pub width: usize,
}

impl Tile {
    pub fn columns(self) -> Range<GlobalColumn> {
        self.global..self.global + self.width
    }

    /// The rows of the tile on the diagonal.
    pub fn rows(self) -> Range<GlobalRow> {
        self.global.row()..self.global.row() + self.width
    }
}

/// The distribution of n columns over P ranks. Tiles are in global column order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    n: usize,
    ranks: usize,
    /// Maps the number of a tile to its place among all pieces, which count in rank order.
    tiler: Layout,
    tiles: Vec<Tile>,
}

impl Columns {
    /// Cuts each rank's n/P columns into the fewest pieces of at most `tile` columns.
    ///
    /// Panics unless `ranks` divides `n`, and both it and `tile` are positive. Callers check this.
    pub fn new(n: usize, ranks: usize, tile: usize, distribution: Distribution) -> Self {
        assert!(ranks > 0 && tile > 0 && n.is_multiple_of(ranks), "n={n} P={ranks} tile={tile}");
        let per_rank = n / ranks;
        let pieces = per_rank.div_ceil(tile);
        let tiler = match distribution {
            Distribution::Block => Layout::new((pieces, ranks), (1, pieces)),
            Distribution::BlockCyclic => Layout::new((ranks, pieces), (pieces, 1)),
        };
        let mut global = 0;
        let tiles = (0..pieces * ranks)
            .map(|t| {
                let position = tiler.index(t);
                let (rank, piece) = (position / pieces, position % pieces);
                let local = LocalColumn::new(piece_start(per_rank, pieces, piece));
                let width = piece_start(per_rank, pieces, piece + 1) - local.get();
                let first = GlobalColumn::new(global);
                global += width;
                Tile { rank, local, global: first, width }
            })
            .collect();
        Columns { n, ranks, tiler, tiles }
    }

    /// The map from global columns to positions, which count through the shards in rank order. None
    /// where tiles differ in width.
    pub fn layout(&self) -> Option<Layout> {
        let width = self.widest();
        let equal = self.tiles.iter().all(|t| t.width == width);
        equal.then(|| Layout::new(width, 1).logical_product(&self.tiler))
    }

    /// Maps the number of a tile to its place among all pieces, which count in rank order.
    pub fn tiler(&self) -> &Layout {
        &self.tiler
    }

    /// Number of tiles of each width, the wider ones first.
    pub fn widths(&self) -> Vec<(usize, usize)> {
        let widest = self.widest();
        let wide = self.tiles.iter().filter(|t| t.width == widest).count();
        let counts = [(widest, wide), (widest.saturating_sub(1), self.tiles.len() - wide)];
        counts.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    pub fn n(&self) -> usize {
        self.n
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    pub fn per_rank(&self) -> usize {
        self.n / self.ranks
    }

    /// Number of tile columns.
    pub fn count(&self) -> usize {
        self.tiles.len()
    }

    /// All tile columns, ascending.
    pub fn each(&self) -> impl DoubleEndedIterator<Item = TileColumn> + Clone + use<> {
        TileColumn::each(TileColumn::new(0)..self.end())
    }

    /// The number after that of the last tile column.
    pub fn end(&self) -> TileColumn {
        TileColumn::new(self.tiles.len())
    }

    pub fn tile(&self, t: TileColumn) -> Tile {
        self.tiles[t.get()]
    }

    /// The rows of a tile row, which are cut as the columns are.
    pub fn rows(&self, i: TileRow) -> Range<GlobalRow> {
        self.tiles[i.get()].rows()
    }

    /// The first row of tile row `i`; n for the end.
    pub fn start(&self, i: TileRow) -> GlobalRow {
        GlobalRow::new(self.tiles.get(i.get()).map_or(self.n, |tile| tile.global.get()))
    }

    /// The tile of a column. Panics where there is none.
    pub fn tile_of(&self, j: GlobalColumn) -> TileColumn {
        assert!(j.get() < self.n, "column {j:?} of {}", self.n);
        TileColumn::new(self.tiles.partition_point(|tile| tile.global <= j) - 1)
    }

    /// The rank that holds a column, and the column there.
    pub fn local(&self, j: GlobalColumn) -> (usize, LocalColumn) {
        let tile = self.tile(self.tile_of(j));
        (tile.rank, tile.local + (j - tile.global))
    }

    /// The column of the matrix that a rank holds as `j`: the inverse of [`Columns::local`].
    pub fn global(&self, rank: usize, j: LocalColumn) -> GlobalColumn {
        let holds =
            |tile: &&Tile| tile.rank == rank && (tile.local..tile.local + tile.width).contains(&j);
        let tile = self.tiles.iter().find(holds).expect("a column of the rank");
        tile.global + (j - tile.local)
    }

    /// The row within every shard, because ranks hold whole columns.
    pub fn local_row(&self, i: GlobalRow) -> LocalRow {
        LocalRow::new(i.get())
    }

    /// The widest tile (0 for an empty matrix).
    pub fn widest(&self) -> usize {
        self.tiles.iter().map(|t| t.width).max().unwrap_or(0)
    }

    /// `source[p]` is a position in the block distribution: that of the column that belongs at
    /// position `p` of this one. Positions count columns through the shards in rank order.
    pub fn source(&self) -> Vec<usize> {
        let mut source = vec![0; self.n];
        for tile in &self.tiles {
            let first = tile.rank * self.per_rank() + tile.local.get();
            for (c, column) in GlobalColumn::each(tile.columns()).enumerate() {
                source[first + c] = column.get();
            }
        }
        source
    }

    /// The inverse of `source`: `destination[p]` is a position in this distribution. The column at
    /// position `p` of the block distribution belongs there.
    pub fn destination(&self) -> Vec<usize> {
        let mut destination = vec![0; self.n];
        for (position, &source) in self.source().iter().enumerate() {
            destination[source] = position;
        }
        destination
    }
}

/// First column of piece `i` when `columns` are cut into `pieces` of nearly equal width. The wider
/// pieces come first.
fn piece_start(columns: usize, pieces: usize, i: usize) -> usize {
    if pieces == 0 {
        return 0;
    }
    i * (columns / pieces) + i.min(columns % pieces)
}
