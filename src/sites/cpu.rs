//! A call site on CPU devices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::call::{Attributes, Call};
use crate::error::{Error, Result};
use crate::processes::{self, ACCOUNT};
use crate::rendezvous::{Arrival, Calls, Key, Rendezvous, Reply, Waiter, answer_all};
use crate::routines::Site;
use crate::settings;

/// A call site of an executable, shared by all its local devices.
pub struct CallSite(Front);

enum Front {
    /// All ranks are devices of this process.
    Here(Calls),
    /// This process has some of the ranks.
    Across(Part),
}

/// This process' part of a call site.
struct Part {
    site: Site,
    /// How many ranks it has, one after the other.
    devices: usize,
    rendezvous: Arc<Rendezvous<Call, Waiting>>,
}

/// A device that waits for the outcome of a call.
struct Waiting {
    reply: Reply,
    call: Key,
}

impl Waiter for Waiting {
    /// The devices of this process have not met. The other processes wait for its part, so they get the
    /// error, too. The first device ends the run, and with it the others.
    fn refuse(all: Vec<Self>, error: Error) {
        all.into_iter().for_each(|waiting| waiting.refuse(error.clone()));
    }
}

impl Waiting {
    fn refuse(self, error: Error) {
        let reply = self.reply;
        let reply = Box::new(move |outcome| answer_all(vec![reply], outcome));
        processes::submit(self.call, Err(error), reply);
    }
}

impl CallSite {
    pub fn new(attributes: &dyn Attributes) -> Result<CallSite> {
        let site = Site::new(attributes)?;
        if site.configured.across().is_some() {
            let processes = processes::launch().map_or(site.world, |launch| launch.size);
            let devices = (site.world / processes).max(1);
            let rendezvous = Rendezvous::new(site.routine, devices, Some(settings::timeout));
            return Ok(CallSite(Front::Across(Part { site, devices, rendezvous })));
        }
        let Site { routine, world, configured } = site;
        let prepare = Box::new(move |calls, since| configured.prepare(calls, since));
        Ok(CallSite(Front::Here(Calls::new(routine, world, prepare))))
    }

    /// Takes one device's part of launch `run`. It returns at once; `arrival.reply` gets the
    /// outcome. Processes know the call by a `ticket`.
    pub fn arrive(&self, run: i64, group: i64, ticket: Option<i32>, arrival: Arrival) {
        match &self.0 {
            Front::Here(calls) => calls.arrive((run, group), in_order(run, ticket, arrival)),
            Front::Across(part) => part.arrive(run, ticket, arrival),
        }
    }
}

/// A call of one device has a ticket if it may fail, and then does so on all processes. They give its
/// error in their order, as it ends the run: other calls of that may be announced. A negative ticket was
/// drawn before MPI has started, so there are none.
fn in_order(run: i64, ticket: Option<i32>, arrival: Arrival) -> Arrival {
    let Some(ticket) = ticket else { return arrival };
    ACCOUNT.arrived();
    if ticket < 0 {
        return arrival;
    }
    let Arrival { call, reply } = arrival;
    let reply = Box::new(move |outcome: Result<()>| match outcome {
        Err(error) if processes::has_started() => {
            Waiting { reply, call: (run, ticket.into()) }.refuse(error);
        }
        outcome => reply(outcome),
    });
    Arrival { call, reply }
}

impl Part {
    /// The last device of this process gives the part of all to its engine.
    fn arrive(&self, run: i64, ticket: Option<i32>, Arrival { call, reply }: Arrival) {
        ACCOUNT.arrived();
        let (routine, world) = (self.site.routine, self.site.world);
        let (rank, device) = (call.rank, call.device);
        let Some(ticket) = ticket else {
            let error = Error::invalid(format!(
                "meshsolve.{routine}: operand `place`: expected int32[3] with rank, group and ticket for \
                 engine \"scalapack\", got int32[2]; draw a ticket (docs/design/processes.md)"
            ));
            return answer_all(vec![reply], Err(error));
        };
        let key = (run, ticket.into());
        let waiting = Waiting { reply, call: key };
        if rank >= world {
            let text = format!(
                "meshsolve.{routine}: operand `place`: expected a rank below {world}, got {rank}"
            );
            return waiting.refuse(Error::invalid(text));
        }
        let place = (rank % self.devices, device);
        let Some(complete) = self.rendezvous.arrive(key, place, call, waiting) else { return };
        let prepare = || match self.site.configured.across() {
            Some(across) => across.prepare(world, complete.parcels),
            None => unreachable!("a part of a site that several processes have"),
        };
        let work = catch_unwind(AssertUnwindSafe(prepare))
            .unwrap_or_else(|panic| Err(Error::from_panic("preparing a call", &*panic)));
        let all: Vec<_> = complete.waiters.into_iter().map(|waiting| waiting.reply).collect();
        processes::submit(key, work, Box::new(move |outcome| answer_all(all, outcome)));
    }
}
