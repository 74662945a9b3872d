//! Skinny arrays, with a side of 2 to 32: arrays of structures to structures of arrays, and back.
//!
//! Let long = count*height + rest. A tall array is read a panel of `height` rows at a time. A panel
//! becomes `short` chunks, each a piece of one column, in nearly the same place
//! ([`registers`](super::registers)). Then the chunks, `height` contiguous elements each, move to
//! their places cycle by cycle, as the segments do ([`segments`](super::segments)). A wide array
//! takes the same steps in reverse.
//!
//! Chunk k of the array with contiguous long lines begins at element k*height + (k/count)*rest. So
//! a panel's chunks begin behind its place, by less than a panel. In descending order, panel p
//! overwrites only the place of panel p + 1. Workers take runs of panels. Scratch holds the part of
//! a run that the run before would overwrite, and the tail of `rest` rows. The choice of the height
//! makes the rest short. [`structures`](super::structures) moves the data.

use super::divide::Divider;
use super::memory::LINE;
use super::tables::MOST;

/// Bytes of a slice of a chunk. As in [`segments`](super::segments), all chunks are cut alike.
pub(super) const SLICE: usize = 128;

/// The most bytes of adjacent slices that move together.
pub(super) const WIDE: usize = 8192;

/// The most bytes of a panel, which the second-level cache holds twice. With a line for its
/// alignment it fits in 256 KiB.
const PANEL: usize = (256 << 10) - LINE;

/// The most bytes of a chunk.
const CHUNK: usize = 16 << 10;

/// The most runs of panels.
const RUNS: usize = 256;

/// The most runs on a device, with one run for each block. Beyond [`RUNS`], a run has
/// `PANELS_OF_RUN` panels, because one of them takes longer.
const RUNS_OF_BLOCKS: usize = 4096;
const PANELS_OF_RUN: usize = 16;

/// Bytes of scratch of all workers: at most this part of the array, within these limits. A tail,
/// which is shorter than a panel, is within them.
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
    /// The remainder of the long side.
    pub rest: usize,
    /// Number of runs of panels.
    pub runs: usize,
    pub(super) by_count: Divider,
    by_short: Divider,
}

/// The work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Copies to scratch the data that would be overwritten.
    Hold,
    /// Transposes panels from rows to chunks, or back.
    Turn,
    /// Moves chunks.
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

    /// The same for a device, with enough runs for all its blocks, evenly distributed.
    pub fn on_device(self, size: usize) -> Self {
        match self.rest {
            // A panel stays in its place, and no run needs data of another one.
            0 => Skinny { runs: self.count, ..self },
            _ => self.in_runs((self.count / PANELS_OF_RUN).clamp(RUNS, RUNS_OF_BLOCKS), size),
        }
    }

    /// At most so many runs. Scratch must hold the data between them.
    fn in_runs(self, most: usize, size: usize) -> Self {
        let Skinny { short, height, count, rest, .. } = self;
        let (tail, held) = (short * rest * size, self.most_held() * size);
        let bytes = (count * height + rest) * short * size;
        let shared = (bytes / SHARE).clamp(LEAST_SHARED, MOST_SHARED);
        let others = shared.saturating_sub(tail).checked_div(held).unwrap_or(most);
        Skinny { runs: (1 + others).min(most).min(count), ..self }
    }

    /// Whether the array is a single panel.
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

    /// Bytes of scratch of each worker: an aligned panel, or a bit for every chunk and the part of
    /// a chunk that moves at once.
    pub fn scratch_bytes(&self, size: usize) -> usize {
        let chunk = self.height * size;
        let moving = (self.count * self.short).div_ceil(8) + chunk.min(WIDE);
        (chunk * self.short + LINE).max(if self.single() { 0 } else { moving })
    }

    /// The most elements held for a run.
    pub(super) fn most_held(&self) -> usize {
        (self.short - 1) * self.rest
    }

    /// Bytes of scratch of all workers: the tail, and the data held for runs.
    pub fn shared_bytes(&self, size: usize) -> usize {
        (self.short * self.rest + (self.runs - 1) * self.most_held()) * size
    }

    /// The first panel of run `r`.
    pub fn first(&self, r: usize) -> usize {
        (self.count as u128 * r as u128 / self.runs as u128) as usize
    }

    /// The element at which chunk `k` begins in the array with contiguous long lines.
    #[inline(always)]
    pub fn chunk(&self, k: usize) -> usize {
        k * self.height + self.by_count.quotient(k) * self.rest
    }

    /// Elements of earlier panels' chunks in the place of panel `p`.
    pub fn reach(&self, p: usize) -> usize {
        if p == 0 { 0 } else { self.by_count.quotient(p * self.short - 1) * self.rest }
    }

    /// The chunk that belongs in the place of chunk `h`.
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
