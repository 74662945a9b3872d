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
use super::memory::{Chunks, Element, LINE};
use std::ops::Range;

/// Bytes along the short side of a unit: wide, or narrow in a panel with less than `ENOUGH` wide
/// ones.
const GROUP: usize = 512;
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
    by_count: Divider,
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
    fn group(&self, size: usize) -> usize {
        if self.short * size >= ENOUGH * GROUP { GROUP / size } else { NARROW / size }
    }

    /// Number of chains. The memory of the held panel has room for two chunks for each.
    fn chains(&self, size: usize) -> Chains {
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
pub(super) struct PanelArray<const S: usize> {
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
    fn chunk(&self, s: usize) -> *mut u8 {
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
    fn tail(&self, t: usize) -> *mut u8 {
        self.shared.wrapping_add((self.panels.height + t) * self.panels.short * S)
    }

    /// Does some units of a phase.
    ///
    /// # Safety
    /// `data` is the array and `shared` holds `shared_bytes`. Units and phases run as for
    /// [`run_units`](super::run_units). `scratch` holds `scratch_bytes`.
    pub unsafe fn run(&self, phase: usize, units: Range<usize>, scratch: *mut u8) {
        let Panels { short, height, count, rest, tall, .. } = self.panels;
        let group = self.panels.group(S);
        let columns = units.start * group..short.min(units.end * group);
        match self.panels.stage(phase) {
            Stage::Mark | Stage::Permute => {
                let chains = self.panels.chains(S);
                let chunks = Chunks {
                    base: self.data,
                    stride: height * S,
                    line: self.panels.by_count,
                    gap: rest * S,
                    bytes: height * S,
                };
                let source = |h| self.panels.source(h);
                for unit in units {
                    // SAFETY: the caller promises memory and order of phases.
                    unsafe {
                        if self.panels.stage(phase) == Stage::Mark {
                            chains.mark(&chunks, source, self.shared);
                        } else {
                            chains.run(unit, &chunks, source, self.shared, scratch);
                        }
                    }
                }
            }
            Stage::Hold => {
                for c in columns {
                    let (held, chunk) = (self.parked(count - 1, c), self.chunk(c));
                    // SAFETY: the caller promises array and scratch. After the tall panels leave
                    // and before others come, only this unit uses its chunks of 0..short and tails
                    // of lines.
                    unsafe {
                        let (from, to) = if tall { (held, chunk) } else { (chunk, held) };
                        to.copy_from_nonoverlapping(from, height * S);
                        for t in 0..rest {
                            let end = self.chunk((c + 1) * count).cast::<Element<S>>();
                            let (x, y) =
                                (self.tail(t).cast::<Element<S>>().add(c), end.sub(rest - t));
                            let (from, to) = if tall { (x, y) } else { (y, x) };
                            *to = *from;
                        }
                    }
                }
            }
            Stage::Turn(_) if columns.is_empty() => {}
            Stage::Turn(p) => {
                // SAFETY: the caller promises array and scratch. The reads and writes of all units
                // are disjoint, as the specification of the algorithm shows.
                unsafe {
                    if p + 1 == count {
                        for t in 0..rest {
                            let row = self.row(count * height + t).add(columns.start * S);
                            let tail = self.tail(t).add(columns.start * S);
                            let (from, to) = if tall { (row, tail) } else { (tail, row) };
                            to.copy_from_nonoverlapping(from, columns.len() * S);
                        }
                    }
                    super::turns::run(self, p, columns, GROUP / S);
                }
            }
        }
    }
}
