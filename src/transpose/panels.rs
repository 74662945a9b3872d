//! The panel algorithm, for sides of any length: it cuts the long side into panels.
//!
//! Let long = count*height + rest. A tall array (by rows) is read a panel of `height` rows at a
//! time, the last one first. A panel becomes `short` chunks, each a piece of one column, which go
//! to the place of the panel after it. Scratch holds the last panel, and the tail of `rest` rows.
//! Then the chunks, now `height` contiguous elements each, move to their places along chains
//! ([`chains`](super::chains)). A wide array (by columns) takes the same steps in reverse.
//!
//! Chunk s of the array with contiguous long lines begins at element s*height + (s/count)*rest.

use super::chains::Chains;
use super::divide::Divider;
use super::memory::LINE;

/// Bytes along the short side of a unit: wide, or narrow in a panel with less than `ENOUGH` wide
/// ones.
pub(super) const GROUP: usize = 512;
const NARROW: usize = LINE;
const ENOUGH: usize = 32;

/// The shortest chain, in chunks, and the most chains.
const SHORTEST_CHAIN: usize = 16;
const MOST_CHAINS: usize = 256;

/// Panels of an array, as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The long side is that of the rows.
    pub tall: bool,
    pub short: usize,
    /// Length of a panel along the long side.
    pub height: usize,
    /// Whole panels.
    pub count: usize,
    /// The remainder of the long side.
    pub rest: usize,
    pub(super) by_count: Divider,
    by_short: Divider,
}

/// The work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Transposes a panel of that number from rows to chunks, or back. The last one is in scratch
    /// on the side of the chunks, and the tail moves with it.
    Turn(usize),
    /// Copies chunks between scratch and the array, and the tail.
    Hold,
    /// Marks where the chains of chunks begin.
    Mark,
    /// Moves chunks.
    Permute,
}

impl Panels {
    /// Panics unless 0 < height <= max(rows, cols).
    pub fn new(rows: usize, cols: usize, height: usize) -> Self {
        let (tall, long, short) = (rows >= cols, rows.max(cols), rows.min(cols));
        let fits = 0 < height && height <= long;
        assert!(fits, "{rows} x {cols} has no panels of height {height}");
        let (count, rest) = (long / height, long % height);
        let (by_count, by_short) = (Divider::new(count), Divider::new(short));
        Panels { tall, short, height, count, rest, by_count, by_short }
    }

    pub fn phases(&self) -> usize {
        self.count + 3
    }

    pub fn stage(&self, phase: usize) -> Stage {
        let last = self.phases() - 1;
        match if self.tall { phase } else { last - phase } {
            k if k < self.count => Stage::Turn(self.count - 1 - k),
            k if k == self.count => Stage::Hold,
            // Chunks are marked before they move, both ways.
            _ if phase + 1 == last || phase == 0 => Stage::Mark,
            _ => Stage::Permute,
        }
    }

    /// Units of work of a phase: chains of chunks, or groups along the short side.
    pub fn units(&self, phase: usize, size: usize) -> usize {
        match self.stage(phase) {
            Stage::Mark => 1,
            Stage::Permute => self.chains(size).count,
            _ => self.short.div_ceil(self.group(size)),
        }
    }

    /// Elements along the short side of a unit.
    pub(super) fn group(&self, size: usize) -> usize {
        if self.short * size >= ENOUGH * GROUP { GROUP / size } else { NARROW / size }
    }

    /// Number of chains. The memory of the held panel has room for two chunks for each.
    pub(super) fn chains(&self, size: usize) -> Chains {
        let pieces = self.count * self.short;
        let count = (pieces / SHORTEST_CHAIN).min(self.short / 2).clamp(1, MOST_CHAINS);
        Chains { pieces, bytes: self.height * size, count }
    }

    /// Bytes of scratch of each worker: one chunk.
    pub fn scratch_bytes(&self, size: usize) -> usize {
        self.height * size
    }

    /// Bytes of a panel and the tail.
    pub fn held_bytes(&self, size: usize) -> usize {
        (self.height + self.rest) * self.short * size
    }

    /// Bytes of scratch of all workers: a panel and the tail, or the memory of chains, never both
    /// at a time.
    pub fn shared_bytes(&self, size: usize) -> usize {
        self.held_bytes(size).max(self.chains(size).shared_bytes())
    }

    /// The chunk that belongs in the place of chunk `h`.
    #[inline(always)]
    pub fn source(&self, h: usize) -> usize {
        let Panels { count, short, .. } = *self;
        if self.tall {
            let c = self.by_count.quotient(h);
            let i = h - c * count + 1;
            (if i == count { 0 } else { i }) * short + c
        } else {
            let i = self.by_short.quotient(h);
            let c = h - i * short;
            c * count + if i == 0 { count } else { i } - 1
        }
    }
}

/// The memory of a call, for elements of S bytes.
#[derive(Clone, Copy)]
pub struct PanelArray<const S: usize> {
    pub panels: Panels,
    pub data: *mut u8,
    /// The held panel, as chunks, and the tail, as rows; or the memory of chains.
    pub shared: *mut u8,
}

impl<const S: usize> PanelArray<S> {
    /// Row `i` of the array with contiguous short lines.
    #[inline(always)]
    pub fn row(&self, i: usize) -> *mut u8 {
        self.data.wrapping_add(i * self.panels.short * S)
    }

    /// Chunk `s` in the array with contiguous long lines.
    #[inline(always)]
    pub fn chunk(&self, s: usize) -> *mut u8 {
        self.data.wrapping_add(self.offset(s))
    }

    fn offset(&self, s: usize) -> usize {
        let Panels { height, rest, by_count, .. } = self.panels;
        (s * height + by_count.quotient(s) * rest) * S
    }

    /// Chunk `c` of panel `p` while it is not in its rows.
    #[inline(always)]
    pub fn parked(&self, p: usize, c: usize) -> *mut u8 {
        let Panels { short, height, count, .. } = self.panels;
        if p + 1 == count {
            return self.shared.wrapping_add(c * height * S);
        }
        self.chunk((p + 1) * short + c)
    }

    /// Row `t` of the tail in scratch.
    pub fn tail(&self, t: usize) -> *mut u8 {
        self.shared.wrapping_add((self.panels.height + t) * self.panels.short * S)
    }
}
