//! The devices of one call meet, the call runs, and all devices get the same outcome. See README.md
//! here.

mod calls;
mod collect;
mod hosts;
mod messages;
mod outcome;
mod watchdog;

pub use calls::{Arrival, Calls};
pub use collect::{Key, Rendezvous, Waiter};
pub use hosts::Hosts;
pub use outcome::{CLOSED, Reply, answer_all, cancel, close};
