//! Host threads of devices meet and wait for each other. README.md has the contract.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::messages;
use crate::error::{Error, Result};
use crate::settings;

/// The failed runs that are remembered for late devices.
const REMEMBERED: usize = 16;

/// (run id, group)
pub type Key = (i64, i64);

/// The rendezvous of a call site.
pub struct Hosts {
    routine: &'static str,
    world: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: HashMap<Key, Rendezvous>,
    failed: VecDeque<(i64, Error)>,
}

struct Rendezvous {
    /// Whether all ranks have come, even if the run fails afterwards.
    complete: Arc<AtomicBool>,
    since: Instant,
    /// By rank.
    devices: Vec<Option<i32>>,
}

impl State {
    fn failure(&self, run: i64) -> Result<()> {
        self.failed.iter().find(|(failed, _)| *failed == run).map_or(Ok(()), |f| Err(f.1.clone()))
    }

    /// Keeps the first failure of a run and returns it.
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

    /// Number of ranks of a group.
    pub(super) fn world(&self) -> usize {
        self.world
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until all ranks of a group have come. It returns an error if a rank of the run has
    /// failed or does not come in time. All ranks of the run get this error.
    pub fn rendezvous(&self, run: i64, group: i64, rank: usize, device: i32) -> Result<()> {
        let (key, world) = ((run, group), self.world);
        let mut state = self.state();
        state.failure(run)?;
        let rendezvous = state.open.entry(key).or_insert_with(|| Rendezvous {
            complete: Arc::default(),
            since: Instant::now(),
            devices: vec![None; world],
        });
        let objection = match rendezvous.devices.get(rank) {
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
        rendezvous.devices[rank] = Some(device);
        let (complete, deadline) =
            (rendezvous.complete.clone(), rendezvous.since + settings::timeout());
        if rendezvous.devices.iter().all(Option::is_some) {
            complete.store(true, Ordering::Release);
            state.open.remove(&key);
            self.changed.notify_all();
            return Ok(());
        }
        loop {
            if complete.load(Ordering::Acquire) {
                return Ok(());
            }
            state.failure(run)?;
            let Some(rendezvous) = state.open.get(&key) else {
                // So many later runs have failed that this failure is forgotten.
                return Err(messages::given_up(self.routine));
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waited = rendezvous.since.elapsed();
                let error = messages::missing(self.routine, &rendezvous.devices, waited);
                drop(state);
                return Err(self.fail(run, error));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Makes the first failure of a run that of all waiting or later ranks, and returns it.
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
