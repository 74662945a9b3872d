//! A transposed copy, chip by chip as in [`tiles`](super::tiles).

use super::memory::{Element, LINE, prefetch};
use super::tiles::turn;
use super::vector::Vector;

/// Rows of chips that are prefetched ahead: the processor does not see that several rows are read.
const CHIPS_AHEAD: usize = 2;

/// Rows that become columns. Neither overlaps the other.
#[derive(Clone, Copy)]
pub struct Copies {
    /// The first element, and the bytes from one row to the next.
    pub from: *const u8,
    pub across: usize,
    /// The same of the transpose.
    pub to: *mut u8,
    pub down: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Copies {
    /// Copies elements of S bytes with the widest registers of the machine.
    ///
    /// # Safety
    /// All elements are there, and no other thread writes `from` or uses `to`.
    pub unsafe fn run<const S: usize>(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller promises the elements; the CPU has these sets.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                return avx512::<S>(self);
            }
            if is_x86_feature_detected!("avx2") {
                return avx2::<S>(self);
            }
        }
        // SAFETY: the caller promises the elements.
        unsafe { self.sized::<[u64; 8], S>() }
    }

    /// # Safety
    /// As for [`Copies::run`]. The machine has the instruction set of V.
    #[inline(always)]
    unsafe fn sized<V: Vector, const S: usize>(self) {
        // SAFETY: the caller promises elements and instruction set.
        unsafe {
            match S {
                4 => self.chips::<V, S, { LINE / 4 }>(),
                8 => self.chips::<V, S, { LINE / 8 }>(),
                _ => self.chips::<V, S, { LINE / 16 }>(),
            }
        }
    }

    /// # Safety
    /// As for `sized`. K elements of S bytes fill a line.
    #[inline(always)]
    unsafe fn chips<V: Vector, const S: usize, const K: usize>(self) {
        let Copies { from, across, to, down, rows, cols } = self;
        let (high, wide) = (rows - rows % K, cols - cols % K);
        for i in (0..high).step_by(K) {
            for j in (0..wide).step_by(K) {
                let source = from.wrapping_add(i * across + j * S);
                let target = to.wrapping_add(j * down + i * S);
                let mut lines: [V; K] = std::array::from_fn(|k| {
                    prefetch(source.wrapping_add((k + CHIPS_AHEAD * K) * across));
                    // SAFETY: the caller promises elements and instruction set.
                    unsafe { V::load(source.wrapping_add(k * across)) }
                });
                // SAFETY: as above.
                unsafe {
                    turn::<V, S, K>(&mut lines);
                    lines
                        .iter()
                        .enumerate()
                        .for_each(|(k, x)| x.store(target.wrapping_add(k * down)));
                }
            }
        }
        for i in 0..rows {
            for j in if i < high { wide } else { 0 }..cols {
                let x = from.wrapping_add(i * across + j * S).cast::<Element<S>>();
                let y = to.wrapping_add(j * down + i * S).cast::<Element<S>>();
                // SAFETY: as above.
                unsafe { *y = *x };
            }
        }
    }
}

/// # Safety
/// As for [`Copies::run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const S: usize>(copies: Copies) {
    // SAFETY: the caller promises elements and instruction set.
    unsafe { copies.sized::<std::arch::x86_64::__m512i, S>() }
}

/// # Safety
/// As for [`Copies::run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const S: usize>(copies: Copies) {
    // SAFETY: the caller promises elements and instruction set.
    unsafe { copies.sized::<[std::arch::x86_64::__m256i; 2], S>() }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
