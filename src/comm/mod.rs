//! What the workers of one call do together, on every kind of device ([`Comm`]), and the state that
//! those of one process share: phases with counters to announce and wait for, barriers, groups, and
//! the reason of a stop.

mod communicator;
mod group;
mod members;
mod phase;
pub mod progress;
mod queue;
mod slots;

pub use communicator::Communicator;
#[cfg(feature = "internals")]
pub use communicator::Sharing;
pub use group::Group;
pub use members::Members;
pub use phase::Phase;
pub use queue::Queue;

use std::ops::Range;

use bytemuck::Pod;

use crate::layout::{Column, GlobalRow, Partition, TileColumn};
use crate::matrix::{Blocks, Cells, DistMatrix, Panel, Remote};
use crate::scalar::Scalar;

/// What a worker does with the other workers of its call.
///
/// A *worker* is one thread of control of a call. On CPU devices every worker reaches every shard.
/// There are as many workers as cores, whatever the number of ranks, and worker t mod L owns tile
/// column t, for L workers. On a GPU a worker is a rank. It reaches its own memory and owns the tile
/// columns there; what others have it gets through this trait.
pub trait Comm {
    /// Whether a worker is a rank: its own shard is local, all others are remote.
    const IS_RANK: bool;
    /// The index of this worker.
    fn worker(&self) -> usize;
    /// What this worker shares with those of its process.
    fn communicator(&self) -> &Communicator;
    /// The number of phases that this worker has entered.
    fn entered(&mut self) -> &mut usize;
    /// Number of workers of the call.
    fn workers(&self) -> usize {
        self.communicator().workers()
    }
    /// The rank whose memory this worker reaches; `None` if it reaches that of all.
    fn here(&self) -> Option<usize> {
        Self::IS_RANK.then(|| self.worker())
    }
    /// The worker, of so many, to which a tile column belongs.
    fn owner_of(columns: &Partition<Column>, tile: TileColumn, workers: usize) -> usize {
        if Self::IS_RANK { columns.tile(tile).rank } else { tile.get() % workers }
    }
    fn owner(&self, columns: &Partition<Column>, tile: TileColumn) -> usize {
        Self::owner_of(columns, tile, self.workers())
    }
    fn owns(&self, columns: &Partition<Column>, tile: TileColumn) -> bool {
        self.owner(columns, tile) == self.worker()
    }
    /// `rows` of the finished tile column k, for each worker. All workers call this with the same
    /// panels, in the same order, after they have waited for them in a phase of panels or have met.
    /// Work with a panel comes before the next call.
    fn broadcast<'c, T: Scalar>(
        &mut self,
        a: &DistMatrix<'c, T>,
        k: TileColumn,
        rows: Range<GlobalRow>,
    ) -> Step<Panel<'c, T>>;
    /// What another worker has: the same memory where it is shared, otherwise a copy. The copy lasts
    /// until the next one. That worker has announced it.
    fn fetch<'c, T: Scalar>(&mut self, there: Remote<'c, T>) -> Step<Cells<'c, T>>;
    /// Copies what another worker has to `here`, of the same storage order, unless it is the same
    /// memory. That worker has announced it.
    fn receive<T: Pod>(&mut self, there: Remote<T>, here: Cells<T>);
    /// Every worker's block gets the content of the `root`'s. All workers meet before, and ranks also
    /// at its end.
    fn replicate<T: Pod>(&mut self, blocks: &Blocks<T>, root: usize) -> Step {
        self.barrier()?;
        self.receive(blocks.of(root), blocks.own());
        // No block changes before all have it.
        if Self::IS_RANK { self.barrier() } else { Ok(()) }
    }
    /// Completes this worker's block: for each of `tiles` on the diagonal, its rows come from the
    /// block of its owner. All workers meet before, and ranks also at its end.
    fn all_gather<T: Pod>(
        &mut self,
        blocks: &Blocks<T>,
        columns: &Partition<Column>,
        tiles: impl Iterator<Item = TileColumn>,
    ) -> Step {
        self.barrier()?;
        for t in tiles {
            let (owner, rows) = (self.owner(columns, t), columns.tile(t).rows());
            let here = blocks.own().matrix_rows(rows.clone());
            self.receive(blocks.of(owner).matrix_rows(rows), here);
        }
        // No block changes before all have its rows.
        if Self::IS_RANK { self.barrier() } else { Ok(()) }
    }
    /// What `both` makes of all workers' numbers, in their order, for each position. All workers call
    /// this, and none returns before. It orders nothing on devices.
    fn all_reduce<const N: usize>(
        &mut self,
        values: [f64; N],
        both: impl Fn(f64, f64) -> f64,
    ) -> Step<[f64; N]> {
        let (me, mut group) = (self.worker(), self.group(0, self.workers()));
        let both = |x: [f64; N], y: [f64; N]| std::array::from_fn(|i| both(x[i], y[i]));
        let mut members = Members::new(self.communicator(), me, &mut group);
        let all = members.all_reduce(values, |all| all.copied().reduce(both).unwrap_or(values))?;
        // The next reduction uses the same slots.
        members.barrier().map(|()| all)
    }
    /// Exchanges columns of all ranks. In each list, every column takes the content of the next. The
    /// last one stays. With a `spare` column for temporary use, it takes that of the first. No
    /// column is in two lists.
    fn exchange_columns<'c, T: Scalar + 'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Remote<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    );
    /// This worker's part of transposing all of `a`, in the block mapping, across the shards.
    /// Tiles (I, J) and (J, I) change places on any ranks, so each is read and written once. It
    /// ends with a barrier.
    fn transpose_square<T: Scalar>(&mut self, a: &DistMatrix<T>) -> Step;
    /// Enters the next phase, whose counters begin at zero. All workers enter the same phases in
    /// the same order.
    fn phase(&mut self, signal: Signal) -> Phase {
        let number = *self.entered();
        *self.entered() += 1;
        self.communicator().phases().enter(number, signal)
    }
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
    /// Records LAPACK's `info` for a pivot, and continues. The smallest one counts.
    fn report<T: Scalar>(&mut self, info: usize, pivot: T) {
        self.communicator().report(info, pivot.is_number());
    }
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
    /// Blocks of rows of a triangle that rows have been reduced into, in the order of all these.
    Blocks,
    /// Steps of sweeps through a band.
    Sweeps,
}

/// A worker has stopped the call. Return without touching the data further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

pub type Step<V = ()> = Result<V, Stopped>;
