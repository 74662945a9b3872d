//! How one axis of a matrix, its rows or its columns, is cut into tiles, and which rank along that
//! axis holds each.
//!
//! Every rank holds an equal number of rows or columns, cut into k pieces. Their widths w_0..w_{k-1}
//! differ by at most one. In the *block* mapping the shards follow one another as the caller sees
//! them. In the *block-cyclic* one, global tile t = i*P + d is piece i of rank d. Capacities match
//! for every extent divisible by P, so there is no padding. A permutation turns one mapping into the
//! other.
//!
//! The *tiler*, a value of the layout algebra, maps each tile to its place (see the worked table of
//! the parent module). Widths may differ, so an explicit list holds them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::index::{Column, Global, Index, Local, Tiled};
use super::{GlobalColumn, GlobalRow, Layout};

/// Which rank holds which tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    Block,
    BlockCyclic,
}

/// A run of rows or columns on one rank: the unit of the distributed algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile<Axis> {
    /// The rank along this axis.
    pub rank: usize,
    /// Its first row or column within the shard of `rank`.
    pub local: Index<Local, Axis>,
    /// Its first row or column within the matrix.
    pub global: Index<Global, Axis>,
    /// Its number of rows or columns.
    pub width: usize,
}

impl<Axis: Copy> Tile<Axis> {
    pub fn range(self) -> Range<Index<Global, Axis>> {
        self.global..self.global + self.width
    }
}

impl Tile<Column> {
    pub fn columns(self) -> Range<GlobalColumn> {
        self.range()
    }

    /// The rows of the tile on the diagonal.
    pub fn rows(self) -> Range<GlobalRow> {
        self.global.row()..self.global.row() + self.width
    }
}

/// The rows or the columns of a matrix over P ranks. Tiles are in global order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition<Axis> {
    extent: usize,
    ranks: usize,
    /// Maps the number of a tile to its place among all pieces, which count in rank order.
    tiler: Layout,
    tiles: Vec<Tile<Axis>>,
}

impl<Axis: Copy + Ord> Partition<Axis> {
    /// Cuts each rank's part into the fewest pieces of at most `tile` rows or columns.
    ///
    /// Panics unless `ranks` divides `extent`, and both it and `tile` are positive. Callers check
    /// this.
    pub fn new(extent: usize, ranks: usize, tile: usize, mapping: Mapping) -> Self {
        Self::in_units(extent, ranks, tile, 1, mapping)
    }

    /// The same with pieces that begin at multiples of `unit` in a rank's part, if `tile` is one.
    pub fn in_units(
        extent: usize,
        ranks: usize,
        tile: usize,
        unit: usize,
        mapping: Mapping,
    ) -> Self {
        let fits = ranks > 0 && tile > 0 && extent.is_multiple_of(ranks);
        assert!(fits, "{extent} over {ranks} ranks in tiles of {tile}");
        let per_rank = extent / ranks;
        let pieces = per_rank.div_ceil(tile);
        let unit = if tile.is_multiple_of(unit) { unit } else { 1 };
        let start_of =
            |piece| piece_start(per_rank, pieces, piece).next_multiple_of(unit).min(per_rank);
        let tiler = match mapping {
            Mapping::Block => Layout::new((pieces, ranks), (1, pieces)),
            Mapping::BlockCyclic => Layout::new((ranks, pieces), (pieces, 1)),
        };
        let mut global = Index::new(0);
        let tiles = (0..pieces * ranks)
            .map(|t| {
                let position = tiler.index(t);
                let (rank, piece) = (position / pieces, position % pieces);
                let start = start_of(piece);
                let width = start_of(piece + 1) - start;
                let first = global;
                global += width;
                Tile { rank, local: Index::new(start), global: first, width }
            })
            .collect();
        Partition { extent, ranks, tiler, tiles }
    }

    /// All of the axis on one rank, in tiles that end at `ends`, ascending and positive.
    pub fn of_one_rank(ends: impl Iterator<Item = usize>) -> Self {
        let mut extent = 0;
        let tiles: Vec<_> = ends
            .map(|end| {
                let (start, width) = (extent, end - extent);
                assert!(width > 0, "tiles with rows or columns");
                extent = end;
                Tile { rank: 0, local: Index::new(start), global: Index::new(start), width }
            })
            .collect();
        Partition {
            extent,
            ranks: 1,
            tiler: Layout::new((tiles.len(), 1), (1, tiles.len())),
            tiles,
        }
    }

    /// The map from rows or columns to positions, which count through the shards in rank order.
    /// None where tiles differ in width.
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
        let mut counts = BTreeMap::new();
        self.tiles.iter().for_each(|tile| *counts.entry(tile.width).or_default() += 1);
        counts.into_iter().rev().collect()
    }

    /// The number of rows or columns.
    pub fn extent(&self) -> usize {
        self.extent
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    pub fn per_rank(&self) -> usize {
        self.extent / self.ranks
    }

    /// Number of tile rows or tile columns.
    pub fn count(&self) -> usize {
        self.tiles.len()
    }

    /// All tile rows or tile columns, ascending.
    pub fn each(&self) -> impl DoubleEndedIterator<Item = Index<Tiled, Axis>> + Clone + use<Axis> {
        Index::each(Index::new(0)..self.end())
    }

    /// The number after that of the last tile.
    pub fn end(&self) -> Index<Tiled, Axis> {
        Index::new(self.tiles.len())
    }

    pub fn tile(&self, t: Index<Tiled, Axis>) -> Tile<Axis> {
        self.tiles[t.get()]
    }

    /// All rows or columns.
    pub fn all(&self) -> Range<Index<Global, Axis>> {
        Index::new(0)..Index::new(self.extent)
    }

    /// The rows or columns of a tile.
    pub fn range(&self, t: Index<Tiled, Axis>) -> Range<Index<Global, Axis>> {
        self.tile(t).range()
    }

    /// The first row or column of tile `t`; the extent for the end.
    pub fn start(&self, t: Index<Tiled, Axis>) -> Index<Global, Axis> {
        self.tiles.get(t.get()).map_or(Index::new(self.extent), |tile| tile.global)
    }

    /// The tile of a row or column. Panics where there is none.
    pub fn tile_of(&self, j: Index<Global, Axis>) -> Index<Tiled, Axis> {
        assert!(j.get() < self.extent, "{j:?} of {}", self.extent);
        Index::new(self.tiles.partition_point(|tile| tile.global <= j) - 1)
    }

    /// The rank that holds a row or column, and the number there.
    pub fn local(&self, j: Index<Global, Axis>) -> (usize, Index<Local, Axis>) {
        let tile = self.tile(self.tile_of(j));
        (tile.rank, tile.local + (j - tile.global))
    }

    /// The row or column of the matrix that a rank holds as `j`: the inverse of
    /// [`Partition::local`].
    pub fn global(&self, rank: usize, j: Index<Local, Axis>) -> Index<Global, Axis> {
        let holds = |tile: &&Tile<Axis>| {
            tile.rank == rank && (tile.local..tile.local + tile.width).contains(&j)
        };
        let tile = self.tiles.iter().find(holds).expect("a row or column of the rank");
        tile.global + (j - tile.local)
    }

    /// The widest tile (0 for an empty matrix).
    pub fn widest(&self) -> usize {
        self.tiles.iter().map(|t| t.width).max().unwrap_or(0)
    }

    /// Tiles, joined where one follows another in the matrix and in a shard.
    pub fn runs(&self) -> Vec<Tile<Axis>> {
        let mut runs: Vec<Tile<Axis>> = Vec::new();
        for tile in &self.tiles {
            match runs.last_mut() {
                Some(run) if (run.rank, run.local + run.width) == (tile.rank, tile.local) => {
                    run.width += tile.width;
                }
                _ => runs.push(*tile),
            }
        }
        runs
    }

    /// The same for the other axis, as in a transpose.
    pub(super) fn turned<Other>(&self) -> Partition<Other> {
        let turn = |tile: &Tile<Axis>| Tile {
            rank: tile.rank,
            local: Index::new(tile.local.get()),
            global: Index::new(tile.global.get()),
            width: tile.width,
        };
        let Partition { extent, ranks, ref tiler, ref tiles } = *self;
        Partition { extent, ranks, tiler: tiler.clone(), tiles: tiles.iter().map(turn).collect() }
    }

    /// `source[p]` is a position in the block mapping: that of the row or column that belongs at
    /// position `p` of this one. Positions count through the shards in rank order.
    pub fn source(&self) -> Vec<usize> {
        let mut source = vec![0; self.extent];
        for tile in &self.tiles {
            let first = tile.rank * self.per_rank() + tile.local.get();
            for (c, j) in Index::each(tile.range()).enumerate() {
                source[first + c] = j.get();
            }
        }
        source
    }

    /// The inverse of `source`: `destination[p]` is a position in this mapping. What is at position
    /// `p` of the block mapping belongs there.
    pub fn destination(&self) -> Vec<usize> {
        let mut destination = vec![0; self.extent];
        for (position, &source) in self.source().iter().enumerate() {
            destination[source] = position;
        }
        destination
    }
}

/// First index of piece `i` when `extent` is cut into `pieces` of nearly equal width. The wider
/// pieces come first.
fn piece_start(extent: usize, pieces: usize, i: usize) -> usize {
    if pieces == 0 {
        return 0;
    }
    i * (extent / pieces) + i.min(extent % pieces)
}
