//! Inverses on CPU workers: from L U and from L L^H, for every storage and column order. They are
//! symmetric to the last bit where A is, and NaN where no inverse exists.

use crate::common::inverse::{ratio, reflection, shifted};
use crate::common::workers::{CASES, element, matrix, on_workers, shards, shared, staging};
use crate::common::{Random, for_all_scalars, positive_definite};
use faer::Mat;
use meshsolve::algorithms::redistribute::{Redistribution, redistribute_columns};
use meshsolve::algorithms::{cholesky, lu};
use meshsolve::comm::Communicator;
use meshsolve::layout::{Distribution, Mapping};
use meshsolve::matrix::Cells;
use meshsolve::scalar::{DType, Scalar};

/// Singular values from 1 down to a hundred roundoffs, geometrically; Hermitian if both seeds
/// agree.
fn ill_conditioned<T: Scalar>(n: usize, seeds: [u64; 2]) -> Mat<T> {
    let least: f64 = if T::DTYPE.real() == DType::F32 { 1e-5 } else { 1e-14 };
    let values = Mat::<T>::from_fn(n, n, |i, j| match i == j {
        true => T::from_f64_impl(least.powf(i as f64 / n as f64)),
        false => T::ZERO,
    });
    let [left, right] = seeds.map(|seed| reflection::<T>(n, seed));
    let a = left * values * right.adjoint();
    match seeds[0] == seeds[1] {
        // Rounding must not leave two different triangles.
        true => Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => T::conj_impl(&a[(j, i)]),
            std::cmp::Ordering::Equal => T::from_real_impl(&T::real_part_impl(&a[(i, i)])),
            std::cmp::Ordering::Greater => a[(i, j)],
        }),
        false => a,
    }
}

/// The inverse on workers; if `definite`, the upper triangle of the matrix is not read.
fn inverted<T: Scalar>(
    a: &Mat<T>,
    (ranks, tile, workers): (usize, usize, usize),
    mapping: Mapping,
    definite: bool,
) -> Mat<T> {
    let n = a.nrows();
    let read = |i, j| !definite || i >= j;
    let given = Mat::from_fn(n, n, |i, j| if read(i, j) { a[(i, j)] } else { T::NAN });
    let mut memory = shards(&given, ranks);
    let distribution = Distribution::whole_columns((n, n), ranks, tile, mapping);
    let columns = distribution.columns();
    let plan = Redistribution::new(&columns.source(), workers);
    let m = matrix(&mut memory, &distribution);
    let (lines, widest) = (plan.staging_lines(), columns.widest());
    let mut scratch = [workers * lines, widest].map(|cols| vec![T::NAN; (n + 1) * cols]);
    let [memory_of_lines, panel] = scratch.each_mut().map(|memory| Cells::of(memory));
    let panel = panel.by_columns(n, widest, n + 1);
    let mut pivots = vec![-1; n];
    let pivots = Cells::of(&mut pivots);
    let comm = Communicator::new(workers);
    on_workers::<T>(&comm, widest, |worker| {
        let lines = staging(worker, memory_of_lines, lines, n);
        redistribute_columns(worker, &m, &plan, &lines).unwrap();
        if definite {
            cholesky::factor(worker, &m).unwrap();
            cholesky::inverse(worker, &m, &shared(worker, panel)).unwrap();
        } else {
            lu::factor(worker, &m, &shared(worker, pivots)).unwrap();
            let panels = shared(worker, panel);
            lu::inverse(worker, &m, pivots, &panels, &panels).unwrap();
        }
    });
    assert_eq!(comm.info(), 0);
    Mat::from_fn(n, n, |i, j| element(&distribution, &memory, i, j))
}

fn is_hermitian<T: Scalar>(x: &Mat<T>) -> bool {
    let mut places = (0..x.ncols()).flat_map(|j| (j..x.nrows()).map(move |i| (i, j)));
    places.all(|(i, j)| x[(i, j)] == T::conj_impl(&x[(j, i)]))
}

fn inverses_from_factors<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        for mapping in [Mapping::Block, Mapping::BlockCyclic] {
            let name =
                format!("{} n={n} P={ranks} T={tile} L={workers} {mapping:?}", T::DTYPE.name());
            let seed = 7 + n as u64;
            let matrices = [
                (shifted::<T>(n, seed), false, 3.0),
                (ill_conditioned(n, [seed, seed + 1]), false, 30.0),
                (positive_definite(n, seed), true, 3.0),
                (ill_conditioned(n, [seed, seed]), true, 30.0),
            ];
            for (kind, (a, definite, limit)) in matrices.into_iter().enumerate() {
                let x = inverted(&a, (ranks, tile, workers), mapping, definite);
                let ratio = ratio(&a, &x);
                assert!(ratio <= limit, "{name} matrix {kind}: {ratio}");
                assert!(!definite || is_hermitian(&x), "{name} matrix {kind}: symmetry");
            }
        }
    }
}

/// Interchanges alone: the inverse of a permutation is its transpose, exactly.
fn inverses_of_permutations<T: Scalar>() {
    for (n, ranks, tile, workers) in CASES {
        for mapping in [Mapping::Block, Mapping::BlockCyclic] {
            let mut numbers = Random(5 + n as u64);
            let mut rows: Vec<usize> = (0..n).collect();
            for i in (1..n).rev() {
                rows.swap(i, ((numbers.next() + 1.0) / 2.0 * (i + 1) as f64) as usize);
            }
            let entry = |i: usize, j: usize| if rows[i] == j { T::ONE } else { T::ZERO };
            let a = Mat::<T>::from_fn(n, n, entry);
            let x = inverted(&a, (ranks, tile, workers), mapping, false);
            assert!(x == a.transpose().to_owned(), "n={n} P={ranks} L={workers} {mapping:?}");
        }
    }
}

for_all_scalars!(
    inverses_from_factors
    inverses_of_permutations
);

#[test]
fn of_nothing_it_is_nothing() {
    for definite in [false, true] {
        let x = inverted(&Mat::<f64>::zeros(0, 0), (2, 3, 2), Mapping::Block, definite);
        assert_eq!(x.nrows(), 0);
    }
}
