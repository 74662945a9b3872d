//! How the columns of an n x n matrix are distributed to P ranks, tile by tile.
//!
//! Every rank holds n/P whole columns, cut into k pieces of widths w_0..w_{k-1} that differ by at
//! most one. In the *block* distribution the shards stand side by side as the caller sees them; in the
//! *block-cyclic* one global tile t = i*P + d is piece i of rank d. Capacities match for every
//! n divisible by P, so nothing is padded and one distribution turns into the other by a permutation of
//! whole columns.
//!
//! Which tile lands where is a value of the layout algebra, the *tiler* (see the worked table of the
//! parent module); widths may differ, so they are an explicit list beside it.

use super::Layout;

/// Where global columns live.
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
    pub local: usize,
    /// First column within the matrix.
    pub global: usize,
    pub width: usize,
}

/// The distribution of n columns over P ranks; tiles are in global column order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    n: usize,
    ranks: usize,
    /// From the number of a tile to its place among all pieces, counted in rank order.
    tiler: Layout,
    tiles: Vec<Tile>,
}

impl Columns {
    /// Cuts each rank's n/P columns into the fewest pieces of at most `tile` columns.
    ///
    /// Panics unless `ranks` divides `n` and both it and `tile` are positive: callers check.
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
                let local = piece_start(per_rank, pieces, piece);
                let width = piece_start(per_rank, pieces, piece + 1) - local;
                global += width;
                Tile { rank, local, global: global - width, width }
            })
            .collect();
        Columns { n, ranks, tiler, tiles }
    }

    /// Global column to position, counted through the shards in rank order, as a layout; none where
    /// tiles differ in width.
    pub fn layout(&self) -> Option<Layout> {
        let width = self.widest();
        let equal = self.tiles.iter().all(|t| t.width == width);
        equal.then(|| Layout::new(width, 1).logical_product(&self.tiler))
    }

    /// From the number of a tile to its place among all pieces, counted in rank order.
    pub fn tiler(&self) -> &Layout {
        &self.tiler
    }

    /// How many tiles there are of each width, the wider ones first.
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

    pub fn tile(&self, t: usize) -> Tile {
        self.tiles[t]
    }

    /// The widest tile (0 for an empty matrix).
    pub fn widest(&self) -> usize {
        self.tiles.iter().map(|t| t.width).max().unwrap_or(0)
    }

    /// `source[p]` is the position, in the block distribution, of the column that belongs at position `p`
    /// of this one; positions count columns through the shards in rank order.
    pub fn source(&self) -> Vec<usize> {
        let mut source = vec![0; self.n];
        for tile in &self.tiles {
            let first = tile.rank * self.per_rank() + tile.local;
            for c in 0..tile.width {
                source[first + c] = tile.global + c;
            }
        }
        source
    }

    /// The way back: `destination[p]` is the position, in this distribution, of the column that stands at
    /// position `p` in the block distribution.
    pub fn destination(&self) -> Vec<usize> {
        let mut destination = vec![0; self.n];
        for (position, &source) in self.source().iter().enumerate() {
            destination[source] = position;
        }
        destination
    }
}

/// First column of piece `i` when `columns` are cut into `pieces` of nearly equal width, the wider
/// ones first.
fn piece_start(columns: usize, pieces: usize, i: usize) -> usize {
    if pieces == 0 {
        return 0;
    }
    i * (columns / pieces) + i.min(columns % pieces)
}
