//! Moves whole sub-rows in place, cycle by cycle (sections 4.6 and 4.7).
//!
//! The walk follows a map from a leader until it returns there. All indices are computed, none is
//! loaded. So the walk runs ahead of the copies and prefetches the lines that they will need.

use super::maps::gcd;
use super::memory::{Pieces, SubRows, WIDEST, copy};
use std::mem::MaybeUninit;
use std::ptr::null;

/// Sub-rows by which the walk is ahead of the copies.
const AHEAD: usize = 8;

/// One step of a walk over cycles of length two and more.
#[derive(Clone, Copy)]
pub enum Visit {
    /// The first row of a cycle. The previous cycle is complete.
    Leader(usize),
    /// The first row of a walk that begins within a cycle.
    Resume(usize),
    /// The image of the previous row.
    Next(usize),
    /// The walk ends within a cycle, before the image of the previous row.
    Cut,
    Done,
}

impl Visit {
    #[inline(always)]
    fn row(self) -> Option<usize> {
        match self {
            Visit::Leader(i) | Visit::Resume(i) | Visit::Next(i) => Some(i),
            Visit::Cut | Visit::Done => None,
        }
    }
}

pub trait Walk {
    fn step(&mut self) -> Visit;
}

/// i -> (i + by) mod rows. Its gcd(rows, by) cycles are known: leader y, then y + by, ...
pub struct Rotation {
    rows: usize,
    by: usize,
    cycles: usize,
    leader: usize,
    at: usize,
}

impl Rotation {
    pub fn new(rows: usize, by: usize) -> Self {
        let by = by % rows;
        let cycles = if by == 0 { 0 } else { gcd(rows, by) };
        Rotation { rows, by, cycles, leader: 0, at: rows }
    }
}

impl Walk for Rotation {
    #[inline(always)]
    fn step(&mut self) -> Visit {
        if self.at < self.rows {
            self.at += self.by;
            self.at -= if self.at >= self.rows { self.rows } else { 0 };
            if self.at != self.leader {
                return Visit::Next(self.at);
            }
            self.leader += 1;
        }
        if self.leader >= self.cycles {
            self.at = self.rows;
            return Visit::Done;
        }
        self.at = self.leader;
        Visit::Leader(self.leader)
    }
}

/// Any permutation of rows. Its cycles are not known, so every visited row sets a bit.
pub struct Permutation<F> {
    rows: usize,
    source: F,
    visited: *mut u8,
    leader: usize,
    at: usize,
}

impl<F: Fn(usize) -> usize> Permutation<F> {
    /// # Safety
    /// `visited` holds one bit per row, in whole bytes, for as long as this lives. `source` maps
    /// numbers below `rows` to numbers below `rows`.
    pub unsafe fn new(rows: usize, source: F, visited: *mut u8) -> Self {
        // SAFETY: the caller promises a bit per row.
        unsafe { visited.write_bytes(0, rows.div_ceil(8)) };
        Permutation { rows, source, visited, leader: 0, at: rows }
    }

    /// Sets the bit of row `i` and returns whether it was set.
    #[inline(always)]
    fn visit(&mut self, i: usize) -> bool {
        let bit = 1 << (i % 8);
        // SAFETY: i < rows at all callers, and `visited` has that many bits.
        unsafe {
            let byte = self.visited.add(i / 8);
            let was = *byte;
            *byte = was | bit;
            was & bit != 0
        }
    }
}

impl<F: Fn(usize) -> usize> Walk for Permutation<F> {
    #[inline(always)]
    fn step(&mut self) -> Visit {
        if self.at < self.rows {
            self.at = (self.source)(self.at);
            if self.at != self.leader {
                self.visit(self.at);
                return Visit::Next(self.at);
            }
            self.leader += 1;
        }
        while self.leader < self.rows {
            let i = self.leader;
            if !self.visit(i) && (self.source)(i) != i {
                self.at = i;
                return Visit::Leader(i);
            }
            self.leader += 1;
        }
        self.at = self.rows;
        Visit::Done
    }
}

/// `forward`: row i takes the sub-row of its image; otherwise its image takes that of row i.
///
/// # Safety
/// The walk is over the cycles of a permutation of the group's rows. No other thread uses the
/// group, which is no wider than WIDEST.
pub unsafe fn follow(sub_rows: &SubRows, walk: impl Walk, forward: bool) {
    let mut first = [MaybeUninit::<u8>::uninit(); WIDEST];
    let first = Saved::room(first.as_mut_ptr().cast());
    // SAFETY: the caller promises walk and group; W is the size of a sub-row or 0.
    unsafe {
        match (sub_rows.bytes, forward) {
            (64, true) => gather::<64>(sub_rows, walk, first),
            (128, true) => gather::<128>(sub_rows, walk, first),
            (256, true) => gather::<256>(sub_rows, walk, first),
            (512, true) => gather::<512>(sub_rows, walk, first),
            (_, true) => gather::<0>(sub_rows, walk, first),
            (64, false) => scatter::<64>(sub_rows, walk),
            (128, false) => scatter::<128>(sub_rows, walk),
            (256, false) => scatter::<256>(sub_rows, walk),
            (512, false) => scatter::<512>(sub_rows, walk),
            (_, false) => scatter::<0>(sub_rows, walk),
        }
    }
}

/// The last visits of a walk that is ahead.
struct Lead<W> {
    walk: W,
    ring: [Visit; AHEAD],
    next: usize,
}

impl<W: Walk> Lead<W> {
    fn new(walk: W, sub_rows: &impl Pieces) -> Self {
        let mut lead = Lead { walk, ring: [Visit::Done; AHEAD], next: 0 };
        (0..AHEAD).for_each(|_| _ = lead.step(sub_rows));
        lead
    }

    #[inline(always)]
    fn step(&mut self, sub_rows: &impl Pieces) -> Visit {
        let ahead = self.walk.step();
        if let Some(i) = ahead.row() {
            sub_rows.prefetch(i);
        }
        let visit = std::mem::replace(&mut self.ring[self.next], ahead);
        self.next = (self.next + 1) % AHEAD;
        visit
    }
}

/// Sub-rows that are needed after their rows have been overwritten.
#[derive(Clone, Copy)]
pub struct Saved {
    /// Room for the leader's.
    pub first: *mut u8,
    /// The sub-row of the leader of a cycle within which the walk begins.
    pub open: *const u8,
    /// The sub-row of the image of the last row, if the walk ends within a cycle.
    pub end: *const u8,
}

impl Saved {
    /// For walks over whole cycles.
    pub fn room(first: *mut u8) -> Self {
        Saved { first, open: null(), end: null() }
    }
}

/// Every row of the walk takes the sub-row of its image. W is the sub-row's size if it is known at
/// compile time, or 0.
///
/// # Safety
/// The walk is over cycles of a permutation of the group's rows. No other thread uses the rows that
/// it visits. `saved` holds sub-rows; W is 0 or the size of a sub-row.
pub unsafe fn gather<const W: usize>(sub_rows: &impl Pieces, walk: impl Walk, saved: Saved) {
    let bytes = sub_rows.bytes();
    let mut lead = Lead::new(walk, sub_rows);
    let (mut at, mut leader) = (None, saved.open);
    loop {
        let visit = lead.step(sub_rows);
        // SAFETY: rows of the walk are rows of the group, and none is its own image.
        unsafe {
            if let Some(row) = at {
                let from = match visit {
                    Visit::Next(i) => sub_rows.at(i).cast_const(),
                    Visit::Cut => saved.end,
                    _ => leader,
                };
                copy::<W>(sub_rows.at(row), from, bytes);
            }
            if let Visit::Leader(i) = visit {
                copy::<W>(saved.first, sub_rows.at(i), bytes);
                leader = saved.first;
            }
        }
        at = visit.row();
        if at.is_none() {
            return;
        }
    }
}

/// # Safety
/// As for [`follow`].
unsafe fn scatter<const W: usize>(sub_rows: &SubRows, walk: impl Walk) {
    // The sub-row that moves, and the one that it displaces.
    let mut buffers = [MaybeUninit::<u8>::uninit(); 2 * WIDEST];
    let mut held = buffers.as_mut_ptr().cast::<u8>();
    let mut other = held.wrapping_add(WIDEST);
    let bytes = sub_rows.bytes;
    let mut lead = Lead::new(walk, sub_rows);
    let mut leader = None;
    loop {
        let visit = lead.step(sub_rows);
        // SAFETY: as in `gather`.
        unsafe {
            match (visit, leader) {
                (Visit::Next(i), _) => {
                    copy::<W>(other, sub_rows.at(i), bytes);
                    copy::<W>(sub_rows.at(i), held, bytes);
                    (held, other) = (other, held);
                }
                (_, Some(row)) => copy::<W>(sub_rows.at(row), held, bytes),
                (_, None) => {}
            }
            match visit {
                Visit::Leader(i) => {
                    copy::<W>(held, sub_rows.at(i), bytes);
                    leader = Some(i);
                }
                Visit::Next(_) => {}
                Visit::Done => return,
                Visit::Resume(_) | Visit::Cut => unreachable!("columns go by whole cycles"),
            }
        }
    }
}
