//! A group of workers as one of its members sees it: how they meet, and how they agree on a pivot.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::strip::Candidate;
use super::team::Team;
use crate::device::{Group, Step};
use crate::scalar::Scalar;

/// Bytes for a candidate of any type of element.
const BYTES: usize = 384;

/// Where a worker posts a candidate: every second meeting in the same place. Whoever posts there again
/// has been at the meeting in between, to which everybody came after reading.
#[derive(Default)]
#[repr(align(128))]
pub struct Post([Place; 2]);

#[repr(align(128))]
struct Place(UnsafeCell<[MaybeUninit<u8>; BYTES]>);

impl Default for Place {
    fn default() -> Self {
        Place(UnsafeCell::new([MaybeUninit::uninit(); BYTES]))
    }
}

// SAFETY: plain memory; `agree` says who writes and reads it when.
unsafe impl Sync for Place {}

pub struct Members<'a> {
    pub place: usize,
    team: &'a Team,
    worker: usize,
    group: &'a mut Group,
}

impl<'a> Members<'a> {
    pub fn new(team: &'a Team, worker: usize, group: &'a mut Group) -> Self {
        let place = group.place(worker, team.workers()).expect("a member of the group");
        Members { place, team, worker, group }
    }

    /// Waits for all members.
    pub fn meet(&mut self) -> Step {
        if self.group.size == 1 {
            return Ok(());
        }
        let number = self.group.next_meeting();
        self.team.meeting().meet(self.worker, self.group.members(self.team.workers()), number)
    }

    /// This member's rows of a panel that begins in row `first` of the matrix.
    pub fn rows(&self, first: usize, rows: usize) -> Range<usize> {
        self.group.rows(self.place, first, rows)
    }

    /// This member's part of so many columns.
    pub fn columns(&self, columns: Range<usize>) -> Range<usize> {
        self.group.columns(self.place, columns)
    }

    /// The best of the members' candidates, the first of equal ones, with the entries of the row on the
    /// diagonal.
    pub fn agree<T: Scalar>(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        if self.group.size == 1 {
            return Ok(mine);
        }
        const { assert!(size_of::<Candidate<T>>() <= BYTES && align_of::<Candidate<T>>() <= 128) };
        let turn = (self.group.meetings() + 1) % 2;
        let post = |team: &'a Team, worker: usize| {
            team.post(worker).0[turn].0.get().cast::<Candidate<T>>()
        };
        // SAFETY: this worker's place, whose last content everybody has read (see `Post`).
        unsafe { post(self.team, self.worker).write(mine) };
        self.meet()?;
        // SAFETY: written before the meeting and not again before everybody has read it.
        let read = |worker: usize| unsafe { &*post(self.team, worker) };
        let mut members = self.group.members(self.team.workers()).map(read);
        let top = members.find(|post| post.has_diagonal).expect("the row is a member's");
        // A NaN on the diagonal is never exceeded, and others' have been passed over.
        let best = members.fold(top, |best, post| if post.size > best.size { post } else { best });
        Ok(Candidate { diagonal: top.diagonal, ..*best })
    }
}
