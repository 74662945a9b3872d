//! What a unit of the panel algorithm ([`panels`](super::panels)) does in each phase.

use std::ops::Range;

use super::memory::{Chunks, Element};
use super::panels::{GROUP, PanelArray, Panels, Stage};
use super::turns::Turns;
use super::vector::with_widest;

impl<const S: usize> PanelArray<S> {
    /// Does some units of a phase.
    ///
    /// # Safety
    /// `data` is the array and `shared` holds `shared_bytes`. Units and phases run as for
    /// [`run_units`](super::run_units). `scratch` holds `scratch_bytes`.
    pub unsafe fn run(&self, phase: usize, units: Range<usize>, scratch: *mut u8) {
        let Panels { short, height, count, rest, tall, .. } = self.panels;
        let group = self.panels.group(S);
        let columns = units.start * group..short.min(units.end * group);
        match self.panels.stage(phase) {
            Stage::Mark | Stage::Permute => {
                let chains = self.panels.chains(S);
                let chunks = Chunks {
                    base: self.data,
                    stride: height * S,
                    line: self.panels.by_count,
                    gap: rest * S,
                    bytes: height * S,
                };
                let source = |h| self.panels.source(h);
                for unit in units {
                    // SAFETY: the caller promises memory and order of phases.
                    unsafe {
                        if self.panels.stage(phase) == Stage::Mark {
                            chains.mark(&chunks, source, self.shared);
                        } else {
                            chains.run(unit, &chunks, source, self.shared, scratch);
                        }
                    }
                }
            }
            Stage::Hold => {
                for c in columns {
                    let (held, chunk) = (self.parked(count - 1, c), self.chunk(c));
                    // SAFETY: the caller promises array and scratch. After the tall panels leave
                    // and before others come, only this unit uses its chunks of 0..short and tails
                    // of lines.
                    unsafe {
                        let (from, to) = if tall { (held, chunk) } else { (chunk, held) };
                        to.copy_from_nonoverlapping(from, height * S);
                        for t in 0..rest {
                            let end = self.chunk((c + 1) * count).cast::<Element<S>>();
                            let (x, y) =
                                (self.tail(t).cast::<Element<S>>().add(c), end.sub(rest - t));
                            let (from, to) = if tall { (x, y) } else { (y, x) };
                            *to = *from;
                        }
                    }
                }
            }
            Stage::Turn(_) if columns.is_empty() => {}
            Stage::Turn(p) => {
                // SAFETY: the caller promises array and scratch. The reads and writes of all units
                // are disjoint, as the specification of the algorithm shows.
                unsafe {
                    if p + 1 == count {
                        for t in 0..rest {
                            let row = self.row(count * height + t).add(columns.start * S);
                            let tail = self.tail(t).add(columns.start * S);
                            let (from, to) = if tall { (row, tail) } else { (tail, row) };
                            to.copy_from_nonoverlapping(from, columns.len() * S);
                        }
                    }
                    with_widest(Turns { memory: self, p, columns, group: GROUP / S });
                }
            }
        }
    }
}
