//! A group of lanes as one of its members sees it: how they meet, and how they agree on a pivot.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::strip::Candidate;
use super::team::Team;
use crate::backend::{Group, Step};
use crate::matrix::Block;
use crate::scalar::Scalar;

/// Bytes for a candidate of any type of element.
const BYTES: usize = 384;

/// Where a lane posts a candidate: every second meeting in the same place. Whoever posts there again
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
    lane: usize,
    group: &'a mut Group,
}

impl<'a> Members<'a> {
    pub fn new(team: &'a Team, lane: usize, group: &'a mut Group) -> Self {
        let place = group.place(lane, team.lanes()).expect("a member of the group");
        Members { place, team, lane, group }
    }

    /// Waits for all members.
    pub fn meet(&mut self) -> Step {
        if self.group.size == 1 {
            return Ok(());
        }
        let number = self.group.next_meeting();
        self.team.meeting().meet(self.lane, self.group.members(self.team.lanes()), number)
    }

    /// This member's rows of a panel that begins in row `first` of the matrix.
    pub fn rows<T>(&self, first: usize, panel: Block<T>) -> Range<usize> {
        self.group.rows(self.place, first, panel.rows, panel.cols)
    }

    /// This member's part of so many columns.
    pub fn columns(&self, columns: Range<usize>) -> Range<usize> {
        self.group.columns(self.place, columns)
    }

    /// The best of the members' candidates, the first of equal ones, with the diagonal of the leader's.
    pub fn agree<T: Scalar>(&mut self, mine: Candidate<T>) -> Step<Candidate<T>> {
        if self.group.size == 1 {
            return Ok(mine);
        }
        const { assert!(size_of::<Candidate<T>>() <= BYTES && align_of::<Candidate<T>>() <= 128) };
        let place = (self.group.meetings() + 1) % 2;
        let post = |lane: usize| self.team.post(lane).0[place].0.get().cast::<Candidate<T>>();
        // SAFETY: this lane's place, which everybody has read (see `Post`).
        unsafe { post(self.lane).write(mine) };
        self.meet()?;
        let post = |lane: usize| self.team.post(lane).0[place].0.get().cast::<Candidate<T>>();
        let mut members = self.group.members(self.team.lanes());
        let leader = members.next().expect("a leader");
        // SAFETY: written before the meeting and not before the next but one.
        let size = |lane: usize| unsafe { (&raw const (*post(lane)).size).read() };
        let larger = |best: usize, lane: usize| if size(lane) > size(best) { lane } else { best };
        let best = members.fold(leader, larger);
        // SAFETY: as above.
        unsafe { Ok(Candidate { diagonal: (*post(leader)).diagonal, ..*post(best) }) }
    }
}
