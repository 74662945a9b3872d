//! CPU workers without call sites, and matrices in shards.

use faer::Mat;
use meshsolve::comm::Communicator;
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::layout::Columns;
use meshsolve::matrix::{Block, Matrix};
use meshsolve::scalar::Scalar;

/// Runs `work` on every worker of a communicator.
pub fn on_workers<T: Scalar>(
    comm: &Communicator,
    widest: usize,
    work: impl Fn(&mut CpuWorker<T>) + Sync,
) {
    std::thread::scope(|scope| {
        let work = &work;
        let worker = |worker| {
            scope.spawn(move || {
                let mut pack = vec![T::NAN; scratch_elements::<T>(widest, 3)];
                let pack = Block::column_major(pack.as_mut_ptr(), pack.len(), 1, pack.len());
                work(&mut CpuWorker::new(comm, worker, widest, pack));
            })
        };
        let workers: Vec<_> = (0..comm.workers()).map(worker).collect();
        // Joined here, because the thread sanitizer does not see that the scope joins.
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Column-major shards of `a`, n/P columns each, in the block distribution.
pub fn shards<T: Scalar>(a: &Mat<T>, ranks: usize) -> Vec<Vec<T>> {
    let (n, cols) = (a.nrows(), a.ncols() / ranks);
    let shard = |r: usize| (0..cols * n).map(|e| a[(e % n, r * cols + e / n)]).collect();
    (0..ranks).map(shard).collect()
}

pub fn matrix<T>(shards: &mut [Vec<T>], columns: Columns) -> Matrix<T> {
    let bases: Vec<_> = shards.iter_mut().map(Vec::as_mut_ptr).collect();
    Matrix::new(&bases, columns)
}

/// Element (i, j) of the matrix in any order of columns.
pub fn element<T: Scalar>(a: &Matrix<T>, shards: &[Vec<T>], i: usize, j: usize) -> T {
    let columns = &a.columns;
    let tile = (0..columns.count())
        .map(|t| columns.tile(t))
        .find(|t| (t.global..t.global + t.width).contains(&j))
        .unwrap();
    shards[tile.rank][(tile.local + j - tile.global) * columns.n() + i]
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
