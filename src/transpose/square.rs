//! Square matrices as pairs of tiles that change places across the diagonal
//! ([`tiles`](super::tiles)): their choice, their order and their addresses.
//!
//! There are two kinds: the blocks of an array, and a matrix with rows in parts, each at an address
//! of its own. A tile is in one part only, so the last tile of every part may be smaller.

use super::tiles::{Exchange, Pair, side};
use super::vector::with_widest;
use std::ops::Range;

/// Tiles along the side of a field, which is then 4 KiB wide. Within a field, a page stays in use
/// until it is complete. So the pages in use are few: about a thousand for float64, twice that for
/// float32. The second-level TLB has room for most of them.
const FIELD: usize = 16;

/// The pairs (i, j), j <= i, of `tiles` tile rows. Fields come row by row, and the pairs of a field
/// come by diagonals. So two successive pairs differ in both i and j. Where rows are a power of two
/// apart, tiles with the same columns compete for the same few sets of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    pub tiles: usize,
}

impl Triangle {
    pub fn count(&self) -> usize {
        self.tiles * (self.tiles + 1) / 2
    }

    /// The first row of i's field and the end of its rows.
    fn rows(&self, i: usize) -> (usize, usize) {
        let first = i - i % FIELD;
        (first, self.tiles.min(first + FIELD))
    }

    /// Pair number `n`, from 0 to less than `count()`.
    fn pair(&self, n: usize) -> (usize, usize) {
        // The largest i with i*(i + 1)/2 <= n is in this row of fields, because earlier ones are
        // complete.
        let (first, end) = self.rows(((8 * n + 1).isqrt() - 1) / 2);
        let (height, within) = (end - first, n - first * (first + 1) / 2);
        if within < first * height {
            let (field, entry) = (within / (height * FIELD), within % (height * FIELD));
            let (diagonal, k) = (entry / height, entry % height);
            return (first + k, field * FIELD + (k + diagonal) % FIELD);
        }
        // The field on the diagonal is a triangle.
        let (mut diagonal, mut k) = (0, within - first * height);
        while k >= height - diagonal {
            k -= height - diagonal;
            diagonal += 1;
        }
        (first + diagonal + k, first + k)
    }

    /// The pair after (i, j).
    fn after(&self, (i, j): (usize, usize)) -> (usize, usize) {
        let (first, end) = self.rows(i);
        let left = j - j % FIELD;
        match (left < first, i + 1 < end) {
            (true, true) => (i + 1, left + (j + 1) % FIELD),
            // (first, start) begins the next diagonal. After the last one it is at the left again.
            (true, false) => match (j + 1 + first + FIELD - i) % FIELD {
                0 if left + FIELD < first => (first, left + FIELD),
                0 => (first, first),
                start => (first, left + start),
            },
            (false, true) => (i + 1, j + 1),
            (false, false) if i - j + 1 < end - first => (first + i - j + 1, first),
            (false, false) => (end, 0),
        }
    }

    /// The pairs with these numbers.
    pub fn pairs(self, numbers: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let mut pair = if numbers.is_empty() { (0, 0) } else { self.pair(numbers.start) };
        numbers.map(move |_| {
            let next = self.after(pair);
            std::mem::replace(&mut pair, next)
        })
    }
}

/// A square matrix of `order` rows of elements of `size` bytes, equally many in each of `parts`
/// parts. Transposing it takes no scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Square {
    order: usize,
    parts: usize,
    size: usize,
}

impl Square {
    /// Panics unless `parts` divides `order` and elements have 4, 8 or 16 bytes.
    pub fn new(order: usize, parts: usize, size: usize) -> Self {
        assert!(matches!(size, 4 | 8 | 16), "elements of {size} bytes");
        assert!(parts > 0 && order.is_multiple_of(parts), "{order} rows in {parts} parts");
        Square { order, parts, size }
    }

    /// Rows of a part.
    fn height(&self) -> usize {
        self.order / self.parts
    }

    /// Tiles of a part, one below the other.
    fn pieces(&self) -> usize {
        self.height().div_ceil(side(self.size))
    }

    fn triangle(&self) -> Triangle {
        Triangle { tiles: self.parts * self.pieces() }
    }

    /// Number of independent pieces of work: pairs of tiles.
    pub fn units(&self) -> usize {
        self.triangle().count()
    }

    /// The part of tile row `t`, its first row there, and its number of rows.
    fn tile(&self, t: usize) -> (usize, usize, usize) {
        let (part, piece) = (t / self.pieces(), t % self.pieces());
        let row = piece * side(self.size);
        (part, row, side(self.size).min(self.height() - row))
    }

    /// Pairs of tiles, of a matrix with parts that begin at `part(0)`, `part(1)`, ..., and rows
    /// `stride` bytes apart.
    pub fn tiles(
        self,
        units: Range<usize>,
        part: impl Fn(usize) -> *mut u8,
        stride: usize,
    ) -> impl Iterator<Item = Pair> {
        self.triangle().pairs(units).map(move |(i, j)| {
            let ((above, row, rows), (left, column, columns)) = (self.tile(i), self.tile(j));
            let at = |index: usize, row: usize, across: usize, column: usize| {
                let before = (across * self.height() + column) * self.size;
                part(index).wrapping_add(row * stride + before)
            };
            let (x, y) = (at(above, row, left, column), at(left, column, above, row));
            Pair { x, y, stride, rows, columns }
        })
    }

    /// Does some units. All may run at the same time on different threads.
    ///
    /// # Safety
    /// `part(p)` points to `order / parts` contiguous rows of `order` initialised elements, at any
    /// alignment. The parts do not overlap. Only units of this transposition use them meanwhile.
    /// Every unit runs once, and the given ones are less than `units()`.
    pub unsafe fn run(&self, units: Range<usize>, part: impl Fn(usize) -> *mut u8) {
        let pairs = self.tiles(units, part, self.order * self.size);
        // SAFETY: the caller promises the parts; different units are different tiles.
        unsafe {
            match self.size {
                4 => with_widest(Exchange::<_, 4>(pairs)),
                8 => with_widest(Exchange::<_, 8>(pairs)),
                _ => with_widest(Exchange::<_, 16>(pairs)),
            }
        }
    }
}

/// The blocks of an array: `down` x `across` of them, each `side` x `side`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub down: usize,
    pub across: usize,
    pub side: usize,
}

impl Blocks {
    /// Units of work: pairs of tiles, block by block.
    pub fn units(&self, size: usize) -> usize {
        self.down * self.across * Square::new(self.side, 1, size).units()
    }

    /// The pairs of tiles in an array at `data`.
    pub fn tiles<const S: usize>(
        self,
        units: Range<usize>,
        data: *mut u8,
    ) -> impl Iterator<Item = Pair> {
        let Blocks { across, side, .. } = self;
        let (block, stride) = (Square::new(side, 1, S), across * side * S);
        let pairs = block.units();
        let blocks = units.start / pairs..units.end.div_ceil(pairs);
        blocks.flat_map(move |b| {
            let within = |unit: usize| unit.clamp(b * pairs, (b + 1) * pairs) - b * pairs;
            let (above, left) = (b / across * side, b % across * side);
            let base = data.wrapping_add(above * stride + left * S);
            block.tiles(within(units.start)..within(units.end), move |_| base, stride)
        })
    }
}

/// Does some units of the blocks of an array at `data`.
///
/// # Safety
/// The array consists of the blocks, and its elements have S bytes. No other thread uses these
/// tiles.
pub unsafe fn run<const S: usize>(blocks: &Blocks, units: Range<usize>, data: *mut u8) {
    // SAFETY: the caller promises sole use of these tiles.
    unsafe { with_widest(Exchange::<_, S>(blocks.tiles::<S>(units, data))) }
}
