//! Pairs of tiles, exchanged through registers. Each becomes the transpose of the other. This is
//! the kernel of the square algorithm and of the first pass of the gcd-block algorithm.
//!
//! A tile is cut into chips: as many rows as a line of memory holds elements, one line wide. A chip
//! is read into registers, transposed there in log2 steps ([`Vector::trade`]) and exchanged with
//! its partner. All reads and writes are whole lines, so rows that are a power of two apart do no
//! harm.
//!
//! Prefetching decides the speed. While a pair of tiles is exchanged, the next pair is prefetched
//! row by row, and into the second-level cache. Rows that are a power of two apart share one set of
//! the first-level cache, which holds fewer lines than a tile has rows.

use super::memory::{Element, LINE, prefetch_far};
use super::vector::{Vector, Work};
use std::ops::Range;

/// The side of a tile in elements of `size` bytes: four lines. With two, squares of float64 took a
/// sixth longer, with eight a twentieth and with sixteen a quarter (benchmarks/NOTES.md).
pub const fn side(size: usize) -> usize {
    4 * LINE / size
}

/// Two tiles that change places transposed. They are the same one, on the diagonal, or do not
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub x: *mut u8,
    pub y: *mut u8,
    /// Bytes from one row to the next, in both.
    pub stride: usize,
    /// Rows of x, columns of y.
    pub rows: usize,
    /// Columns of x, rows of y.
    pub columns: usize,
}

impl Pair {
    /// The whole chips of x and their partners; those of a tile on the diagonal once.
    fn chips<const K: usize>(self) -> impl Iterator<Item = (*mut u8, *mut u8)> {
        let (rows, columns) = (self.rows / K, self.columns / K);
        let at = move |tile: *mut u8, i: usize, j: usize| {
            tile.wrapping_add(i * K * self.stride + j * LINE)
        };
        (0..rows).flat_map(move |i| {
            let columns = if self.x == self.y { i + 1 } else { columns };
            (0..columns).map(move |j| (at(self.x, i, j), at(self.y, j, i)))
        })
    }

    /// Exchanges the elements outside whole chips.
    ///
    /// # Safety
    /// As for [`Exchange`].
    unsafe fn rest<const S: usize, const K: usize>(&self) {
        let (rows, columns) = (self.rows - self.rows % K, self.columns - self.columns % K);
        for i in 0..self.rows {
            let end = if self.x == self.y { i } else { self.columns };
            for j in if i < rows { columns } else { 0 }..end {
                let x = self.x.wrapping_add(i * self.stride + j * S).cast::<Element<S>>();
                let y = self.y.wrapping_add(j * self.stride + i * S).cast();
                // SAFETY: the caller promises the tiles; the two differ.
                unsafe { x.swap(y) };
            }
        }
    }

    /// Prefetches some rows of x and as many of y, tiles of elements of S bytes.
    #[inline(always)]
    fn prefetch<const S: usize>(&self, rows: Range<usize>) {
        for (tile, end) in [(self.x, self.rows), (self.y, self.columns)] {
            for i in rows.start..rows.end.min(end) {
                let row = tile.wrapping_add(i * self.stride);
                for line in (0..side(S) * S).step_by(LINE) {
                    prefetch_far(row.wrapping_add(line));
                }
                if row.addr() % LINE > 0 {
                    prefetch_far(row.wrapping_add(side(S) * S));
                }
            }
        }
    }
}

/// Makes two chips each other's transposes. They are the same one or do not overlap.
///
/// # Safety
/// No other thread uses these K lines each. The machine has the instruction set of V.
#[inline(always)]
unsafe fn trade_chips<V: Vector, const S: usize, const K: usize>(
    x: *mut u8,
    y: *mut u8,
    stride: usize,
) {
    // SAFETY: the caller promises chips and instruction set.
    unsafe {
        let mut rows: [V; K] = std::array::from_fn(|k| V::load(x.wrapping_add(k * stride)));
        turn::<V, S, K>(&mut rows);
        for (k, row) in rows.iter_mut().enumerate() {
            let at = y.wrapping_add(k * stride);
            let other = V::load(at);
            row.store(at);
            *row = other;
        }
        turn::<V, S, K>(&mut rows);
        rows.iter().enumerate().for_each(|(k, row)| row.store(x.wrapping_add(k * stride)));
    }
}

/// Transposes K lines of K elements.
///
/// # Safety
/// The machine has the instruction set of V.
#[inline(always)]
pub unsafe fn turn<V: Vector, const S: usize, const K: usize>(rows: &mut [V; K]) {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        if S <= 4 {
            step::<V, S, K, 4>(rows);
        }
        if S <= 8 {
            step::<V, S, K, 8>(rows);
        }
        step::<V, S, K, 16>(rows);
        step::<V, S, K, 32>(rows);
    }
}

/// Exchanges the bit of B bytes between the number of a row and the place within it.
///
/// # Safety
/// As for [`turn`].
#[inline(always)]
unsafe fn step<V: Vector, const S: usize, const K: usize, const B: usize>(rows: &mut [V; K]) {
    let apart = B / S;
    for k in 0..K {
        if k & apart == 0 {
            // SAFETY: the caller promises the instruction set.
            (rows[k], rows[k + apart]) = unsafe { rows[k].trade::<B>(rows[k + apart]) };
        }
    }
}

/// The exchange of pairs of tiles of elements of S bytes. No other thread uses these tiles, and they do
/// not overlap.
pub struct Exchange<I, const S: usize>(pub I);

impl<I: Iterator<Item = Pair>, const S: usize> Work<S> for Exchange<I, S> {
    #[inline(always)]
    unsafe fn run<V: Vector, const K: usize>(self) {
        let mut pairs = self.0;
        // Rows of the next tile for each chip of this one.
        let share = (K * K / side(S)).max(1);
        let Some(mut pair) = pairs.next() else { return };
        pair.prefetch::<S>(0..side(S));
        loop {
            let next = pairs.next();
            let ahead = next.unwrap_or(pair);
            let mut asked = 0;
            for (x, y) in pair.chips::<K>() {
                ahead.prefetch::<S>(asked..asked + share);
                asked += share;
                // SAFETY: the caller promises tiles and instruction set.
                unsafe { trade_chips::<V, S, K>(x, y, pair.stride) };
            }
            ahead.prefetch::<S>(asked..side(S));
            // SAFETY: the caller promises the tiles.
            unsafe { pair.rest::<S, K>() };
            let Some(next) = next else { return };
            pair = next;
        }
    }
}
