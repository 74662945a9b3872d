//! Host threads of devices meet and wait for each other. Contract in README.md.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::messages;
use crate::error::{Error, Result};
use crate::settings;

/// Runs whose failure is remembered for those who come late.
const REMEMBERED: usize = 16;

/// (run id, group)
type Key = (i64, i64);

/// The meetings of a call site.
pub struct Hosts {
    routine: &'static str,
    world: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: HashMap<Key, Meeting>,
    failed: VecDeque<(i64, Error)>,
    opened: u64,
}

struct Meeting {
    /// Tells it from a later one of the same name.
    number: u64,
    since: Instant,
    /// By rank.
    devices: Vec<Option<i32>>,
}

impl State {
    fn failure(&self, run: i64) -> Result<()> {
        self.failed.iter().find(|(failed, _)| *failed == run).map_or(Ok(()), |f| Err(f.1.clone()))
    }

    /// Keeps the first failure of a run.
    fn fail(&mut self, run: i64, error: Error) -> Error {
        if let Err(first) = self.failure(run) {
            return first;
        }
        self.open.retain(|key, _| key.0 != run);
        self.failed.truncate(REMEMBERED - 1);
        self.failed.push_front((run, error.clone()));
        error
    }
}

impl Hosts {
    pub fn new(routine: &'static str, world: usize) -> Hosts {
        Hosts { routine, world, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until all ranks of a group have come. An error if one of the run has failed, or does not
    /// come in time, which is one for all of them.
    pub fn meet(&self, run: i64, group: i64, rank: usize, device: i32) -> Result<()> {
        let (key, world) = ((run, group), self.world);
        let mut state = self.state();
        state.failure(run)?;
        let State { open, opened, .. } = &mut *state;
        let meeting = open.entry(key).or_insert_with(|| {
            *opened += 1;
            Meeting { number: *opened, since: Instant::now(), devices: vec![None; world] }
        });
        let objection = match meeting.devices.get(rank) {
            None => Some(messages::out_of_range(self.routine, world, rank, device)),
            Some(Some(other)) => {
                Some(messages::claimed_twice(self.routine, world, rank, (*other, device)))
            }
            Some(None) => None,
        };
        if let Some(error) = objection {
            drop(state);
            return Err(self.fail(run, error));
        }
        meeting.devices[rank] = Some(device);
        let (number, deadline) = (meeting.number, meeting.since + settings::timeout());
        if meeting.devices.iter().all(Option::is_some) {
            open.remove(&key);
            self.changed.notify_all();
            return Ok(());
        }
        loop {
            state.failure(run)?;
            let Some(meeting) = state.open.get(&key).filter(|m| m.number == number) else {
                return Ok(());
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waited = meeting.since.elapsed();
                let error = messages::missing(self.routine, &meeting.devices, waited);
                drop(state);
                return Err(self.fail(run, error));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Makes the first failure of a run that of all who wait or come later, and returns it.
    pub fn fail(&self, run: i64, error: Error) -> Error {
        let first = self.state().fail(run, error);
        self.changed.notify_all();
        first
    }

    /// An error if a rank of the run has failed.
    pub fn failure(&self, run: i64) -> Result<()> {
        self.state().failure(run)
    }
}
