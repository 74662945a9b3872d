//! The devices of one call meet, the call runs, and all devices get the same outcome. See README.md
//! here.

mod calls;
mod collect;
mod hosts;
mod messages;
mod outcome;
mod runs;
mod watchdog;

pub use calls::{Arrival, Calls};
pub use collect::{Rendezvous, Waiter};
pub use hosts::Hosts;
pub use outcome::{CLOSED, Reply, answer_all, cancel, close};
pub(crate) use runs::Failures;
pub use runs::Key;
pub use watchdog::end;
