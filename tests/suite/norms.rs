//! Norms of a matrix that is only read, with CPU workers.

use std::sync::Mutex;

use crate::common::for_all_scalars;
use crate::common::norms::{norms, uneven};
use crate::common::workers::{CASES, matrix, on_workers, shards};
use meshsolve::algorithms::norm::{squares, sums};
use meshsolve::comm::{Comm, Communicator};
use meshsolve::device::Squares;
use meshsolve::layout::{Distribution, Mapping};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

fn workers_together<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        let a = uneven::<T>(n, n);
        let mut memory = shards(&a, ranks);
        let distribution = Distribution::whole_columns((n, n), ranks, tile, Mapping::Block);
        let columns = distribution.columns();
        let m = matrix(&mut memory, &distribution);
        for order in [n, n - n / 3] {
            let mut found = vec![0.0; 2 * workers * n];
            let all = Cells::of(&mut found);
            let part = |i: usize| all.sub(i * n, 0, order, 1);
            let all = Mutex::new(Squares::default());
            on_workers::<T>(&Communicator::new(workers), columns.widest(), |worker| {
                let l = worker.worker();
                sums(worker, &m, (order, order), true, part(2 * l));
                sums(worker, &m, (order, order), false, part(2 * l + 1));
                let own = squares(worker, &m, (order, order)).unwrap();
                let mut all = all.lock().unwrap();
                *all = all.and(own);
            });
            let largest = |which: usize| {
                let total = |i: usize| (0..workers).map(|l| found[(2 * l + which) * n + i]).sum();
                (0..order).map(total).fold(0.0, f64::max)
            };
            let got = [largest(0), largest(1), all.into_inner().unwrap().root()];
            for (got, exact) in got.into_iter().zip(norms(&a, (order, order))) {
                assert!((got / exact - 1.0).abs() < 1e-13, "n {n} order {order}: {got} {exact}");
            }
        }
    }
}

for_all_scalars!(workers_together);
