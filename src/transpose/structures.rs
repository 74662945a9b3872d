//! Moves the data of a skinny array by the plan of [`skinny`](super::skinny).

use super::cycles::{Permutation, Saved, gather};
use super::memory::{Chunks, Element, LINE};
use super::skinny::{SLICE, Skinny, Stage, WIDE};
use super::tables::{MOST, Turn};
use std::ops::Range;

/// The memory of a call, for elements of S bytes.
#[derive(Clone, Copy)]
pub struct StructureArray<const S: usize> {
    pub skinny: Skinny,
    pub data: *mut u8,
    /// The tail, as rows, and the data held for the runs.
    pub shared: *mut u8,
}

impl<const S: usize> StructureArray<S> {
    /// Panel `p` as rows.
    fn rows(&self, p: usize) -> *mut u8 {
        self.data.wrapping_add(p * self.skinny.height * self.skinny.short * S)
    }

    /// The data held for run `r` > 0: the beginning of its place.
    fn held(&self, r: usize) -> *mut u8 {
        let Skinny { short, rest, .. } = self.skinny;
        self.shared.wrapping_add((short * rest + (r - 1) * self.skinny.most_held()) * S)
    }

    /// Does some units of a phase.
    ///
    /// # Safety
    /// `data` is the array and `shared` holds `shared_bytes`. Units and phases run as for
    /// [`run_units`](super::run_units). `scratch` holds `scratch_bytes`.
    pub unsafe fn run(&self, phase: usize, units: Range<usize>, scratch: *mut u8) {
        let Skinny { tall, runs, .. } = self.skinny;
        // SAFETY: the caller promises array and scratch. The tails of lines are not part of any
        // chunk. As rows they are behind all panels, where only chunks of the last run reach.
        unsafe {
            match self.skinny.stage(phase) {
                Stage::Hold => {
                    for r in units {
                        if r == 0 {
                            self.tail(tall, true);
                        } else {
                            let p = self.skinny.first(r);
                            let bytes = self.skinny.reach(p) * S;
                            self.held(r).copy_from_nonoverlapping(self.rows(p), bytes);
                        }
                    }
                }
                Stage::Turn => {
                    for r in units {
                        self.turn(r, scratch);
                        if !tall && r + 1 == runs {
                            self.tail(true, false);
                        }
                    }
                }
                Stage::Permute if units.is_empty() => {}
                Stage::Permute => {
                    if tall && units.start == 0 {
                        self.tail(false, false);
                    }
                    self.permute(units, scratch);
                }
            }
        }
    }

    /// Copies the tail between scratch and the array, where it is in rows or at the ends of the
    /// lines.
    ///
    /// # Safety
    /// As for `run`. No other thread uses these parts of the array.
    unsafe fn tail(&self, rows: bool, hold: bool) {
        let Skinny { short, height, count, rest, .. } = self.skinny;
        let held = self.shared.cast::<Element<S>>();
        let data = self.data.cast::<Element<S>>();
        for (t, c) in (0..rest).flat_map(|t| (0..short).map(move |c| (t, c))) {
            let line = c * (count * height + rest);
            let at =
                if rows { (count * height + t) * short + c } else { line + count * height + t };
            // SAFETY: the caller promises sole use of the tail.
            unsafe {
                let (x, y) = (data.add(at), held.add(t * short + c));
                if hold { *y = *x } else { *x = *y }
            }
        }
    }

    /// Transposes a run through scratch: to chunks the last panel first, back to rows the last
    /// panel last.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn turn(&self, r: usize, scratch: *mut u8) {
        let Skinny { short, height, runs, tall, .. } = self.skinny;
        let (first, end) = (self.skinny.first(r), self.skinny.first(r + 1));
        // Registers are loaded from lines or stored to them: half the work of any other address.
        let scratch = scratch.wrapping_add(scratch.addr().wrapping_neg() % LINE);
        let bytes = short * height * S;
        for k in 0..end - first {
            let p = if tall { end - 1 - k } else { first + k };
            let next = if tall { p.saturating_sub(1) } else { p + 1 };
            let rows = self.rows(p);
            let (mut here, mut there) = ([scratch; MOST], [rows; MOST]);
            for c in 0..short {
                here[c] = scratch.wrapping_add(c * height * S);
                there[c] = self.data.wrapping_add(self.skinny.chunk(p * short + c) * S);
            }
            // SAFETY: the contract of `run`. Scratch holds the parts of the panel that the run
            // before overwrites.
            unsafe {
                let lines = if tall {
                    let held = if p == first && r > 0 { self.skinny.reach(p) * S } else { 0 };
                    if held > 0 {
                        scratch.copy_from_nonoverlapping(self.held(r), held);
                    }
                    scratch.add(held).copy_from_nonoverlapping(rows.add(held), bytes - held);
                    &there[..short]
                } else {
                    for (here, there) in here.iter().zip(&there[..short]) {
                        let past =
                            (*there as usize + height * S).saturating_sub(rows as usize + bytes);
                        let held =
                            if p + 1 == end && r + 1 < runs { past.min(height * S) } else { 0 };
                        let own = height * S - held;
                        here.copy_from_nonoverlapping(*there, own);
                        if held > 0 {
                            let from = self.held(r + 1).add(past - held);
                            here.add(own).copy_from_nonoverlapping(from, held);
                        }
                    }
                    &here[..short]
                };
                let rows = if tall { scratch } else { rows };
                let soon = self.rows(next);
                Turn { rows, lines, height, split: tall, soon }.run::<S>();
            }
        }
    }

    /// Moves some slices of all chunks.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn permute(&self, units: Range<usize>, scratch: *mut u8) {
        let Skinny { short, height, count, rest, by_count, .. } = self.skinny;
        let (start, end) = (units.start * SLICE, (height * S).min(units.end * SLICE));
        let chunks = count * short;
        for first in (start..end).step_by(WIDE) {
            let slices = Chunks {
                base: self.data.wrapping_add(first),
                stride: height * S,
                line: by_count,
                gap: rest * S,
                bytes: WIDE.min(end - first),
            };
            // SAFETY: the caller promises array and scratch.
            unsafe {
                let walk = Permutation::new(chunks, |h| self.skinny.source(h), scratch);
                gather::<0>(&slices, walk, Saved::room(scratch.add(chunks.div_ceil(8))));
            }
        }
    }
}
