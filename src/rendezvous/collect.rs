//! Ranks arrive with parcels; the last one gets them all. README.md has the contract.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::runs::{Failures, Key};
use super::{messages, watchdog};
use crate::error::{Error, Result};

/// What a rank waits with for the outcome.
pub trait Waiter: Send + Sized + 'static {
    /// Gives all of them an error.
    fn refuse(all: Vec<Self>, error: Error);
}

/// The rendezvous of a call site, where ranks bring parcels V and wait with W.
pub struct Rendezvous<V, W> {
    routine: &'static str,
    world: usize,
    limit: Option<fn() -> Duration>,
    state: Mutex<State<V, W>>,
}

struct State<V, W> {
    /// Those that still wait for ranks.
    open: HashMap<Key, Open<V, W>>,
    failed: Failures<Error>,
}

struct Open<V, W> {
    since: Instant,
    ticket: Option<watchdog::Ticket>,
    /// By rank.
    parts: Vec<Option<Part<V, W>>>,
}

struct Part<V, W> {
    device: i32,
    parcel: V,
    waiter: W,
}

/// All ranks have come; by rank.
pub struct Complete<V, W> {
    /// The time of the first arrival.
    pub since: Instant,
    pub parcels: Vec<V>,
    pub waiters: Vec<W>,
}

impl<V: Send + 'static, W: Waiter> Rendezvous<V, W> {
    /// `routine` is the name in messages, `world` the number of devices on the mesh axis. Ranks must
    /// arrive within the time that `limit` gives, if there is one.
    pub fn new(routine: &'static str, world: usize, limit: Option<fn() -> Duration>) -> Arc<Self> {
        let state = State { open: HashMap::new(), failed: Failures::new() };
        Arc::new(Rendezvous { routine, world, limit, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State<V, W>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A rank arrives. The last one gets the parcels and waiters of all. If the run fails instead,
    /// every waiter gets the error.
    pub fn arrive(
        self: &Arc<Self>,
        key: Key,
        (rank, device): (usize, i32),
        parcel: V,
        waiter: W,
    ) -> Option<Complete<V, W>> {
        let (name, world) = (self.routine, self.world);
        let mut state = self.state();
        let State { open, failed } = &mut *state;
        let open = failed.of(key.0).and_then(|()| match open.entry(key) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.open(key)?)),
        });
        let open = match open {
            Ok(open) => open,
            Err(error) => {
                drop(state);
                W::refuse(vec![waiter], error);
                return None;
            }
        };
        let objection = match open.parts.get(rank) {
            None => Some(messages::out_of_range(name, world, rank, device)),
            Some(Some(other)) => {
                Some(messages::claimed_twice(name, world, rank, (other.device, device)))
            }
            Some(None) => None,
        };
        if let Some(error) = objection {
            let (error, mut waiters) = state.fail(key.0, error);
            drop(state);
            waiters.push(waiter);
            W::refuse(waiters, error);
            return None;
        }
        open.parts[rank] = Some(Part { device, parcel, waiter });
        if open.parts.iter().any(Option::is_none) {
            return None;
        }
        let Open { since, ticket, parts } = state.open.remove(&key)?;
        drop(state);
        ticket.into_iter().for_each(watchdog::forget);
        let parts = parts.into_iter().flatten().map(|part| (part.parcel, part.waiter));
        let (parcels, waiters) = parts.unzip();
        Some(Complete { since, parcels, waiters })
    }

    /// The first rank has come. An error if another call of its run has failed.
    fn open(self: &Arc<Self>, key: Key) -> Result<Open<V, W>> {
        let since = Instant::now();
        let limit = self.limit.filter(|_| self.world > 1);
        let watched = limit.map(|limit| {
            let this = Arc::downgrade(self) as Weak<dyn watchdog::Ends>;
            watchdog::watch(since + limit(), this, key)
        });
        let parts = (0..self.world).map(|_| None).collect();
        Ok(Open { since, ticket: watched.transpose()?, parts })
    }

    /// Makes the first failure of a run that of all waiting or later ranks, and returns it.
    pub fn fail(&self, run: i64, error: Error) -> Error {
        let (first, waiters) = self.state().fail(run, error);
        W::refuse(waiters, first.clone());
        first
    }

    /// An error if a rank of the run has failed.
    pub fn failure(&self, run: i64) -> Result<()> {
        self.state().failed.of(run)
    }
}

impl<V, W> State<V, W> {
    /// Keeps the first failure of a run. Returns it, and the waiters of the run.
    fn fail(&mut self, run: i64, error: Error) -> (Error, Vec<W>) {
        if let Err(first) = self.failed.of(run) {
            return (first, Vec::new());
        }
        self.failed.keep(run, &error);
        let keys: Vec<Key> = self.open.keys().copied().filter(|key| key.0 == run).collect();
        let ended: Vec<_> = keys.iter().filter_map(|key| self.open.remove(key)).collect();
        ended.iter().filter_map(|open| open.ticket).for_each(watchdog::forget);
        let parts = ended.into_iter().flat_map(|open| open.parts).flatten();
        (error, parts.map(|part| part.waiter).collect())
    }
}

impl<V: Send + 'static, W: Waiter> watchdog::Ends for Rendezvous<V, W> {
    /// Fails the rendezvous `key` if it still waits for a rank. `ticket` distinguishes it from a
    /// later rendezvous with the same key.
    fn expire(&self, key: Key, ticket: watchdog::Ticket) {
        let mut state = self.state();
        let Some(open) = state.open.get(&key).filter(|open| open.ticket == Some(ticket)) else {
            return;
        };
        let error = messages::missing(self.routine, &open.parts, open.since.elapsed());
        let (error, waiters) = state.fail(key.0, error);
        drop(state);
        W::refuse(waiters, error);
    }

    fn fail(&self, run: i64, error: Error) {
        Rendezvous::fail(self, run, error);
    }
}
