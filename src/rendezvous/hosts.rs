//! Host threads of devices meet and wait for each other. README.md has the contract.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::messages;
use crate::error::{Error, Kind, Result};
use crate::settings;

/// The failed runs that are remembered for late devices.
const REMEMBERED: usize = 16;

/// (run id, group)
type Key = (i64, i64);

/// The rendezvous of a call site.
pub struct Hosts {
    routine: &'static str,
    world: usize,
    state: Mutex<State>,
    changed: Condvar,
    exchange: Mutex<Exchange>,
    is_made: Condvar,
}

/// Parcels that ranks bring to a rendezvous, and the values made of them.
#[derive(Default)]
struct Exchange {
    brought: HashMap<Key, Vec<Option<Parcel>>>,
    made: HashMap<Key, Made>,
}

type Parcel = Box<dyn Any + Send>;

struct Made {
    what: Result<Arc<dyn Any + Send + Sync>>,
    /// Ranks that have not taken it.
    left: usize,
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
        let (state, exchange) = (Mutex::default(), Mutex::default());
        let (changed, is_made) = (Condvar::new(), Condvar::new());
        Hosts { routine, world, state, changed, exchange, is_made }
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

    /// As [`Hosts::rendezvous`]. In addition, one rank passes the parcels of all ranks, in rank
    /// order, to `make`; all ranks get its value.
    pub fn gather<V: Send + 'static, S: Send + Sync + 'static>(
        &self,
        run: i64,
        group: i64,
        rank: usize,
        device: i32,
        parcel: V,
        make: impl FnOnce(Vec<V>) -> Result<S>,
    ) -> Result<Arc<S>> {
        let key = (run, group);
        let nobodys = || {
            let text =
                "meshsolve: ranks that have met brought nothing; this is a defect of meshsolve";
            Error::new(Kind::Internal, text)
        };
        {
            let mut exchange = self.exchange();
            let none = || (0..self.world).map(|_| None).collect();
            let brought = exchange.brought.entry(key).or_insert_with(none);
            // The rendezvous below refuses a rank that is out of range.
            if let Some(slot) = brought.get_mut(rank) {
                *slot = Some(Box::new(parcel));
            }
        }
        if let Err(error) = self.rendezvous(run, group, rank, device) {
            self.exchange().brought.remove(&key);
            return Err(error);
        }
        let mut exchange = self.exchange();
        // One rank finds all parcels and no value. Later parcels are for the next gathering.
        // Meanwhile the other ranks, and other groups, wait for no lock.
        if !exchange.made.contains_key(&key)
            && let Some(brought) = exchange.brought.remove(&key)
        {
            drop(exchange);
            let own = |parcel: Option<Parcel>| parcel?.downcast::<V>().ok().map(|v| *v);
            let all: Option<Vec<V>> = brought.into_iter().map(own).collect();
            let whole = all.filter(|all| all.len() == self.world);
            let made = catch_unwind(AssertUnwindSafe(|| whole.ok_or_else(nobodys).and_then(make)));
            let panic = |panic: Box<dyn Any + Send>| {
                Err(Error::from_panic("what ranks have in common", &*panic))
            };
            let made = made.unwrap_or_else(panic);
            let what = made.map(|made| Arc::new(made) as Arc<dyn Any + Send + Sync>);
            exchange = self.exchange();
            exchange.made.insert(key, Made { what, left: self.world });
            self.is_made.notify_all();
        }
        let nothing = |exchange: &mut Exchange| !exchange.made.contains_key(&key);
        let waited = self.is_made.wait_while(exchange, nothing);
        let mut exchange = waited.unwrap_or_else(|e| e.into_inner());
        let made = exchange.made.get_mut(&key).ok_or_else(nobodys)?;
        let what = made.what.clone();
        made.left -= 1;
        if made.left == 0 {
            exchange.made.remove(&key);
        }
        what?.downcast::<S>().map_err(|_| nobodys())
    }

    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Makes the first failure of a run that of all waiting or later ranks, and returns it.
    pub fn fail(&self, run: i64, error: Error) -> Error {
        let first = self.state().fail(run, error);
        self.exchange().brought.retain(|key, _| key.0 != run);
        self.changed.notify_all();
        first
    }

    /// An error if a rank of the run has failed.
    pub fn failure(&self, run: i64) -> Result<()> {
        self.state().failure(run)
    }
}
