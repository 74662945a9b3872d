//! The devices of one call meet, the call runs, and all devices get the same outcome. See README.md
//! here.

mod collect;
mod exchange;
mod hosts;
mod messages;
mod outcome;
mod watchdog;

pub use collect::{Arrival, OpenRendezvous};
pub use exchange::Exchange;
pub use hosts::Hosts;
pub use outcome::{Reply, cancel, close};
