//! Ranks bring something to a rendezvous, and all get what one of them makes of it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::hosts::{Hosts, Key};
use crate::error::{Error, Kind, Result};

/// Gatherings at which each rank brings a parcel V, and all get the same S. A call site owns an
/// exchange for each such pair of types.
pub struct Exchange<V, S> {
    /// Those that no rank has left yet.
    open: Mutex<HashMap<Key, Arc<Gathering<V, S>>>>,
}

struct Gathering<V, S> {
    /// By rank.
    parcels: Mutex<Vec<Option<V>>>,
    made: OnceLock<Result<S>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl<V, S> Default for Exchange<V, S> {
    fn default() -> Self {
        Exchange { open: Mutex::default() }
    }
}

impl<V, S: Clone> Exchange<V, S> {
    /// As [`Hosts::rendezvous`]. In addition, one rank passes the parcels of all ranks, in rank
    /// order, to `make`; all ranks get its value.
    pub fn gather(
        &self,
        hosts: &Hosts,
        key: Key,
        (rank, device): (usize, i32),
        parcel: V,
        make: impl FnOnce(Vec<V>) -> Result<S>,
    ) -> Result<S> {
        let gathering = locked(&self.open)
            .entry(key)
            .or_insert_with(|| Arc::new(Gathering::new(hosts.world())))
            .clone();
        // The rendezvous refuses a rank that is out of range, and one that comes twice.
        if let Some(place) = locked(&gathering.parcels).get_mut(rank) {
            place.get_or_insert(parcel);
        }
        let met = hosts.rendezvous(key.0, key.1, rank, device);
        // Later parcels under this key, as in a loop, are for the next gathering. A slower rank
        // finds that one here and leaves it.
        let mut open = locked(&self.open);
        if open.get(&key).is_some_and(|other| Arc::ptr_eq(other, &gathering)) {
            open.remove(&key);
        }
        drop(open);
        met?;
        // The ranks of this gathering wait for one of them, those of other groups do not.
        gathering.made.get_or_init(|| gathering.make(make)).clone()
    }
}

impl<V, S> Gathering<V, S> {
    fn new(world: usize) -> Self {
        let parcels = Mutex::new((0..world).map(|_| None).collect());
        Gathering { parcels, made: OnceLock::new() }
    }

    /// A panic is an error for all ranks, too.
    fn make(&self, make: impl FnOnce(Vec<V>) -> Result<S>) -> Result<S> {
        let parcels: Option<Vec<V>> = locked(&self.parcels).drain(..).collect();
        let parcels = parcels.ok_or_else(|| {
            let text =
                "meshsolve: ranks that have met brought nothing; this is a defect of meshsolve";
            Error::new(Kind::Internal, text)
        })?;
        catch_unwind(AssertUnwindSafe(|| make(parcels)))
            .unwrap_or_else(|panic| Err(Error::from_panic("what ranks have in common", &*panic)))
    }
}
