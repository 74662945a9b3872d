//! How many workers a call has, and the sizes of their scratch.

use super::product::Units;
use crate::scalar::Scalar;
use crate::transpose;

/// Bytes of packed panel that a worker keeps in cache.
const PACK_BYTES: usize = 512 << 10;
/// Bytes of tiles that are packed at a time. They multiply the panel.
const TILES_BYTES: usize = 2 << 20;
/// Bytes between packed columns, so they do not all map to the same sets of the first-level cache.
pub(super) const LINE: usize = 64;

/// Workers of a call over `ranks` devices on a machine with `threads` threads: equally many for
/// each rank. With more ranks than threads there is one worker a thread.
pub fn worker_count(ranks: usize, threads: usize) -> usize {
    if ranks >= threads { threads.max(1) } else { ranks * (threads / ranks) }
}

/// Rows of the panel that are packed at a time, for tiles of `width` columns.
pub(super) fn packed_rows<T>(width: usize) -> usize {
    let rows = PACK_BYTES / (width.max(1) * size_of::<T>());
    (rows / 64 * 64).clamp(64, 1024)
}

/// Elements of scratch that the workers share while they transpose `shards` shards.
pub fn shared_elements<T>(plan: &transpose::Plan, shards: usize) -> usize {
    shards * plan.shared_bytes().div_ceil(size_of::<T>())
}

/// Elements of a packed panel, or of a square tile.
pub(super) fn packed_elements<T>(width: usize) -> usize {
    (packed_rows::<T>(width).max(width) + LINE / size_of::<T>()) * width
}

/// Elements of a packed tile of this width.
pub(super) fn tile_elements<T: Scalar>(width: usize) -> usize {
    width * Units::of::<T>().map_or(width, |units| width.next_multiple_of(units.cols))
}

/// Elements of a worker's scratch for packing, for so many tile columns of `width` columns.
pub fn scratch_elements<T: Scalar>(width: usize, tiles: usize) -> usize {
    let tile = tile_elements::<T>(width);
    let most = TILES_BYTES / tile.max(1) / size_of::<T>();
    packed_elements::<T>(width) + tiles.clamp(1, most.max(1)) * tile
}
