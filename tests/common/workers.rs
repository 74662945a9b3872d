//! CPU workers without call sites, and matrices in shards.

use faer::Mat;
use meshsolve::comm::{Comm, Communicator};
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::layout::{Distribution, GlobalColumn, GlobalRow};
use meshsolve::matrix::{Blocks, Cells, DistMatrix};
use meshsolve::scalar::Scalar;

/// Runs `work` on every worker of a communicator.
pub fn on_workers<T: Scalar>(
    comm: &Communicator,
    widest: usize,
    work: impl Fn(&mut CpuWorker<T>) + Sync,
) {
    run_workers(comm, widest, &work);
}

/// Compiled once for each type.
fn run_workers<T: Scalar>(
    comm: &Communicator,
    widest: usize,
    work: &(dyn Fn(&mut CpuWorker<T>) + Sync),
) {
    std::thread::scope(|scope| {
        let worker = |worker| {
            scope.spawn(move || {
                let mut pack = vec![T::NAN; scratch_elements::<T>(widest, 3)];
                let pack = Cells::of(&mut pack);
                // SAFETY: *order*: a test gives one routine to all workers.
                work(&mut unsafe { CpuWorker::new(comm, worker, widest, pack) });
            })
        };
        let workers: Vec<_> = (0..comm.workers()).map(worker).collect();
        // Joined here, because the thread sanitizer does not see that the scope joins.
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Column-major shards of `a`, n/P columns each, in the block mapping.
pub fn shards<T: Scalar>(a: &Mat<T>, ranks: usize) -> Vec<Vec<T>> {
    let (n, cols) = (a.nrows(), a.ncols() / ranks);
    let shard = |r: usize| (0..cols * n).map(|e| a[(e % n, r * cols + e / n)]).collect();
    (0..ranks).map(shard).collect()
}

/// A matrix whose shards are column-major.
pub fn matrix<'a, T>(
    shards: &'a mut [Vec<T>],
    distribution: &'a Distribution,
) -> DistMatrix<'a, T> {
    let (rows, columns) = distribution.shard();
    let view = |shard: &'a mut Vec<T>| Cells::of(shard).by_columns(rows, columns, rows);
    DistMatrix::new(shards.iter_mut().map(view).collect(), distribution)
}

/// One block for all workers.
pub fn shared<'a, T>(worker: &impl Comm, block: Cells<'a, T>) -> Blocks<'a, T> {
    Blocks::new((0..worker.workers()).map(|_| block), worker.worker())
}

/// A block for each worker.
pub fn each<'a, T>(worker: &impl Comm, blocks: &[Cells<'a, T>]) -> Blocks<'a, T> {
    Blocks::new(blocks.iter().copied(), worker.worker())
}

/// Lines of scratch for each worker, as columns.
pub fn staging<'a, T>(
    worker: &impl Comm,
    memory: Cells<'a, T>,
    lines: usize,
    length: usize,
) -> Blocks<'a, T> {
    let of = |w: usize| memory.sub(w * lines * length, 0, lines * length, 1);
    let all = (0..worker.workers()).map(|w| of(w).by_columns(length, lines, length));
    Blocks::new(all, worker.worker())
}

/// Element (i, j) of the matrix, from its column-major shards.
pub fn element<T: Scalar>(distribution: &Distribution, shards: &[Vec<T>], i: usize, j: usize) -> T {
    let (row, i) = distribution.rows().local(GlobalRow::new(i));
    let (column, j) = distribution.columns().local(GlobalColumn::new(j));
    let rank = distribution.grid().rank(row, column);
    shards[rank][j.get() * distribution.shard().0 + i.get()]
}

pub const CASES: [(usize, usize, usize, usize); 9] = [
    // (n, ranks, tile, workers)
    (1, 1, 64, 1),
    (7, 1, 3, 2),
    (12, 3, 2, 2),
    (24, 4, 3, 4),
    (40, 8, 2, 3),
    (130, 2, 64, 2),
    (128, 2, 64, 5),
    (126, 2, 64, 1),
    (309, 3, 50, 2),
];
