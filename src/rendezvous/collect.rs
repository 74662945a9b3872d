//! Devices arrive; the last one starts the call. README.md has the contract.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use super::outcome::{Reply, answer_all, conduct};
use super::{messages, watchdog};
use crate::call::{Call, Job};
use crate::error::{Error, Result};
use crate::settings;

pub struct Arrival {
    pub call: Call,
    pub reply: Reply,
}

/// (run id, group)
type Key = (i64, i64);

/// Makes the job of a call from the parts of all ranks, in rank order, and the time of the first
/// arrival.
pub type Prepare = Box<dyn Fn(Vec<Call>, Instant) -> Result<Arc<dyn Job>> + Send + Sync>;

/// The rendezvous of a call site that still wait for devices. The last device starts the job.
pub struct OpenRendezvous {
    routine: &'static str,
    world: usize,
    prepare: Prepare,
    open: Mutex<HashMap<Key, Rendezvous>>,
}

struct Rendezvous {
    since: Instant,
    /// For its deadline; `None` if the rendezvous has one device only.
    ticket: Option<watchdog::Ticket>,
    arrived: usize,
    /// By rank; emptied when the rendezvous fails.
    parts: Vec<Option<Arrival>>,
    failed: Option<Error>,
}

impl OpenRendezvous {
    /// `routine` is the name in messages, `world` the number of devices on the mesh axis.
    pub fn new(routine: &'static str, world: usize, prepare: Prepare) -> Arc<OpenRendezvous> {
        Arc::new(OpenRendezvous { routine, world, prepare, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Key, Rendezvous>> {
        self.open.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes one device's part of launch `run`. It returns at once; `arrival.reply` gets the
    /// outcome.
    pub fn arrive(self: &Arc<Self>, run: i64, group: i64, arrival: Arrival) {
        let key = (run, group);
        let world = self.world;
        let mut open = self.open();
        let mut entry = match open.entry(key) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                let since = Instant::now();
                let watch = || {
                    let open = Arc::downgrade(self) as Weak<dyn watchdog::Expires>;
                    watchdog::watch(since + settings::timeout(), open, key)
                };
                entry.insert_entry(Rendezvous {
                    since,
                    ticket: (world > 1).then(watch),
                    arrived: 0,
                    parts: (0..world).map(|_| None).collect(),
                    failed: None,
                })
            }
        };
        let rendezvous = entry.get_mut();
        rendezvous.arrived += 1;
        let complete = rendezvous.arrived == world;
        let mut refused = Vec::new();
        match (&rendezvous.failed, self.objection(rendezvous, &arrival)) {
            (Some(_), _) => refused.push(arrival.reply),
            (None, Some(error)) => {
                refused = rendezvous.fail(error);
                refused.push(arrival.reply);
            }
            (None, None) => {
                let rank = arrival.call.rank;
                rendezvous.parts[rank] = Some(arrival);
            }
        }
        let failed = rendezvous.failed.clone();
        let finished = if complete { Some(entry.remove()) } else { None };
        drop(open);
        if let Some(ticket) = finished.as_ref().and_then(|m| m.ticket) {
            watchdog::forget(ticket);
        }
        match (failed, finished) {
            (Some(error), _) => answer_all(refused, Err(error)),
            (None, Some(rendezvous)) => self.start(rendezvous),
            (None, None) => {}
        }
    }

    /// The reason why `arrival` cannot be part of `rendezvous`.
    fn objection(&self, rendezvous: &Rendezvous, arrival: &Arrival) -> Option<Error> {
        let Call { rank, device, .. } = arrival.call;
        let (name, world) = (self.routine, self.world);
        let Some(slot) = rendezvous.parts.get(rank) else {
            return Some(messages::out_of_range(name, world, rank, device));
        };
        let other = slot.as_ref()?.call.device;
        Some(messages::claimed_twice(name, world, rank, (other, device)))
    }

    fn start(&self, rendezvous: Rendezvous) {
        let (calls, replies): (Vec<_>, Vec<_>) =
            rendezvous.parts.into_iter().flatten().map(|a| (a.call, a.reply)).unzip();
        let prepare = || (self.prepare)(calls, rendezvous.since);
        let prepared = catch_unwind(AssertUnwindSafe(prepare))
            .unwrap_or_else(|panic| Err(Error::from_panic("preparing a call", &*panic)));
        match prepared {
            Ok(job) => conduct(job, replies),
            Err(error) => answer_all(replies, Err(error)),
        }
    }
}

impl watchdog::Expires for OpenRendezvous {
    /// Fails the rendezvous `key` if it still waits for a device. `ticket` distinguishes it from a
    /// later rendezvous with the same key.
    fn expire(&self, key: Key, ticket: watchdog::Ticket) {
        let mut open = self.open();
        let waits = |m: &&mut Rendezvous| m.failed.is_none() && m.ticket == Some(ticket);
        let Some(rendezvous) = open.get_mut(&key).filter(waits) else { return };
        let error = messages::missing(self.routine, &rendezvous.parts, rendezvous.since.elapsed());
        let waiting = rendezvous.fail(error.clone());
        drop(open);
        answer_all(waiting, Err(error));
    }
}

impl Rendezvous {
    /// Marks the rendezvous as failed and returns the replies of the devices that wait.
    fn fail(&mut self, error: Error) -> Vec<Reply> {
        self.failed = Some(error);
        self.parts.drain(..).flatten().map(|arrival| arrival.reply).collect()
    }
}
