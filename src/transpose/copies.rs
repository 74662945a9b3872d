//! A transposed copy, chip by chip as in [`tiles`](super::tiles).

use super::memory::{Element, prefetch};
use super::tiles::turn;
use super::vector::{Vector, Work};

/// Rows of chips that are prefetched ahead: the processor does not see that several rows are read.
const CHIPS_AHEAD: usize = 2;

/// Rows of elements of S bytes that become columns. Neither overlaps the other. No other thread writes
/// `from` or uses `to`.
#[derive(Clone, Copy)]
pub struct Copies<const S: usize> {
    /// The first element, and the bytes from one row to the next.
    pub from: *const u8,
    pub across: usize,
    /// The same of the transpose.
    pub to: *mut u8,
    pub down: usize,
    pub rows: usize,
    pub cols: usize,
}

impl<const S: usize> Work<S> for Copies<S> {
    #[inline(always)]
    unsafe fn run<V: Vector, const K: usize>(self) {
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
