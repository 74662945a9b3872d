//! LU with partial pivoting on CPU workers, without call sites: factors by any number of workers,
//! all four solves, zero pivots.

use crate::common::lu::{rebuilt, reference};
use crate::common::workers::{CASES, each, element, matrix, on_workers, shards, shared, staging};
use crate::common::{Random, for_all_scalars, random, ratio, residual};
use faer::Mat;
use meshsolve::algorithms::lu::{Interchange, factor, sweeps};
use meshsolve::algorithms::redistribute::{Redistribution, redistribute_columns};
use meshsolve::algorithms::triangular::Triangular;
use meshsolve::comm::{Comm, Communicator, Sharing, Stopped};
use meshsolve::device::{Device, Op};
use meshsolve::layout::{Distribution, GlobalRow, Mapping};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

fn factors_and_solves<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        for mapping in [Mapping::Block, Mapping::BlockCyclic] {
            one_factorisation::<T>(n, ranks, tile, workers, mapping);
        }
    }
}

fn one_factorisation<T: Scalar>(
    n: usize,
    ranks: usize,
    tile: usize,
    workers: usize,
    mapping: Mapping,
) {
    let name = format!("{} n={n} P={ranks} T={tile} L={workers} {mapping:?}", T::DTYPE.name());
    let mut a = random::<T>(n, n, 11 + n as u64);
    (0..n).for_each(|i| a[(i, i)] += T::from_f64_impl(0.5));
    let mut memory = shards(&a, ranks);
    let distribution = Distribution::whole_columns((n, n), ranks, tile, mapping);
    let columns = distribution.columns();
    let plan = Redistribution::new(&columns.source(), workers);
    let m = matrix(&mut memory, &distribution);
    let lines = plan.staging_lines();
    let mut memory_of_lines = vec![T::ZERO; workers * lines * n];
    let memory_of_lines = Cells::of(&mut memory_of_lines);
    let mut pivots = vec![-1; n];
    let rows = Cells::of(&mut pivots);

    let rhs = 3;
    let mut numbers = Random(99);
    let b = Mat::<T>::from_fn(n, rhs, |_, _| numbers.scalar());
    let ops = [Op::None, Op::Conjugate, Op::Transpose, Op::Adjoint];
    let row_major: Vec<T> = (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
    let mut xs = vec![row_major; 2 * ops.len()];
    let blocks: Vec<_> = xs.iter_mut().map(|x| Cells::of(x).by_rows(n, rhs)).collect();
    let mut sums = vec![T::NAN; workers * n * rhs];
    let sums: Vec<_> = (sums.chunks_mut(n * rhs)).map(|s| Cells::of(s).by_rows(n, rhs)).collect();

    let comm = Communicator::new(workers);
    on_workers::<T>(&comm, columns.widest(), |worker| {
        let lines = staging(worker, memory_of_lines, lines, n);
        redistribute_columns(worker, &m, &plan, &lines).unwrap();
        factor(worker, &m, &shared(worker, rows)).unwrap();
        for (i, op) in ops.into_iter().enumerate() {
            let (sweeps, interchange) = sweeps(op);
            let sweeps = sweeps.map(|(triangle, op)| Triangular { a: &m, triangle, op });
            let (together, alone) = (blocks[2 * i], blocks[2 * i + 1]);
            let first = worker.worker() == 0;
            if first && interchange == Interchange::Before {
                worker.swap_rows(together, GlobalRow::new(0), rows, false);
                worker.swap_rows(alone, GlobalRow::new(0), rows, false);
            }
            for sweep in &sweeps {
                let (x, sums) = (shared(worker, together), each(worker, &sums));
                sweep.solve_shared(worker, &x, &sums).unwrap();
            }
            worker.barrier().unwrap();
            if first {
                sweeps.iter().for_each(|sweep| sweep.solve_columns(worker, alone).unwrap());
            }
            if first && interchange == Interchange::After {
                worker.swap_rows(together, GlobalRow::new(0), rows, true);
                worker.swap_rows(alone, GlobalRow::new(0), rows, true);
            }
        }
    });

    assert_eq!(comm.info(), 0, "{name}");
    let lu = Mat::<T>::from_fn(n, n, |i, j| element(&distribution, &memory, i, j));
    assert!(ratio(&rebuilt(&lu, &pivots), &a) < 1.0, "{name}: P^T L U is A");
    let (expected, _) = reference(&mut a.clone());
    assert!(pivots.iter().zip(&expected).all(|(p, e)| *p as usize == *e), "{name}: pivots");
    for (i, op) in ops.into_iter().enumerate() {
        let a = Mat::<T>::from_fn(n, n, |i, j| {
            let entry = if op.transposes() { a[(j, i)] } else { a[(i, j)] };
            if op.conjugates() { T::conj_impl(&entry) } else { entry }
        });
        for x in &xs[2 * i..2 * i + 2] {
            let x = Mat::<T>::from_fn(n, rhs, |i, j| x[i * rhs + j]);
            assert!(residual(&a, &x, &b) < 3.0, "{name} {op:?}");
        }
    }
}

/// Workers that share whenever they can: groups of all sizes, changes between both kinds of steps.
fn sharing(workers: usize) -> Communicator {
    let rows = [16, 100][workers % 2];
    Communicator::new(workers).with_sharing(Sharing {
        rows,
        barrier_cost: 0.0,
        ..Sharing::default()
    })
}

fn shared_steps_give_the_same_factors_in_every_run<T: Scalar>() {
    let n = 630;
    let a = random::<T>(n, n, 31);
    let (expected, _) = reference(&mut a.clone());
    for (ranks, workers) in [(1, 1), (1, 2), (1, 3), (1, 4), (1, 8), (2, 2), (2, 4), (3, 3), (3, 8)]
    {
        let name = format!("{} {ranks} ranks {workers} workers", T::DTYPE.name());
        let factored = || {
            let mut memory = shards(&a, ranks);
            let distribution = Distribution::whole_columns((n, n), ranks, 48, Mapping::Block);
            let columns = distribution.columns();
            let m = matrix(&mut memory, &distribution);
            let mut pivots = vec![-1; n];
            let rows = Cells::of(&mut pivots);
            let comm = sharing(workers);
            on_workers::<T>(&comm, columns.widest(), |worker| {
                factor(worker, &m, &shared(worker, rows)).unwrap()
            });
            (memory.concat(), pivots)
        };
        let (lu, pivots) = factored();
        assert!(pivots.iter().zip(&expected).all(|(p, e)| *p as usize == *e), "{name}: pivots");
        assert!((lu.clone(), pivots.clone()) == factored(), "{name}: the same bits again");
        let lu = Mat::from_fn(n, n, |i, j| lu[j * n + i]);
        assert!(ratio(&rebuilt(&lu, &pivots), &a) < 1.0, "{name}: P^T L U is A");
    }
}

fn a_worker_that_stops_releases_those_that_share_a_panel<T: Scalar>() {
    let n = 600;
    for absent in 0..3 {
        let a = random::<T>(n, n, 3);
        let mut memory = shards(&a, 1);
        let distribution = Distribution::whole_columns((n, n), 1, 40, Mapping::Block);
        let m = matrix(&mut memory, &distribution);
        let mut pivots = vec![-1; n];
        let rows = Cells::of(&mut pivots);
        let comm = sharing(3);
        on_workers::<T>(&comm, 40, |worker| {
            if worker.worker() == absent {
                comm.give_up(7, true);
            } else {
                assert_eq!(
                    factor(worker, &m, &shared(worker, rows)),
                    Err(Stopped),
                    "without worker {absent}"
                );
            }
        });
        assert_eq!(comm.info(), 7);
    }
}

fn the_first_zero_pivot_is_reported_and_nobody_stops<T: Scalar>() {
    for (singular, workers) in [(0, 2), (13, 3), (39, 2), (20, 1)] {
        let n = 40;
        let mut a = random::<T>(n, n, 5);
        for i in 0..n {
            a[(i, singular)] = T::ZERO;
            a[(i, 39)] = T::ZERO;
        }
        let mut memory = shards(&a, 4);
        let distribution = Distribution::whole_columns((n, n), 4, 4, Mapping::Block);
        let m = matrix(&mut memory, &distribution);
        let mut pivots = vec![-1; n];
        let rows = Cells::of(&mut pivots);
        let comm = Communicator::new(workers);
        on_workers::<T>(&comm, 4, |worker| factor(worker, &m, &shared(worker, rows)).unwrap());
        assert_eq!(comm.info(), singular + 1);
        let lu = Mat::<T>::from_fn(n, n, |i, j| element(&distribution, &memory, i, j));
        assert!(ratio(&rebuilt(&lu, &pivots), &a) < 3.0, "column {singular}, {workers} workers");
    }
}

for_all_scalars!(
    factors_and_solves
    shared_steps_give_the_same_factors_in_every_run
    a_worker_that_stops_releases_those_that_share_a_panel
    the_first_zero_pivot_is_reported_and_nobody_stops
);
