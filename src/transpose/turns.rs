//! Transposes a panel from rows to chunks or back, out of place, chip by chip as in
//! [`tiles`](super::tiles).

use super::memory::{Element, LINE, prefetch};
use super::panels::PanelArray;
use super::tiles::turn;
use super::vector::{Vector, Work};
use std::ops::Range;

/// Number of chips that are prefetched along the panel's height: rows of lines, with a large
/// stride, and lines of chunks.
const ROWS_AHEAD: usize = 1;
const LINES_AHEAD: usize = 2;

/// Some columns of panel `p`, in groups. No other thread uses this memory.
pub struct Turns<'a, const S: usize> {
    pub memory: &'a PanelArray<S>,
    pub p: usize,
    pub columns: Range<usize>,
    pub group: usize,
}

impl<const S: usize> Work<S> for Turns<'_, S> {
    #[inline(always)]
    unsafe fn run<V: Vector, const K: usize>(self) {
        let Turns { memory, p, columns, group } = self;
        let (height, stride) = (memory.panels.height, memory.panels.short * S);
        let tall = memory.panels.tall;
        let first = memory.row(p * height);
        for c0 in columns.clone().step_by(group) {
            let end = columns.end.min(c0 + group);
            let whole = end - (end - c0) % K;
            let chunk = |c: usize, t: usize| memory.parked(p, c).wrapping_add(t * S);
            let row = |c: usize, t: usize| first.wrapping_add(t * stride + c * S);
            let heights = height - height % K;
            for t in (0..heights).step_by(K) {
                for c in (c0..whole).step_by(K) {
                    let chunks: [*mut u8; K] = std::array::from_fn(|k| chunk(c + k, t));
                    let rows = row(c, t);
                    for (k, chunk) in chunks.iter().enumerate() {
                        prefetch(rows.wrapping_add((k + ROWS_AHEAD * K) * stride));
                        prefetch(chunk.wrapping_add(LINES_AHEAD * LINE));
                    }
                    // SAFETY: the caller promises memory and instruction set.
                    unsafe {
                        let from =
                            |k: usize| if tall { rows.wrapping_add(k * stride) } else { chunks[k] };
                        let to =
                            |k: usize| if tall { chunks[k] } else { rows.wrapping_add(k * stride) };
                        let mut lines: [V; K] = std::array::from_fn(|k| V::load(from(k)));
                        turn::<V, S, K>(&mut lines);
                        lines.iter().enumerate().for_each(|(k, line)| line.store(to(k)));
                    }
                }
            }
            for c in c0..end {
                for t in if c < whole { heights } else { 0 }..height {
                    let (x, y) = (row(c, t).cast::<Element<S>>(), chunk(c, t).cast::<Element<S>>());
                    let (from, to) = if tall { (x, y) } else { (y, x) };
                    // SAFETY: the caller promises the memory.
                    unsafe { *to = *from };
                }
            }
        }
    }
}
