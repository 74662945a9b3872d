//! The cycles of a permutation cut into chains of the same length, so many workers move whole
//! pieces.
//!
//! Cycles are in the order of their leaders, their smallest indices. Each piece that is filled is a
//! step; the step of a fixed point moves no data. Chain k has the steps from `first(k)` to
//! `first(k + 1)`. A chain that begins within a cycle fills a piece that the previous chain still
//! needs. It may close a cycle with a leader that another chain fills. Both pieces are saved before
//! any chain moves ([`Chains::mark`]).

use super::cycles::{Saved, Visit, Walk, gather};
use super::memory::Pieces;
use std::ptr::null;

/// Bytes of the indices kept for a chain: its first piece and its leader.
const STARTS: usize = 2 * size_of::<usize>();

/// A permutation's pieces, and the memory of its chains.
#[derive(Clone, Copy)]
pub struct Chains {
    /// Number of pieces.
    pub pieces: usize,
    /// Bytes of a piece.
    pub bytes: usize,
    /// Number of chains, from one to one for each piece.
    pub count: usize,
}

impl Chains {
    /// The first step of chain `k`.
    pub fn first(&self, k: usize) -> usize {
        (self.pieces as u128 * k as u128 / self.count as u128) as usize
    }

    /// Bytes that all workers share: a bit for every leader, one for every visited piece, and for
    /// each chain its beginning and two pieces.
    pub fn shared_bytes(&self) -> usize {
        2 * self.bits() + self.count * (STARTS + 2 * self.bytes)
    }

    fn bits(&self) -> usize {
        self.pieces.div_ceil(8)
    }

    fn starts(&self, memory: *mut u8, k: usize) -> *mut [usize; 2] {
        memory.wrapping_add(2 * self.bits() + k * STARTS).cast()
    }

    /// The pieces saved for chain `k`: its first one, and the leader of its first cycle.
    fn saved(&self, memory: *mut u8, k: usize) -> [*mut u8; 2] {
        let at = 2 * self.bits() + self.count * STARTS + 2 * k * self.bytes;
        [memory.wrapping_add(at), memory.wrapping_add(at + self.bytes)]
    }

    /// Walks over the whole permutation, records where cycles and chains begin, and saves their
    /// pieces.
    ///
    /// # Safety
    /// `memory` holds `shared_bytes` at any alignment. No other thread uses it or the pieces.
    /// `source` permutes the pieces.
    pub unsafe fn mark(
        &self,
        pieces: &impl Pieces,
        source: impl Fn(usize) -> usize,
        memory: *mut u8,
    ) {
        let (leaders, visited) = (memory, memory.wrapping_add(self.bits()));
        let (mut step, mut chain, mut next) = (0, 0, 0);
        // SAFETY: the caller promises a permutation and sole use.
        unsafe {
            memory.write_bytes(0, 2 * self.bits());
            for leader in 0..self.pieces {
                if is_set(visited, leader) {
                    continue;
                }
                set(leaders, leader);
                let mut at = leader;
                loop {
                    set(visited, at);
                    if step == next {
                        self.starts(memory, chain).write_unaligned([at, leader]);
                        if at != leader {
                            let [first, open] = self.saved(memory, chain);
                            first.copy_from_nonoverlapping(pieces.at(at), self.bytes);
                            open.copy_from_nonoverlapping(pieces.at(leader), self.bytes);
                        }
                        chain += 1;
                        next = self.first(chain);
                    }
                    step += 1;
                    at = source(at);
                    if at == leader {
                        break;
                    }
                }
            }
        }
    }

    /// Moves the pieces of chain `k`.
    ///
    /// # Safety
    /// As for `mark`, which has run. Each chain moves once, and only chains move meanwhile. `room`
    /// holds a piece.
    pub unsafe fn run(
        &self,
        k: usize,
        pieces: &impl Pieces,
        source: impl Fn(usize) -> usize,
        memory: *mut u8,
        room: *mut u8,
    ) {
        // SAFETY: the caller promises the state after `mark`. The last chain does not use saved
        // pieces of a next one.
        unsafe {
            let [at, leader] = self.starts(memory, k).read_unaligned();
            let open = if at == leader { null() } else { self.saved(memory, k)[1].cast_const() };
            let end = self.saved(memory, (k + 1).min(self.count - 1))[0].cast_const();
            let walk = Chain {
                source,
                leaders: memory,
                pieces: self.pieces,
                left: self.first(k + 1) - self.first(k),
                leader,
                resume: Some(at).filter(|_| at != leader),
                at: None,
            };
            gather::<0>(pieces, walk, Saved { first: room, open, end });
        }
    }
}

/// # Safety
/// The bits up to `i` exist.
#[inline(always)]
unsafe fn set(bits: *mut u8, i: usize) {
    // SAFETY: the caller promises a bit `i`.
    unsafe { *bits.add(i / 8) |= 1 << (i % 8) };
}

/// # Safety
/// As for [`set`].
#[inline(always)]
unsafe fn is_set(bits: *const u8, i: usize) -> bool {
    // SAFETY: the caller promises a bit `i`.
    unsafe { *bits.add(i / 8) & (1 << (i % 8)) != 0 }
}

/// The walk over one chain.
struct Chain<F> {
    source: F,
    /// A bit for every piece.
    leaders: *const u8,
    pieces: usize,
    /// Steps that are left.
    left: usize,
    /// The leader of the current cycle, or of the next one.
    leader: usize,
    /// The piece where the walk begins within a cycle.
    resume: Option<usize>,
    /// The last piece, until its image has been visited.
    at: Option<usize>,
}

impl<F: Fn(usize) -> usize> Chain<F> {
    fn next_leader(&mut self) {
        let from = self.leader + 1;
        // SAFETY: `leaders` has a bit for every piece.
        let byte = |k: usize| unsafe { *self.leaders.add(k) };
        let mut bits = if from < self.pieces { byte(from / 8) & (0xFF << (from % 8)) } else { 0 };
        let mut k = from / 8;
        while bits == 0 && 8 * (k + 1) < self.pieces {
            k += 1;
            bits = byte(k);
        }
        self.leader = if bits == 0 { self.pieces } else { 8 * k + bits.trailing_zeros() as usize };
    }
}

impl<F: Fn(usize) -> usize> Walk for Chain<F> {
    #[inline(always)]
    fn step(&mut self) -> Visit {
        if let Some(at) = self.resume.take() {
            self.left -= 1;
            self.at = Some(at);
            return Visit::Resume(at);
        }
        if let Some(at) = self.at.take() {
            let next = (self.source)(at);
            if next != self.leader {
                if self.left == 0 {
                    return Visit::Cut;
                }
                self.left -= 1;
                self.at = Some(next);
                return Visit::Next(next);
            }
            self.next_leader();
        }
        while self.left > 0 {
            self.left -= 1;
            let leader = self.leader;
            if (self.source)(leader) != leader {
                self.at = Some(leader);
                return Visit::Leader(leader);
            }
            self.next_leader();
        }
        Visit::Done
    }
}
