//! The choice of the algorithm and its parameters.

use super::columns::Tiling;
use super::maps::gcd;
use super::memory::LINE;
use super::plan::{Algorithm, Plan, assert_possible};
use super::skinny;
use super::tables::MOST;

/// Scratch always available: bytes for each worker, and as many for all.
const SMALL: usize = 256 << 10;

/// Each worker has a bit for so many bytes. The walk over segments and chunks marks them.
const MARKED: usize = 512;

/// Workers share 1/`SHARE` of the array's bytes; of a small array 1/`SHARE_OF_SMALL`, up to
/// `SMALL_SHARED` bytes.
const SHARE: usize = 32;
const SHARE_OF_SMALL: usize = 8;
const SMALL_SHARED: usize = 4 << 20;

/// The shortest useful rows of blocks, in bytes. They are moved whole.
const SHORTEST: usize = 512;

/// The best length of such a row, in bytes. Longer ones belong to blocks that touch more pages.
/// Shorter ones make the walk longer and leave fewer slices to share.
const BEST: usize = 16384;

/// Chunks of the panel algorithm in bytes. For wide panels 2 KiB were the fastest; for narrow ones,
/// the length that makes a panel of [`PANEL`] bytes. Below the shortest it is no faster than the
/// decomposition.
const SHORTEST_CHUNK: usize = 768;
const BEST_CHUNK: usize = 2048;
const LONGEST_CHUNK: usize = 16384;
const PANEL: usize = 512 << 10;

/// The least size of a panel in bytes. Each panel costs a phase of its own.
const LEAST_PANEL: usize = 256 << 10;

impl Plan {
    /// The best algorithm for a row-major `rows` x `cols` array of elements of `element_size`
    /// bytes, with the scratch that the library's own calls offer.
    ///
    /// Each worker has the largest of max(rows, cols) elements, 256 KiB, and a bit for 512 bytes of
    /// the array. All together share 1/32 of the array's bytes. If that is less than 4 MiB, they
    /// share up to 1/8, but no more than 4 MiB; and in any case 256 KiB. [`Plan::scratch_bytes`]
    /// and [`Plan::shared_bytes`] give the part that is used. Panics unless the size is 4, 8 or 16
    /// and the array fits in the address space.
    pub fn new(rows: usize, cols: usize, element_size: usize) -> Self {
        assert_possible(rows, cols, element_size);
        let bytes = rows * cols * element_size;
        let own = (rows.max(cols) * element_size).max(SMALL).max(bytes / (8 * MARKED));
        let shared = shared_bytes(bytes);
        Plan::offered(rows, cols, element_size, own, shared).expect("C2R and R2C take no more")
    }

    /// The best algorithm for `scratch_bytes` of scratch for each worker and `shared_bytes` that
    /// all workers share, or none. Each worker needs at most max(rows, cols) elements.
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
        // The view with fewer rows, if its groups of columns fit in scratch; otherwise the one with
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

/// Bytes that workers may share for an array of `bytes`.
fn shared_bytes(bytes: usize) -> usize {
    (bytes / SHARE).max((bytes / SHARE_OF_SMALL).min(SMALL_SHARED)).max(SMALL)
}

/// The useful sides of blocks for elements of `size` bytes, best first.
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
