//! Condition estimates against norms of inverses: the estimator alone, and with workers.

use std::sync::Mutex;

use crate::common::workers::{CASES, each, matrix, on_workers, shards, shared};
use crate::common::{random, unit};
use faer::Mat;
use faer::linalg::solvers::DenseSolveCore;
use meshsolve::algorithms::condition::{Estimator, Next, block, inverse_norm};
use meshsolve::algorithms::lu::{Interchange, factor, sweeps};
use meshsolve::algorithms::triangular::Triangular;
use meshsolve::comm::{Comm, Communicator};
use meshsolve::device::Device;
use meshsolve::layout::{Distribution, GlobalRow, Mapping};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

fn norm1<T: Scalar>(a: &Mat<T>) -> f64 {
    let sum = |j: usize| (0..a.nrows()).map(|i| a[(i, j)].modulus()).sum::<f64>();
    (0..a.ncols()).map(sum).fold(0.0, f64::max)
}

fn inverse<T: Scalar>(a: &Mat<T>) -> Mat<T> {
    a.partial_piv_lu().inverse()
}

/// The estimate of `scale` norm1(M), M given as the inverse; and the number of products.
fn estimated<T: Scalar>(m: &Mat<T>, scale: f64) -> (f64, usize) {
    let (n, mut products) = (m.nrows(), 0);
    let mut estimator = Estimator::<T>::new(n);
    let mut next = estimator.start(scale);
    while next != Next::Done {
        let t = block(n);
        let x = Mat::from_fn(n, t, |i, j| estimator.vectors()[i * t + j]);
        let y = if next == Next::Solve { m * x } else { m.adjoint() * x };
        (0..n * t).for_each(|e| estimator.vectors()[e] = y[(e / t, e % t)]);
        products += 1;
        next = estimator.advance();
    }
    (estimator.estimate(), products)
}

#[test]
fn the_first_vectors_have_signs_by_chance_after_two_that_are_given() {
    let (n, t) = (100, block(100));
    let mut estimator = Estimator::<f64>::new(n);
    estimator.start(1.0);
    let vectors = estimator.vectors();
    let signs: Vec<Vec<bool>> =
        (0..t).map(|j| vectors[j..].iter().step_by(t).map(|x| *x > 0.0).collect()).collect();
    for j in 2..t {
        let positive = signs[j].iter().filter(|x| **x).count();
        assert!((n / 4..=3 * n / 4).contains(&positive), "vector {j}: {positive} of {n}");
        assert!(!signs[..j].contains(&signs[j]), "vector {j} is one before it");
    }
}

fn estimates_are_near_the_norm_and_not_above<T: Scalar>() {
    let mut least = f64::INFINITY;
    for n in (1..20).chain([33, 64, 100]) {
        for seed in 1..8 {
            let a = random::<T>(n, n, seed * 77 + n as u64);
            for m in [inverse(&a), a] {
                let exact = norm1(&m);
                let (estimate, products) = estimated(&m, 1.0);
                let ratio = estimate / exact;
                let tolerance = 4.0 * n as f64 * unit::<T>();
                assert!(ratio <= 1.0 + tolerance && ratio >= 1.0 / 3.0, "n {n}: {ratio}");
                assert!(n > 4 || ratio >= 1.0 - tolerance, "n {n} exactly: {ratio}");
                assert!(products <= 11, "n {n}: {products} products");
                assert_eq!(estimated(&m, 1.0), (estimate, products), "the same in every run");
                let (scaled, _) = estimated(&m, 1024.0);
                assert!((scaled / 1024.0 - estimate).abs() <= tolerance * exact, "n {n} scaled");
                least = least.min(ratio);
            }
        }
    }
    assert!(least < 1.0 - 1e-6, "some norms are hard to find, or the test is too easy: {least}");
}

/// norm1 of these is a sum with cancellation for vectors of ones, and of few columns for signs.
fn structured_matrices<T: Scalar>() {
    let n = 60;
    let of =
        |f: &dyn Fn(usize, usize) -> f64| Mat::<T>::from_fn(n, n, |i, j| T::from_f64_impl(f(i, j)));
    for (what, m) in [
        ("identity", of(&|i, j| f64::from(u8::from(i == j)))),
        ("one column", of(&|_, j| f64::from(u8::from(j == 37)))),
        ("one entry", of(&|i, j| if (i, j) == (5, 41) { 1e3 } else { 0.0 })),
        ("opposite columns", of(&|i, j| if j % 2 == 0 { i as f64 } else { -(i as f64) })),
        ("alternating", of(&|i, j| if (i + j) % 2 == 0 { 1.0 } else { -1.0 })),
        ("decaying", of(&|i, j| 0.5f64.powi(i.abs_diff(j) as i32))),
    ] {
        let (estimate, exact) = (estimated(&m, 1.0).0, norm1(&m));
        assert!(estimate > exact / 1.5 && estimate < exact * 1.0001, "{what}: {estimate} {exact}");
    }
    let mut m = random::<T>(n, n, 4);
    m[(3, 4)] = T::from_f64_impl(f64::MAX);
    let overflown = m[(3, 4)] * T::from_f64_impl(1e30);
    m[(3, 4)] = overflown;
    assert_eq!(estimated(&m, 1.0).0, f64::INFINITY, "an overflow");
    m[(3, 4)] = T::NAN;
    assert_eq!(estimated(&m, 1.0).0, f64::INFINITY, "no number");
}

/// All workers with factors in shards: except for rounding, the estimate of one worker without
/// shards.
fn workers_agree<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        let a = random::<T>(n, n, 5 + n as u64);
        let mut memory = shards(&a, ranks);
        let distribution = Distribution::whole_columns((n, n), ranks, tile, Mapping::Block);
        let columns = distribution.columns();
        let widest = columns.widest();
        let m = matrix(&mut memory, &distribution);
        let (mut pivots, t) = (vec![0; n], block(n));
        let pivots = Cells::of(&mut pivots);
        let mut scratch = vec![T::NAN; (1 + workers) * n * t];
        let scratch = Cells::of(&mut scratch);
        let part = |i: usize| scratch.rows_from(i * n * t).by_rows(n, t);
        let estimator = Mutex::new(Estimator::<T>::new(n));
        estimator.lock().unwrap().start(1.0);
        on_workers::<T>(&Communicator::new(workers), widest, |worker| {
            factor(worker, &m, &shared(worker, pivots)).unwrap();
            let sums: Vec<_> = (0..workers).map(|l| part(1 + l)).collect();
            let (x, sums) = (part(0), each(worker, &sums));
            let mut own = (worker.worker() == 0).then(|| estimator.lock().unwrap());
            let xs = shared(worker, x);
            inverse_norm(worker, own.as_deref_mut(), &xs, |worker, op| {
                let (two, interchange) = sweeps(op);
                let first = worker.worker() == 0;
                if first && interchange == Interchange::Before {
                    worker.swap_rows(x, GlobalRow::new(0), pivots, false);
                }
                for (triangle, op) in two {
                    Triangular { a: &m, triangle, op }.solve_shared(worker, &xs, &sums)?;
                }
                worker.barrier()?;
                if first && interchange == Interchange::After {
                    worker.swap_rows(x, GlobalRow::new(0), pivots, true);
                }
                Ok(())
            })
            .unwrap();
        });
        let (estimate, exact) = (estimator.lock().unwrap().estimate(), norm1(&inverse(&a)));
        let ratio = estimate / exact;
        assert!((1.0 / 3.0..1.05).contains(&ratio), "n {n} workers {workers}: {ratio}");
    }
}

mod scalars {
    macro_rules! of {
        ($($name:ident $scalar:ty),*) => {$(
            #[test]
            fn $name() {
                super::estimates_are_near_the_norm_and_not_above::<$scalar>();
                super::structured_matrices::<$scalar>();
                super::workers_agree::<$scalar>();
            }
        )*};
    }
    of!(f32 f32, f64 f64, c64 faer::c32, c128 faer::c64);
}
