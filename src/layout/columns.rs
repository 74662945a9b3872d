//! How the columns of an n x n matrix are dealt to P ranks, tile by tile.
//!
//! Every rank holds n/P whole columns, cut into k pieces of widths w_0..w_{k-1} that differ by at
//! most one. In *natural* order the shards stand side by side as the caller sees them; in *cyclic*
//! order (1-D block-cyclic) global tile t = i*P + d is piece i of rank d. Capacities match for every
//! n divisible by P, so nothing is padded and one order turns into the other by a permutation of
//! whole columns.
//!
//! Worked example, n = 12, P = 2, tile 2 (k = 3 pieces of width 2 per rank):
//!
//! | global tile t     | 0 | 1 | 2 | 3 | 4 | 5 |
//! |-------------------|---|---|---|---|---|---|
//! | global column     | 0 | 2 | 4 | 6 | 8 | 10|
//! | natural: rank     | 0 | 0 | 0 | 1 | 1 | 1 |
//! | natural: local    | 0 | 2 | 4 | 0 | 2 | 4 |
//! | cyclic: rank      | 0 | 1 | 0 | 1 | 0 | 1 |
//! | cyclic: local     | 0 | 0 | 2 | 2 | 4 | 4 |

/// Where global columns live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Natural,
    Cyclic,
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
    tiles: Vec<Tile>,
}

impl Columns {
    /// Cuts each rank's n/P columns into the fewest pieces of at most `tile` columns.
    ///
    /// Panics unless `ranks` divides `n` and both it and `tile` are positive: callers check.
    pub fn new(n: usize, ranks: usize, tile: usize, order: Order) -> Self {
        assert!(ranks > 0 && tile > 0 && n.is_multiple_of(ranks), "n={n} P={ranks} tile={tile}");
        let per_rank = n / ranks;
        let pieces = per_rank.div_ceil(tile);
        let start = |i: usize| piece_start(per_rank, pieces, i);
        let tiles = (0..pieces * ranks)
            .map(|t| {
                let (rank, piece) = match order {
                    Order::Natural => (t / pieces, t % pieces),
                    Order::Cyclic => (t % ranks, t / ranks),
                };
                let (local, width) = (start(piece), start(piece + 1) - start(piece));
                let global = match order {
                    Order::Natural => rank * per_rank + local,
                    Order::Cyclic => ranks * local + rank * width,
                };
                Tile { rank, local, global, width }
            })
            .collect();
        Columns { n, ranks, tiles }
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

    /// `source[p]` is the position, in natural order, of the column that belongs at position `p`
    /// of this order; positions count columns through the shards in rank order.
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
}

/// First column of piece `i` when `columns` are cut into `pieces` of nearly equal width, the wider
/// ones first.
fn piece_start(columns: usize, pieces: usize, i: usize) -> usize {
    if pieces == 0 {
        return 0;
    }
    i * (columns / pieces) + i.min(columns % pieces)
}
