//! A call site on CPU devices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call::Attributes;
use crate::error::{Error, Result};
use crate::processes;
use crate::rendezvous::{Arrival, Calls, Reply, answer_all};
use crate::routines::Site;

/// A call site of an executable, shared by all its local devices.
pub struct CallSite(Front);

enum Front {
    /// All ranks are devices of this process.
    Here(Calls),
    /// This process has one of the ranks.
    Across(Site),
}

impl CallSite {
    pub fn new(attributes: &dyn Attributes) -> Result<CallSite> {
        let site = Site::new(attributes)?;
        if site.configured.across().is_some() {
            return Ok(CallSite(Front::Across(site)));
        }
        let Site { routine, world, configured } = site;
        let prepare = Box::new(move |calls, since| configured.prepare(calls, since));
        Ok(CallSite(Front::Here(Calls::new(routine, world, prepare))))
    }

    /// Takes one device's part of launch `run`. It returns at once; `arrival.reply` gets the
    /// outcome. Processes know the call by a `ticket`.
    pub fn arrive(&self, run: i64, group: i64, ticket: Option<i32>, arrival: Arrival) {
        match &self.0 {
            Front::Here(calls) => calls.arrive((run, group), arrival),
            Front::Across(site) => site.submit(ticket, arrival),
        }
    }
}

impl Site {
    /// Gives this process' part to its engine.
    fn submit(&self, ticket: Option<i32>, Arrival { call, reply }: Arrival) {
        let prepare = || match self.configured.across() {
            Some(across) if call.rank < self.world => across.prepare(self.world, call),
            _ => Err(Error::invalid(format!(
                "meshsolve.{}: operand `place`: expected a rank below {}, got {}",
                self.routine, self.world, call.rank
            ))),
        };
        let work = catch_unwind(AssertUnwindSafe(prepare))
            .unwrap_or_else(|panic| Err(Error::from_panic("preparing a call", &*panic)));
        let reply: Reply = Box::new(move |outcome| answer_all(vec![reply], outcome));
        match ticket {
            Some(ticket) => processes::submit(ticket.into(), work, reply),
            None => reply(Err(Error::invalid(format!(
                "meshsolve.{}: operand `place`: expected int32[3] with rank, group and ticket for engine \
                 \"scalapack\", got int32[2]; draw a ticket (docs/design/processes.md)",
                self.routine
            )))),
        }
    }
}
