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

use crate::error::Error;
use crate::layout::TileColumn;
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;

/// What a worker does with the other workers of its call.
///
/// A *worker* is one thread of control of a call. Worker t mod L owns tile column t, for L workers.
/// CPU devices have as many workers as cores, whatever the number of ranks, because every worker
/// can reach every shard. On a GPU a worker is a rank.
pub trait Comm {
    /// Whether a worker is a rank: its own shard is local, all others are remote.
    const IS_RANK: bool;
    /// The index of this worker.
    fn worker(&self) -> usize;
    /// Number of workers of the call.
    fn workers(&self) -> usize;
    /// The worker to which a tile column belongs.
    fn owner(&self, tile: TileColumn) -> usize {
        tile.get() % self.workers()
    }
    fn owns(&self, tile: TileColumn) -> bool {
        self.owner(tile) == self.worker()
    }
    /// Lets the device send factored panel k to all workers at once, before they update by it. All
    /// workers call this with the same panels, in the same order.
    fn broadcast<T: Scalar>(&mut self, _a: &Matrix<T>, _k: TileColumn) {}
    /// In each list of columns, in any memory, every one takes the content of the next. The last
    /// one stays. With a `spare` column for temporary use, it takes that of the first. No column is
    /// in two lists.
    fn shift_columns<'c, T: Scalar + 'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Cells<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    );
    /// This worker's part of transposing all of `a`, in the block mapping, across the shards.
    /// Tiles (I, J) and (J, I) change places on any ranks, so each is read and written once. It
    /// ends with a barrier.
    fn transpose_square<T: Scalar>(&mut self, a: &Matrix<T>) -> Step;
    /// Enters the next phase, whose counters begin at zero. All workers enter the same phases in
    /// the same order.
    fn phase(&mut self, signal: Signal) -> Phase;
    /// Raises this worker's counter of a phase: the work before it is done.
    fn announce(&mut self, phase: &Phase, count: usize);
    /// Waits until the counter of a worker has reached `count`.
    fn wait(&mut self, phase: &Phase, worker: usize, count: usize) -> Step;
    /// `size` workers from `leader` on. All workers of the call make the same groups.
    fn group(&mut self, leader: usize, size: usize) -> Group {
        let barriers = (size > 1).then(|| self.phase(Signal::Barriers));
        Group::new(leader, size, barriers)
    }
    /// Number of workers that can factor a panel of so many rows together. It is 1 where they do
    /// not reach each other's memory.
    fn sharers(&self, rows: usize) -> usize;
    /// Waits for all workers of a group to which this worker belongs.
    fn group_barrier(&mut self, group: &mut Group) -> Step;
    /// Waits for all workers of the call.
    fn barrier(&mut self) -> Step;
    /// Ends the call because of a fault of the machine, and stops every worker.
    fn fail(&mut self, error: Error) -> Stopped;
    /// Records LAPACK's `info` and continues. The smallest one counts.
    fn report(&mut self, info: usize);
}

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
