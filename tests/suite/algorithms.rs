//! The distributed algorithms on CPU workers, without call sites: redistribution, factor, mirror,
//! and both kinds of solve. They run for all scalars, orders, ragged tiles, more and fewer workers
//! than ranks.

use crate::common::workers::{CASES, each, element, matrix, on_workers, shards, staging};
use crate::common::{for_all_scalars, positive_definite, ratio, workers};
use faer::Mat;
use meshsolve::algorithms::cholesky::{factor, sweeps};
use meshsolve::algorithms::mirror::{Missing, mirror_triangle};
use meshsolve::algorithms::redistribute::{
    MOST_STAGING_LINES, Redistribution, redistribute_columns,
};
use meshsolve::algorithms::triangular::Triangular;
use meshsolve::comm::{Comm, Communicator};

use meshsolve::device::cpu::CpuWorker;
use meshsolve::layout::{Column, Distribution, Mapping, Partition};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

fn redistribution_moves_every_column<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        let a = Mat::<T>::from_fn(n, n, |i, j| T::from_f64_impl((i * 1000 + j) as f64));
        let mut memory = shards(&a, ranks);
        let distribution = Distribution::whole_columns((n, n), ranks, tile, Mapping::BlockCyclic);
        let columns = distribution.columns();
        let plan = Redistribution::new(&columns.source(), workers);
        let m = matrix(&mut memory, &distribution);
        let lines = plan.staging_lines();
        let mut memory_of_lines = vec![T::NAN; workers * lines * n];
        let memory_of_lines = Cells::of(&mut memory_of_lines);
        let comm = Communicator::new(workers);
        on_workers::<T>(&comm, 1, |worker| {
            let lines = staging(worker, memory_of_lines, lines, n);
            redistribute_columns(worker, &m, &plan, &lines).unwrap()
        });
        for j in 0..n {
            for i in 0..n {
                assert_eq!(
                    element(&distribution, &memory, i, j),
                    a[(i, j)],
                    "{n} {ranks} {tile} ({i},{j})"
                );
            }
        }
    }
}

fn factor_and_solve<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        for mapping in [Mapping::Block, Mapping::BlockCyclic] {
            for upper_given in [false, true] {
                one_factorisation::<T>(n, ranks, tile, workers, mapping, upper_given);
            }
        }
    }
}

fn one_factorisation<T: Scalar>(
    n: usize,
    ranks: usize,
    tile: usize,
    workers: usize,
    mapping: Mapping,
    upper_given: bool,
) {
    let name = format!("{} n={n} P={ranks} T={tile} L={workers} {mapping:?}", T::DTYPE.name());
    let a = positive_definite::<T>(n, 42 + n as u64);
    // The triangle that must not be read holds NaN.
    let given = Mat::from_fn(n, n, |i, j| {
        let read = if upper_given { i <= j } else { i >= j };
        if read { a[(i, j)] } else { T::NAN }
    });
    let mut memory = shards(&given, ranks);
    let distribution = Distribution::whole_columns((n, n), ranks, tile, mapping);
    let columns = distribution.columns();
    let plan = Redistribution::new(&columns.source(), workers);
    let block = Distribution::whole_columns((n, n), ranks, tile, Mapping::Block);
    let m = matrix(&mut memory, &distribution);
    let natural = m.with_distribution(&block);
    let lines = plan.staging_lines();
    let mut memory_of_lines = vec![T::ZERO; workers * lines * n];
    let memory_of_lines = Cells::of(&mut memory_of_lines);

    let rhs = 3;
    let b = Mat::<T>::from_fn(n, rhs, |i, j| T::from_f64_impl((i + 2 * j) as f64 - 3.5));
    let row_major = |m: &Mat<T>| (0..n * rhs).map(|e| m[(e / rhs, e % rhs)]).collect::<Vec<_>>();
    let (mut shared, mut alone, mut conjugated) = (row_major(&b), row_major(&b), row_major(&b));
    let [xs, xa, xc] =
        [&mut shared, &mut alone, &mut conjugated].map(|x| Cells::of(x).by_rows(n, rhs));
    let mut sums = vec![T::NAN; workers * n * rhs];
    let sums: Vec<_> =
        sums.chunks_exact_mut(n * rhs).map(|sum| Cells::of(sum).by_rows(n, rhs)).collect();
    let part = |(triangle, op)| Triangular { a: &m, triangle, op };
    let together = |worker: &mut CpuWorker<T>, x, conjugated| {
        for sweep in sweeps(conjugated).map(part) {
            let (x, sums) = (workers::shared(worker, x), each(worker, &sums));
            sweep.solve_shared(worker, &x, &sums).unwrap();
        }
    };

    let comm = Communicator::new(workers);
    on_workers::<T>(&comm, columns.widest(), |worker| {
        if upper_given {
            mirror_triangle(worker, &natural, Missing::Lower, true).unwrap();
        }
        let lines = staging(worker, memory_of_lines, lines, n);
        redistribute_columns(worker, &m, &plan, &lines).unwrap();
        factor(worker, &m).unwrap();
        together(worker, xs, false);
        if worker.worker() == 0 {
            let sweeps = sweeps(false).map(part);
            sweeps.iter().for_each(|sweep| sweep.solve_columns(worker, xa).unwrap());
        }
        together(worker, xc, true);
    });

    let l = Mat::<T>::from_fn(n, n, |i, j| {
        if i >= j { element(&distribution, &memory, i, j) } else { T::ZERO }
    });
    assert!(ratio(&(&l * l.adjoint()), &a) < 3.0, "{name}: L L^H is A");
    let solution = |x: &[T]| Mat::<T>::from_fn(n, rhs, |i, j| x[i * rhs + j]);
    assert!(ratio(&(&a * solution(&shared)), &b) < 30.0, "{name}: shared solve");
    assert!(ratio(&(&a * solution(&alone)), &b) < 30.0, "{name}: solve of one worker");
    let conjugate = a.transpose().to_owned();
    assert!(ratio(&(conjugate * solution(&conjugated)), &b) < 30.0, "{name}: conjugated solve");
}

for_all_scalars!(redistribution_moves_every_column factor_and_solve);

#[test]
fn staging_is_a_few_columns_per_worker_whatever_the_cycles() {
    for (n, ranks, tile) in [(4096, 2, 1), (8192, 2, 128), (8192, 8, 64), (8000, 5, 100), (6, 3, 1)]
    {
        for workers in [1, 2, 16] {
            let staging = Redistribution::new(
                &Partition::<Column>::new(n, ranks, tile, Mapping::BlockCyclic).source(),
                workers,
            )
            .staging_lines();
            assert!(
                (1..=MOST_STAGING_LINES).contains(&staging),
                "{n} {ranks} {tile} {workers}: {staging}"
            );
        }
    }
}

#[test]
fn one_long_cycle_is_work_for_all_workers() {
    // 2 x 2^k positions shuffled with k odd and width 1 hold the longest possible cycles; 26 has
    // one of 20.
    let plan =
        Redistribution::new(&Partition::<Column>::new(26, 2, 1, Mapping::BlockCyclic).source(), 4);
    assert!(plan.staging_lines() > 1, "cut into chains: {plan:?}");
}

#[test]
fn not_positive_definite_stops_all_workers_with_the_minor() {
    for (failing, workers) in [(0, 2), (13, 3), (39, 2), (20, 1)] {
        let n = 40;
        let mut a = positive_definite::<f64>(n, 5);
        a[(failing, failing)] = -1.0;
        let mut memory = shards(&a, 4);
        let distribution = Distribution::whole_columns((n, n), 4, 4, Mapping::Block);
        let m = matrix(&mut memory, &distribution);
        let comm = Communicator::new(workers);
        on_workers::<f64>(&comm, 4, |worker| assert!(factor(worker, &m).is_err()));
        assert_eq!(comm.info(), failing + 1);
    }
}
