//! State that the workers of one call share, on every kind of device: phases with counters to
//! announce and wait for, barriers, groups, and the reason of a stop.

mod communicator;
mod group;
mod phase;
pub mod progress;
mod slots;

pub use communicator::{Communicator, Sharing};
pub use group::Group;
pub use phase::Phase;

/// What the workers announce in a phase. A worker's counts only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Factored panels.
    Panels,
    /// Tile rows, in the order of a substitution, whose partial sums from this worker are final.
    PartialSums,
    /// Solved tile rows, in the order of a substitution.
    Solved,
    /// Barriers of a group.
    Barriers,
}

/// A worker has stopped the call. Return without touching the data further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

pub type Step<V = ()> = Result<V, Stopped>;
