//! Which algorithm, with which parameters.

use super::columns::Tiling;
use super::maps::gcd;
use super::memory::LINE;
use super::plan::{Algorithm, Plan, assert_possible};

/// Scratch that is always there: bytes for each worker.
const SMALL: usize = 256 << 10;

/// Rows of blocks are moved whole and should not be shorter than this, in bytes.
const SHORTEST: usize = 512;

/// The most suitable length of such a row, in bytes. Longer ones go with blocks that touch more
/// pages, shorter ones make the walk longer and leave fewer slices to share.
const BEST: usize = 16384;

/// Chunks of the panel algorithm in lines: the longest was the fastest and takes the most scratch;
/// with shorter ones it is no faster than the decomposition.
const CHUNK: std::ops::RangeInclusive<usize> = 1024 / LINE..=2048 / LINE;

/// Panels are phases of their own: each should be worth it, in bytes.
const PANEL: usize = 1 << 20;

impl Plan {
    /// The best algorithm for a row-major `rows` x `cols` array of elements of `element_size` bytes
    /// without scratch that workers share.
    ///
    /// It takes at most max(rows, cols) elements of scratch for each worker, or 256 KiB if that is more.
    /// Panics unless the size is 4, 8 or 16 and the array fits in the address space.
    pub fn new(rows: usize, cols: usize, element_size: usize) -> Self {
        let bytes = rows.max(cols).saturating_mul(element_size).max(SMALL);
        Plan::offered(rows, cols, element_size, bytes, 0).expect("C2R and R2C take no more")
    }

    /// The best algorithm that gets by with `scratch_bytes` of scratch for each worker and
    /// `shared_bytes` that all workers share, if there is one. max(rows, cols) elements for each
    /// worker are always enough.
    ///
    /// Panics as [`Plan::new`] does.
    pub fn offered(
        rows: usize,
        cols: usize,
        element_size: usize,
        scratch_bytes: usize,
        shared_bytes: usize,
    ) -> Option<Self> {
        assert_possible(rows, cols, element_size);
        let forced = |algorithm| Plan::forced(algorithm, rows, cols, element_size);
        let fits = |plan: &Plan| {
            plan.scratch_bytes() <= scratch_bytes && plan.shared_bytes() <= shared_bytes
        };
        let (least, most) = (rows.min(cols), rows.max(cols));
        if least <= 1 {
            return Some(forced(Algorithm::Trivial));
        }
        if rows == cols {
            return Some(forced(Algorithm::Square));
        }
        let sides = sides(rows, cols, element_size).into_iter();
        let blocks = sides.map(|side| forced(Algorithm::Blocks { side })).find(fits);
        if blocks.is_some() {
            return blocks;
        }
        // The view with fewer rows when its groups of columns fit in scratch; otherwise the one with
        // fewer columns, as in the paper.
        let few_rows = Tiling::new(least, most, element_size).held;
        let last = if (rows > cols) != few_rows { Algorithm::C2r } else { Algorithm::R2c };
        let decomposed = forced(last);
        let heights = CHUNK.rev().map(|k| k * LINE / element_size);
        heights
            .filter(|height| decomposed.passes() > 2 && *height <= most)
            .filter(|height| height.saturating_mul(least * element_size) >= PANEL)
            .map(|height| forced(Algorithm::Panel { height }))
            .find(fits)
            .or(Some(decomposed))
            .filter(fits)
    }
}

/// The sides of blocks that are worth it for elements of `size` bytes, best first.
fn sides(rows: usize, cols: usize, size: usize) -> Vec<usize> {
    let mut sides = divisors(gcd(rows, cols));
    sides.retain(|d| d.saturating_mul(size) >= SHORTEST);
    let best = BEST / size;
    // By the ratio to the best one; whole numbers order it exactly where it matters.
    sides.sort_by_key(|&d| if d > best { d.saturating_mul(64) / best } else { best * 64 / d });
    sides
}

fn divisors(x: usize) -> Vec<usize> {
    let small = (1..=x.isqrt()).filter(|d| x.is_multiple_of(*d));
    small.flat_map(|d| [d, x / d]).collect()
}
