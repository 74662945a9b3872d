//! Which algorithm, with which parameters.

use super::columns::Tiling;
use super::maps::gcd;
use super::memory::LINE;
use super::plan::{Algorithm, Plan, assert_possible};
use super::registers::MOST;
use super::skinny;

/// Scratch that is always there: bytes for each worker, and as many for all together.
const SMALL: usize = 256 << 10;

/// Each worker has a bit for so many bytes: the walk over segments and chunks marks them.
const MARKED: usize = 512;

/// Workers may share this part of the array's bytes, and of a small array a larger part up to some bytes.
const SHARE: usize = 32;
const SHARE_OF_SMALL: usize = 8;
const SMALL_SHARED: usize = 4 << 20;

/// Rows of blocks are moved whole and should not be shorter than this, in bytes.
const SHORTEST: usize = 512;

/// The most suitable length of such a row, in bytes. Longer ones go with blocks that touch more
/// pages, shorter ones make the walk longer and leave fewer slices to share.
const BEST: usize = 16384;

/// Chunks of the panel algorithm in bytes: of wide panels 2 KiB were the fastest, of narrow ones what
/// makes a panel of [`PANEL`] bytes; with less than the shortest it is no faster than the decomposition.
const SHORTEST_CHUNK: usize = 768;
const BEST_CHUNK: usize = 2048;
const LONGEST_CHUNK: usize = 16384;
const PANEL: usize = 512 << 10;

/// Panels are phases of their own: each should be worth it, in bytes.
const LEAST_PANEL: usize = 256 << 10;

impl Plan {
    /// The best algorithm for a row-major `rows` x `cols` array of elements of `element_size` bytes
    /// with the scratch that the library's own calls offer.
    ///
    /// Each worker has max(rows, cols) elements, or 256 KiB, or a bit for 512 bytes of the array, whatever
    /// is most. All together share 1/32 of the
    /// array's bytes; if that is less than 4 MiB, up to 1/8 of them but no more than 4 MiB; and in any case
    /// 256 KiB. [`Plan::scratch_bytes`] and [`Plan::shared_bytes`] say what is used of it.
    /// Panics unless the size is 4, 8 or 16 and the array fits in the address space.
    pub fn new(rows: usize, cols: usize, element_size: usize) -> Self {
        assert_possible(rows, cols, element_size);
        let bytes = rows * cols * element_size;
        let own = (rows.max(cols) * element_size).max(SMALL).max(bytes / (8 * MARKED));
        let shared = shared_bytes(bytes);
        Plan::offered(rows, cols, element_size, own, shared).expect("C2R and R2C take no more")
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
        if least <= MOST {
            let height = skinny::height(rows, cols, element_size);
            let skinny = Some(forced(Algorithm::Skinny { height })).filter(fits);
            if skinny.is_some() {
                return skinny;
            }
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
        let longest = (PANEL / least).clamp(BEST_CHUNK, LONGEST_CHUNK);
        let lines = (SHORTEST_CHUNK / LINE..=longest / LINE).rev();
        lines
            .map(|lines| lines * LINE / element_size)
            .filter(|height| *height <= most)
            .filter(|height| height.saturating_mul(least * element_size) >= LEAST_PANEL)
            .map(|height| forced(Algorithm::Panel { height }))
            .find(fits)
            .or(Some(decomposed))
            .filter(fits)
    }
}

/// What workers may share for an array of `bytes`.
fn shared_bytes(bytes: usize) -> usize {
    (bytes / SHARE).max((bytes / SHARE_OF_SMALL).min(SMALL_SHARED)).max(SMALL)
}

/// The sides of blocks that are worth it for elements of `size` bytes, best first.
pub(super) fn sides(rows: usize, cols: usize, size: usize) -> Vec<usize> {
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
