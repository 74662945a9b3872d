//! Square blocks transposed where they stand, through registers: the square algorithm, and the first
//! pass of the gcd-block algorithm.
//!
//! A block is cut into tiles, a tile into chips: as many rows as a line of memory holds elements, one
//! line wide. A chip is read into registers, transposed there in log2 steps ([`Vector::trade`]) and
//! exchanged with the chip on the other side of the diagonal. Memory is read and written in whole
//! lines only, so that rows which are a power of two apart do no harm. Tiles keep the pages in use few.
//! Each chip has as many pieces as rows, which the machine does not foresee: it is asked for
//! several chips ahead.

use super::memory::{Element, LINE};
use super::vector::Vector;
use std::ops::Range;

/// The side of a tile in bytes.
const TILE: usize = 512;

/// How many chips are asked for before they are needed.
const AHEAD: usize = 8;

/// The blocks of an array: `down` x `across` of them, each `side` x `side`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub down: usize,
    pub across: usize,
    pub side: usize,
}

impl Blocks {
    /// Pairs of tiles in one block; tiles on the diagonal are their own partners.
    fn pairs(&self, size: usize) -> usize {
        let tiles = self.side.div_ceil(TILE / size);
        tiles * (tiles + 1) / 2
    }

    /// Units of work: pairs of tiles.
    pub fn units(&self, size: usize) -> usize {
        self.down * self.across * self.pairs(size)
    }

    /// The tiles below the diagonals, block by block, in an array at `data`.
    pub(super) fn tiles<const S: usize>(
        &self,
        units: Range<usize>,
        data: *mut u8,
    ) -> impl Iterator<Item = Tile<S>> {
        let Blocks { across, side, .. } = *self;
        let (width, pairs, stride) = (TILE / S, self.pairs(S), across * side * S);
        let (mut block, first) = (units.start / pairs, units.start % pairs);
        // The largest i with i*(i + 1)/2 <= first.
        let mut i = ((8 * first + 1).isqrt() - 1) / 2;
        let mut j = first - i * (i + 1) / 2;
        units.map(move |_| {
            let (down, right) = (block / across * side, block % across * side);
            let base = data.wrapping_add(down * stride + right * S);
            let range = |t: usize| (t * width, side.min((t + 1) * width));
            let tile = Tile { base, stride, rows: range(i), columns: range(j) };
            j += 1;
            if j > i {
                (i, j) = (i + 1, 0);
            }
            if i * width >= side {
                (i, block) = (0, block + 1);
            }
            tile
        })
    }
}

/// A tile on or below the diagonal of a block at `base`, by the rows and columns where it begins and
/// ends. Its partner has rows and columns exchanged.
#[derive(Clone, Copy)]
pub(super) struct Tile<const S: usize> {
    pub base: *mut u8,
    /// Bytes from one row to the next.
    stride: usize,
    pub rows: (usize, usize),
    pub columns: (usize, usize),
}

impl<const S: usize> Tile<S> {
    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> *mut u8 {
        self.base.wrapping_add(i * self.stride + j * S)
    }

    /// The end of the rows that fill chips of K.
    fn whole<const K: usize>(&self) -> usize {
        self.rows.1 - (self.rows.1 - self.rows.0) % K
    }

    /// The whole chips and their partners. Columns left of the diagonal always fill chips, as rows and
    /// tiles start at multiples of K.
    fn chips<const K: usize>(self) -> impl Iterator<Item = (*mut u8, *mut u8)> {
        (self.rows.0..self.whole::<K>()).step_by(K).flat_map(move |i| {
            let columns = (self.columns.0..self.columns.1.min(i + 1)).step_by(K);
            columns.map(move |j| (self.at(i, j), self.at(j, i)))
        })
    }

    /// Exchanges what is in no whole chip.
    ///
    /// # Safety
    /// As for [`pass`].
    unsafe fn rest<const K: usize>(&self) {
        for j in self.columns.0..self.columns.1 {
            for i in self.whole::<K>().max(j + 1)..self.rows.1 {
                // SAFETY: promised by the caller; the two differ.
                unsafe { self.at(i, j).cast::<Element<S>>().swap(self.at(j, i).cast()) };
            }
        }
    }
}

/// Asks for a chip of K rows.
#[inline(always)]
fn prefetch<const K: usize>(chip: *const u8, stride: usize) {
    #[cfg(target_arch = "x86_64")]
    for k in 0..K {
        // SAFETY: prefetching is part of every x86-64 machine and accepts any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(chip.wrapping_add(k * stride).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (chip, stride);
}

/// Two chips become each other's transposes; they are the same one or do not overlap.
///
/// # Safety
/// Nobody else uses these K lines each. The machine has the instruction set of V.
#[inline(always)]
unsafe fn exchange<V: Vector, const S: usize, const K: usize>(
    x: *mut u8,
    y: *mut u8,
    stride: usize,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut rows: [V; K] = std::array::from_fn(|k| V::load(x.wrapping_add(k * stride)));
        turn::<V, S, K>(&mut rows);
        let mut others: [V; K] = std::array::from_fn(|k| {
            let at = y.wrapping_add(k * stride);
            let other = V::load(at);
            rows[k].store(at);
            other
        });
        turn::<V, S, K>(&mut others);
        others.iter().enumerate().for_each(|(k, row)| row.store(x.wrapping_add(k * stride)));
    }
}

/// Transposes K lines of K elements.
///
/// # Safety
/// The machine has the instruction set of V.
#[inline(always)]
pub unsafe fn turn<V: Vector, const S: usize, const K: usize>(rows: &mut [V; K]) {
    // SAFETY: promised by the caller.
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
            // SAFETY: promised by the caller.
            (rows[k], rows[k + apart]) = unsafe { rows[k].trade::<B>(rows[k + apart]) };
        }
    }
}

/// Does some units of the blocks of an array at `data`.
///
/// # Safety
/// The array consists of the blocks and its elements have S bytes, K of them a line; nobody else uses
/// these tiles. The machine has the instruction set of V.
#[inline(always)]
unsafe fn pass<V: Vector, const S: usize, const K: usize>(
    blocks: &Blocks,
    units: Range<usize>,
    data: *mut u8,
) {
    let stride = blocks.across * blocks.side * S;
    let mut lead = blocks.tiles::<S>(units.clone(), data).flat_map(Tile::chips::<K>);
    let mut prefetch_next = move || {
        if let Some((x, y)) = lead.next() {
            prefetch::<K>(x, stride);
            prefetch::<K>(y, stride);
        }
    };
    (0..AHEAD).for_each(|_| prefetch_next());
    for tile in blocks.tiles::<S>(units, data) {
        for (x, y) in tile.chips::<K>() {
            prefetch_next();
            // SAFETY: promised by the caller.
            unsafe { exchange::<V, S, K>(x, y, stride) };
        }
        // SAFETY: promised by the caller.
        unsafe { tile.rest::<K>() };
    }
}

/// Transposes tiles with the widest registers there are.
///
/// # Safety
/// As for [`pass`], apart from the instruction set.
pub unsafe fn run<const S: usize>(blocks: &Blocks, units: Range<usize>, data: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller; the instruction sets are there.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            return avx512::<S>(blocks, units, data);
        }
        if is_x86_feature_detected!("avx2") {
            return avx2::<S>(blocks, units, data);
        }
    }
    // SAFETY: promised by the caller.
    unsafe { sized::<[u64; 8], S>(blocks, units, data) }
}

/// # Safety
/// As for [`pass`].
#[inline(always)]
pub(super) unsafe fn sized<V: Vector, const S: usize>(
    blocks: &Blocks,
    units: Range<usize>,
    data: *mut u8,
) {
    // SAFETY: promised by the caller.
    unsafe {
        match S {
            4 => pass::<V, S, { LINE / 4 }>(blocks, units, data),
            8 => pass::<V, S, { LINE / 8 }>(blocks, units, data),
            _ => pass::<V, S, { LINE / 16 }>(blocks, units, data),
        }
    }
}

/// # Safety
/// As for [`run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const S: usize>(blocks: &Blocks, units: Range<usize>, data: *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { sized::<std::arch::x86_64::__m512i, S>(blocks, units, data) }
}

/// # Safety
/// As for [`run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const S: usize>(blocks: &Blocks, units: Range<usize>, data: *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { sized::<[std::arch::x86_64::__m256i; 2], S>(blocks, units, data) }
}
