//! The worker of a call: what the algorithms need apart from tile kernels and the other workers.

use std::time::Instant;

use bytemuck::Pod;

use super::cpu::back::Back;
use super::cpu::divide::Divided;
use super::{Band, Device, OneStagePanel, SweepReflectors, Tridiagonal};
use crate::comm::{Comm, Step};
use crate::layout::TileColumn;
use crate::log::Task;
use crate::matrix::{Cells, Columns};
use crate::scalar::Scalar;
use crate::transpose;

/// One worker of a call, on one device.
pub trait Worker<T: Scalar>: Device<T> + Comm {
    /// Whether arithmetic that keeps subnormal numbers is slow. Then it keeps them only where they
    /// matter.
    const FLUSHES: bool;
    /// Sets whether this worker's arithmetic keeps subnormal numbers or flushes them to zero, where
    /// it can do both.
    fn keep_subnormals(&mut self, keep: bool);
    /// The next work given `ahead` comes after all work before this call. It runs at the same time
    /// as work given between the two.
    fn fork(&mut self) {}
    /// Other workers wait for the work that follows: a panel and its predecessors. `false` ends
    /// this. A device does it at the same time as the work that it has got since the last fork.
    fn ahead(&mut self, _: bool) {}
    /// Reads a block, row by row.
    fn get<U: Pod>(&mut self, from: Cells<U>, to: &mut [U]) -> Step;
    /// Writes a block, row by row.
    fn put(&mut self, from: &[T], to: Cells<T>);
    /// This worker's part of `plan`, which transposes every shard in its own memory. `shard` is that
    /// of a rank which this worker reaches. `own` is the worker's scratch, `shared` that of all
    /// workers. It ends with a barrier.
    fn transpose_shards<'c>(
        &mut self,
        plan: &transpose::Plan,
        ranks: usize,
        shard: impl Fn(usize) -> Cells<'c, T>,
        own: Cells<T>,
        shared: Cells<T>,
    ) -> Step
    where
        T: 'c;
    /// This worker's part of a panel that becomes tridiagonal in one stage, for workers that share memory.
    /// All workers meet before.
    fn reduce_in_one_stage(&mut self, panel: &OneStagePanel<T>) -> Step;
    /// This worker's part of reducing a band matrix, which the first worker reaches, to a tridiagonal
    /// one. That worker gets it. All workers meet before. Reflectors go to `kept`, in memory of the
    /// host.
    fn tridiagonal(
        &mut self,
        band: Band<T>,
        kept: Option<&SweepReflectors<T>>,
    ) -> Step<Option<Tridiagonal>>;
    /// This worker's part of Z, with eigenvectors of a real tridiagonal matrix. Rows of Z are
    /// columns of `z` in memory of the host. It gives the number of eigenvalues that were not found.
    /// `room` is the worker's scratch. All workers meet at its end.
    fn divide(&mut self, divided: &Divided, z: &Columns<T>, room: Cells<T>) -> Step<usize>;
    /// Applies reflectors in memory of the host to this worker's part of the columns of Z, of which
    /// `z` has the transpose. `room` is that of all workers in memory of the host, and the worker's
    /// scratch. All workers have met before, and meet at its end.
    fn transform_back(&mut self, back: &Back<T>, z: &Columns<T>, room: [Cells<T>; 2]) -> Step;
    /// The cost of a group's barrier, in multiplications that a worker does in the same time.
    fn group_barrier_cost(&self) -> f64;
    /// Does `work`, for a panel or none, as a span of the trace if there is one. Spans within it are
    /// none.
    fn span<V>(
        &mut self,
        _name: &'static str,
        _panel: Option<TileColumn>,
        work: impl FnOnce(&mut Self) -> V,
    ) -> V {
        work(self)
    }
    /// Marks the end of a phase for this worker, for traces.
    fn ends_phase(&mut self, _: &'static str, _from: Instant, _to: Instant) {}
    /// Begins a stage of the call, for reports of progress.
    fn begins(&mut self, task: Task);
    /// Reports that this share of the stage's work is done.
    fn progress(&mut self, share: f64);
}
