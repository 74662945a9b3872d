//! State that the workers of one call share, on every kind of device: counters to announce and wait
//! for, barriers, groups, and the reason of a stop.

mod communicator;
mod group;
pub mod progress;
mod slots;

pub use communicator::{Communicator, Sharing};
pub use group::Group;

/// A kind of announcement of a worker; each announcement carries a count that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Factored panels.
    Panels,
    /// Tile rows, in the order of a substitution, whose partial sums from this worker are final.
    PartialSums(usize),
    /// Solved tile rows, in the order of a substitution.
    Solved,
}

/// A worker has stopped the call. Return without touching the data further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

pub type Step<V = ()> = Result<V, Stopped>;
