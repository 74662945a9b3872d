//! Skinny arrays, with a side of 2 to 32: arrays of structures to structures of arrays, and back.
//!
//! With long = count*height + rest, a tall array is read a panel of `height` rows at a time. A panel
//! becomes `short` chunks, each a piece of one column, about where it was
//! ([`registers`](super::registers)). Then the chunks, `height` contiguous elements each, move to their
//! places cycle by cycle, as the segments do ([`segments`](super::segments)). A wide array goes the
//! same way back.
//!
//! Chunk k of the array with contiguous long lines begins at element k*height + (k/count)*rest. So
//! chunks of a panel begin behind their panel's place, by less than a panel: going down, panel p only
//! overwrites what was panel p + 1. Workers take runs of panels; what the run before would overwrite of
//! a run is held in scratch, and so is the tail of `rest` rows. The height is chosen so that the rest is
//! a few rows. [`structures`](super::structures) moves the data.

use super::divide::Divider;
use super::memory::LINE;
use super::registers::MOST;

/// Bytes of a slice of a chunk; as in [`segments`](super::segments), all chunks are cut alike.
pub(super) const SLICE: usize = 128;

/// Bytes of the adjacent slices that move together, at most.
pub(super) const WIDE: usize = 8192;

/// Bytes of a panel, at most: it lies in the second-level cache twice. With a line for its alignment it
/// fits in 256 KiB.
const PANEL: usize = (256 << 10) - LINE;

/// Bytes of a chunk, at most.
const CHUNK: usize = 16 << 10;

/// Runs of panels, at most.
const RUNS: usize = 256;

/// On a device, whose blocks have a run each: so many, but so many panels in each beyond [`RUNS`], as one of
/// them takes longer.
const RUNS_OF_BLOCKS: usize = 4096;
const PANELS_OF_RUN: usize = 16;

/// Bytes of scratch of all workers: this part of the array within these limits, or less. A tail, which
/// is shorter than a panel, is within them.
const SHARE: usize = 64;
const LEAST_SHARED: usize = 256 << 10;
const MOST_SHARED: usize = 2 << 20;

/// An array as panels, as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skinny {
    /// The long side is that of the rows.
    pub tall: bool,
    pub short: usize,
    /// Length of a panel along the long side.
    pub height: usize,
    /// Whole panels.
    pub count: usize,
    /// What is left of the long side.
    pub rest: usize,
    /// Panels are distributed in so many runs.
    pub runs: usize,
    pub(super) by_count: Divider,
    by_short: Divider,
}

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What would be overwritten is copied to scratch.
    Hold,
    /// Panels are turned from rows to chunks, or back.
    Turn,
    /// Chunks move.
    Permute,
}

/// The height of panels that leaves the shortest rest.
pub fn height(rows: usize, cols: usize, size: usize) -> usize {
    let (long, short) = (rows.max(cols), rows.min(cols));
    if long * short * size <= PANEL {
        return long;
    }
    // Lines that are a multiple of 512 bytes apart share few sets of the first-level cache.
    let most = (PANEL / short).min(CHUNK) / LINE;
    let lines = (most / 2..=most).rev().filter(|lines| lines % 8 != 0);
    let heights = lines.map(|lines| lines * (LINE / size));
    heights.min_by_key(|height| long % height).expect("seven of eight")
}

impl Skinny {
    /// Panics unless the shorter side is 2 to 32 and 0 < height <= max(rows, cols).
    pub fn new(rows: usize, cols: usize, height: usize, size: usize) -> Self {
        let (tall, long, short) = (rows >= cols, rows.max(cols), rows.min(cols));
        assert!((2..=MOST).contains(&short), "{rows} x {cols} is not skinny");
        let fits = 0 < height && height <= long;
        assert!(fits, "{rows} x {cols} has no panels of height {height}");
        let (count, rest) = (long / height, long % height);
        let (by_count, by_short) = (Divider::new(count), Divider::new(short));
        Skinny { tall, short, height, count, rest, runs: 1, by_count, by_short }.in_runs(RUNS, size)
    }

    /// The same for a device: enough runs for all blocks that it may hold, and to distribute them evenly.
    pub fn on_device(self, size: usize) -> Self {
        match self.rest {
            // A panel stays in its place, and no run needs anything of another one.
            0 => Skinny { runs: self.count, ..self },
            _ => self.in_runs((self.count / PANELS_OF_RUN).clamp(RUNS, RUNS_OF_BLOCKS), size),
        }
    }

    /// In so many runs at most, as far as scratch holds what lies between them.
    fn in_runs(self, most: usize, size: usize) -> Self {
        let Skinny { short, height, count, rest, .. } = self;
        let (tail, held) = (short * rest * size, self.most_held() * size);
        let bytes = (count * height + rest) * short * size;
        let shared = (bytes / SHARE).clamp(LEAST_SHARED, MOST_SHARED);
        let others = shared.saturating_sub(tail).checked_div(held).unwrap_or(most);
        Skinny { runs: (1 + others).min(most).min(count), ..self }
    }

    /// A single panel is turned, and that is all.
    fn single(&self) -> bool {
        self.count == 1 && self.rest == 0
    }

    pub fn phases(&self) -> usize {
        if self.single() { 1 } else { 3 }
    }

    pub fn passes(&self) -> usize {
        if self.single() { 1 } else { 2 }
    }

    pub fn stage(&self, phase: usize) -> Stage {
        const TO_LINES: [Stage; 3] = [Stage::Hold, Stage::Turn, Stage::Permute];
        const TO_ROWS: [Stage; 3] = [Stage::Permute, Stage::Hold, Stage::Turn];
        match self.tall {
            _ if self.single() => Stage::Turn,
            true => TO_LINES[phase],
            false => TO_ROWS[phase],
        }
    }

    /// Units of work of a phase: slices of all chunks, or runs.
    pub fn units(&self, phase: usize, size: usize) -> usize {
        match self.stage(phase) {
            Stage::Permute => (self.height * size).div_ceil(SLICE),
            _ => self.runs,
        }
    }

    /// Bytes of scratch of each worker: an aligned panel, or a bit for every chunk and what moves at
    /// once of one.
    pub fn scratch_bytes(&self, size: usize) -> usize {
        let chunk = self.height * size;
        let moving = (self.count * self.short).div_ceil(8) + chunk.min(WIDE);
        (chunk * self.short + LINE).max(if self.single() { 0 } else { moving })
    }

    /// Elements held for a run, at most.
    pub(super) fn most_held(&self) -> usize {
        (self.short - 1) * self.rest
    }

    /// Bytes of scratch of all workers: the tail, and what is held for runs.
    pub fn shared_bytes(&self, size: usize) -> usize {
        (self.short * self.rest + (self.runs - 1) * self.most_held()) * size
    }

    /// The first panel of run `r`.
    pub fn first(&self, r: usize) -> usize {
        (self.count as u128 * r as u128 / self.runs as u128) as usize
    }

    /// Where chunk `k` begins in the array with contiguous long lines, in elements.
    #[inline(always)]
    pub fn chunk(&self, k: usize) -> usize {
        k * self.height + self.by_count.quotient(k) * self.rest
    }

    /// How far the chunks of the panels before reach into the place of panel `p`.
    pub fn reach(&self, p: usize) -> usize {
        if p == 0 { 0 } else { self.by_count.quotient(p * self.short - 1) * self.rest }
    }

    /// The chunk that belongs where chunk `h` is.
    #[inline(always)]
    pub fn source(&self, h: usize) -> usize {
        let Skinny { count, short, .. } = *self;
        if self.tall {
            let c = self.by_count.quotient(h);
            (h - c * count) * short + c
        } else {
            let i = self.by_short.quotient(h);
            (h - i * short) * count + i
        }
    }
}
