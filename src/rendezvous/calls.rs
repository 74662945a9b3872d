//! Devices whose handlers do not wait: the last one starts the call, and each gets the outcome by
//! its reply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::collect::{Complete, Rendezvous, Waiter};
use super::outcome::{Reply, answer_all, conduct};
use super::runs::Key;
use super::watchdog;
use crate::call::{Call, Job};
use crate::error::{Error, Result};
use crate::settings;

pub struct Arrival {
    pub call: Call,
    pub reply: Reply,
}

/// Makes the job of a call from the parts of all ranks, in rank order, and the time of the first
/// arrival.
pub type Prepare = Box<dyn Fn(Vec<Call>, Instant) -> Result<Arc<dyn Job>> + Send + Sync>;

impl Waiter for Reply {
    fn refuse(all: Vec<Self>, error: Error) {
        answer_all(all, Err(error));
    }
}

/// The calls of a call site.
pub struct Calls {
    rendezvous: Arc<Rendezvous<Call, Reply>>,
    prepare: Prepare,
}

impl Calls {
    /// `routine` is the name in messages, `world` the number of devices on the mesh axis.
    pub fn new(routine: &'static str, world: usize, prepare: Prepare) -> Calls {
        Calls { rendezvous: Rendezvous::new(routine, world, Some(settings::timeout)), prepare }
    }

    /// Takes one device's part of a launch. It returns at once; `arrival.reply` gets the outcome. A
    /// failure ends all calls of the run that wait for devices.
    pub fn arrive(&self, key: Key, Arrival { call, reply }: Arrival) {
        let place = (call.rank, call.device);
        let reply = Box::new(move |outcome: Result<()>| {
            if let Err(error) = &outcome {
                watchdog::end(key.0, error);
            }
            reply(outcome);
        });
        if let Some(complete) = self.rendezvous.arrive(key, place, call, reply) {
            self.start(complete);
        }
    }

    fn start(&self, Complete { since, parcels, waiters }: Complete<Call, Reply>) {
        let prepare = || (self.prepare)(parcels, since);
        let prepared = catch_unwind(AssertUnwindSafe(prepare))
            .unwrap_or_else(|panic| Err(Error::from_panic("preparing a call", &*panic)));
        match prepared {
            Ok(job) => conduct(job, waiters),
            Err(error) => answer_all(waiters, Err(error)),
        }
    }
}
