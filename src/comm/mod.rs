//! What the workers of one call share, on every kind of device: counters that some announce and others wait
//! for, barriers, groups, and why a call stopped.

mod communicator;
mod group;
pub mod progress;
mod slots;

pub use communicator::{Communicator, Sharing};
pub use group::Group;

/// What a worker can announce; each announcement carries a count that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Factored panels.
    Panels,
    /// Tile rows, in the order of a substitution, whose partial sums from this worker are final.
    PartialSums(usize),
    /// Tile rows that are solved, in the order of a substitution.
    Solved,
}

/// The call has been given up by some worker; unwind without touching the data further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

pub type Step<V = ()> = Result<V, Stopped>;
