//! The devices of one call meet, the call runs, all devices get the same outcome. See README.md here.

mod collect;
mod outcome;
mod watchdog;

pub use collect::{Arrival, CallSite};
pub use outcome::{Reply, answer_all, cancel, conduct};
