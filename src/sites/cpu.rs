//! A call site on CPU devices.

use crate::call::Attributes;
use crate::error::Result;
use crate::rendezvous::{Arrival, Calls};
use crate::routines::Site;

/// A call site of an executable, shared by all its local devices.
pub struct CallSite(Calls);

impl CallSite {
    pub fn new(attributes: &dyn Attributes) -> Result<CallSite> {
        let Site { routine, world, configured } = Site::new(attributes)?;
        let prepare = Box::new(move |calls, since| configured.prepare(calls, since));
        Ok(CallSite(Calls::new(routine, world, prepare)))
    }

    /// Takes one device's part of launch `run`. It returns at once; `arrival.reply` gets the
    /// outcome.
    pub fn arrive(&self, run: i64, group: i64, arrival: Arrival) {
        self.0.arrive((run, group), arrival);
    }
}
