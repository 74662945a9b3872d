//! Transposition into a second array: tile by tile through a buffer in the first-level cache. It
//! therefore accesses both arrays in whole cache lines.

use crate::copies::stream;
use crate::elements::Element;
use crate::threads::{parts, shared_out};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// The side of a tile in bytes.
const TILE: usize = 512;

/// A cache line in bytes.
const LINE: usize = 64;

#[derive(Clone, Copy)]
struct Target<E>(*mut E);
// SAFETY: the threads write to different rows.
unsafe impl<E> Sync for Target<E> {}

/// # Safety
/// `to` points to as many elements as `from`, which no other thread uses.
pub unsafe fn transpose<E: Element>(
    from: &[E],
    to: *mut E,
    (rows, cols): (usize, usize),
    threads: usize,
    streaming: bool,
) {
    let side = TILE / size_of::<E>();
    let (down, across) = (rows.div_ceil(side), cols.div_ceil(side));
    let to = Target(to);
    // Bands of tiles from top to bottom, or parts of bands if there are few.
    let cuts = threads.div_ceil(across.max(1));
    let strips = across * cuts;
    shared_out(parts(strips, threads), |strips| {
        let mut buffer = vec![E::from_index(0); side * apart::<E>()];
        let to = &to;
        for strip in strips {
            let (j, cut) = (strip / cuts, strip % cuts);
            for i in down * cut / cuts..down * (cut + 1) / cuts {
                let (i, j) = (i * side, j * side);
                let (height, width) = (side.min(rows - i), side.min(cols - j));
                // SAFETY: the tile is within the array.
                unsafe {
                    gather(from[i * cols + j..].as_ptr(), cols, (height, width), &mut buffer)
                };
                for (k, row) in buffer.chunks(apart::<E>()).take(width).enumerate() {
                    // SAFETY: elements as bytes. This part of row j + k of the result belongs to
                    // this tile only, and is within the array.
                    unsafe {
                        let place = to.0.add((j + k) * rows + i).cast::<u8>();
                        let bytes = height * size_of::<E>();
                        let row = from_raw_parts(row.as_ptr().cast::<u8>(), bytes);
                        let place = from_raw_parts_mut(place, bytes);
                        if streaming { stream(row, place) } else { place.copy_from_slice(row) }
                    }
                }
            }
        }
    });
}

/// Copies the transpose of a tile to the buffer, element by element: memory is slower than that.
///
/// # Safety
/// `from` points to the tile, whose rows are `stride` elements apart; `buffer` has a row for each
/// of the tile's columns.
unsafe fn gather<E: Element>(
    from: *const E,
    stride: usize,
    (height, width): (usize, usize),
    buffer: &mut [E],
) {
    let apart = apart::<E>();
    assert!(height <= apart && width * apart <= buffer.len());
    for p in 0..height {
        // Usually the tile below is the next one.
        prefetch(from.wrapping_add((height + p) * stride), width);
        for q in 0..width {
            // SAFETY: within the tile, which the caller promises at `from`, and within the buffer
            // (asserted).
            unsafe {
                *buffer.get_unchecked_mut(q * apart + p) = *from.add(p * stride + q);
            }
        }
    }
}

/// Prefetches `count` elements. It is only a hint and never faults.
#[inline(always)]
fn prefetch<E>(from: *const E, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..count * size_of::<E>()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 machine can prefetch, and accepts any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast::<i8>().wrapping_add(offset)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, count);
}

/// Elements from one row of the buffer to the next. The extra cache line keeps the rows out of the
/// same cache sets.
fn apart<E>() -> usize {
    (TILE + LINE) / size_of::<E>()
}
