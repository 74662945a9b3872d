//! LU with partial pivoting on host lanes, without call sites: panels, factors, all four solves, and
//! LAPACK's rules for pivots that are zero or no number.

mod common;

use common::lanes::{CASES, element, matrix, on_lanes, shards};
use common::{Random, for_all_scalars, random, ratio, residual};
use faer::Mat;
use meshsolve::backend::host::{HostLane, Team};
use meshsolve::backend::{Backend, Op};
use meshsolve::dist::lu::{Interchange, factor, sweeps};
use meshsolve::dist::redistribute::{Plan, redistribute};
use meshsolve::dist::triangular::Triangular;
use meshsolve::layout::{Columns, Order};
use meshsolve::matrix::Block;
use meshsolve::scalar::Scalar;

fn vector(pivots: &mut [i32]) -> Block<i32> {
    Block::column_major(pivots.as_mut_ptr(), pivots.len(), 1, pivots.len())
}

/// The textbook's algorithm with LAPACK's rules: LU in place, pivots, first zero pivot.
fn reference<T: Scalar>(a: &mut Mat<T>) -> (Vec<usize>, Option<usize>) {
    let (m, n) = (a.nrows(), a.ncols());
    let (mut pivots, mut zero) = (Vec::new(), None);
    for k in 0..n {
        let mut p = k;
        for i in k..m {
            if a[(i, k)].magnitude() > a[(p, k)].magnitude() {
                p = i;
            }
        }
        pivots.push(p);
        if a[(p, k)] == T::ZERO {
            zero = zero.or(Some(k));
            continue;
        }
        for j in 0..n {
            (a[(k, j)], a[(p, j)]) = (a[(p, j)], a[(k, j)]);
        }
        for i in k + 1..m {
            a[(i, k)] = a[(i, k)].divided_by(a[(k, k)]);
            for j in k + 1..n {
                let product = a[(i, k)] * a[(k, j)];
                a[(i, j)] += -product;
            }
        }
    }
    (pivots, zero)
}

/// L U with the rows of A, interchanged back.
fn rebuilt<T: Scalar>(lu: &Mat<T>, pivots: &[i32]) -> Mat<T> {
    let (m, n) = (lu.nrows(), lu.ncols());
    let l = Mat::<T>::from_fn(m, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => lu[(i, j)],
    });
    let u = Mat::<T>::from_fn(n, n, |i, j| if i <= j { lu[(i, j)] } else { T::ZERO });
    let mut a = l * u;
    for (i, &p) in pivots.iter().enumerate().rev() {
        for j in 0..n {
            (a[(i, j)], a[(p as usize, j)]) = (a[(p as usize, j)], a[(i, j)]);
        }
    }
    a
}

/// Factors a panel on one lane: LU, pivots, first zero pivot.
fn panel<T: Scalar>(a: &Mat<T>) -> (Mat<T>, Vec<i32>, Option<usize>) {
    let (m, n) = (a.nrows(), a.ncols());
    let mut memory: Vec<T> = (0..m * n).map(|e| a[(e % m, e / m)]).collect();
    let mut pivots = vec![-1; n];
    let mut nothing: [T; 0] = [];
    let team = Team::new(1);
    let pack = Block::column_major(nothing.as_mut_ptr(), 0, 1, 1);
    let mut lane = HostLane::new(&team, 0, 0, pack);
    let block = Block::column_major(memory.as_mut_ptr(), m, n, m);
    let zero = lane.getrf(block, 10, vector(&mut pivots));
    pivots.iter_mut().for_each(|p| *p -= 10);
    (Mat::from_fn(m, n, |i, j| memory[j * m + i]), pivots, zero)
}

fn panels_have_the_pivots_of_the_textbook<T: Scalar>() {
    for (m, n) in [(1, 1), (2, 1), (8, 8), (9, 9), (17, 3), (40, 16), (300, 24), (1000, 70)] {
        let name = format!("{} {m} x {n}", T::DTYPE.name());
        let a = random::<T>(m, n, 7 + (m * n) as u64);
        let (lu, pivots, zero) = panel(&a);
        let (expected, _) = reference(&mut a.clone());
        assert!(pivots.iter().zip(&expected).all(|(p, e)| *p as usize == *e), "{name}: pivots");
        assert_eq!(zero, None, "{name}");
        assert!(ratio(&rebuilt(&lu, &pivots), &a) < 1.0, "{name}: P^T L U is A");
    }
}

fn equal_candidates_give_the_first<T: Scalar>() {
    // All of one size, and of both signs: every column of the first strip ties.
    for m in [2, 15, 16, 17, 255, 256, 257, 600] {
        let a = Mat::<T>::from_fn(m, 1, |i, _| if i % 3 == 0 { -T::ONE } else { T::ONE });
        assert_eq!(panel(&a).1, [0], "{m} rows");
        let late =
            Mat::<T>::from_fn(m, 1, |i, _| T::from_f64_impl(if i + 2 >= m { -2.0 } else { 1.0 }));
        assert_eq!(panel(&late).1, [m as i32 - 2], "{m} rows");
    }
}

fn zero_pivots_are_noted_and_passed_over<T: Scalar>() {
    for (n, singular) in [(3, 0), (5, 3), (16, 0), (16, 15), (40, 8), (40, 20)] {
        let mut a = random::<T>(n + 3, n, 3 + n as u64);
        (0..n + 3).for_each(|i| a[(i, singular)] = T::ZERO);
        let (lu, pivots, zero) = panel(&a);
        assert_eq!(zero, Some(singular), "column {singular} of {n}");
        assert_eq!(pivots[singular], singular as i32, "nothing is interchanged for it");
        assert!(ratio(&rebuilt(&lu, &pivots), &a) < 3.0, "column {singular} of {n}");
    }
}

fn no_number_is_a_pivot_only_in_the_first_place<T: Scalar>() {
    let mut a = Mat::<T>::from_fn(20, 1, |i, _| T::from_f64_impl(i as f64 - 7.0));
    a[(3, 0)] = T::NAN;
    assert_eq!(panel(&a).1, [19]);
    a[(0, 0)] = T::NAN;
    assert_eq!(panel(&a).1, [0]);
}

fn extreme_pivots_do_not_overflow<T: Scalar>() {
    let single = size_of::<T::Real>() == 4;
    let (huge, subnormal) = if single { (1.5e38, 1e-40) } else { (8e307, 1e-310) };
    // The reciprocals of these pivots are subnormal and infinite, the quotients are harmless.
    for (size, bound) in [(huge, 2.0), (subnormal, if single { 2e3 } else { 10.0 })] {
        let a = random::<T>(30, 1, 5);
        let scaled = Mat::<T>::from_fn(30, 1, |i, _| a[(i, 0)] * T::from_f64_impl(size));
        let ((lu, pivots, _), (expected, places, _)) = (panel(&scaled), panel(&a));
        assert_eq!(pivots, places);
        let l = |m: &Mat<T>| Mat::<T>::from_fn(29, 1, |i, _| m[(i + 1, 0)]);
        assert!(ratio(&l(&lu), &l(&expected)) < bound, "{}: L at {size:e}", T::DTYPE.name());
    }
}

fn factors_and_solves<T: Scalar>() {
    for (n, ranks, tile, lanes) in CASES {
        for order in [Order::Natural, Order::Cyclic] {
            one_factorisation::<T>(n, ranks, tile, lanes, order);
        }
    }
}

fn one_factorisation<T: Scalar>(n: usize, ranks: usize, tile: usize, lanes: usize, order: Order) {
    let name = format!("{} n={n} P={ranks} T={tile} L={lanes} {order:?}", T::DTYPE.name());
    let mut a = random::<T>(n, n, 11 + n as u64);
    (0..n).for_each(|i| a[(i, i)] += T::from_f64_impl(0.5));
    let mut memory = shards(&a, ranks);
    let columns = Columns::new(n, ranks, tile, order);
    let plan = Plan::new(&columns.source(), lanes);
    let m = matrix(&mut memory, columns);
    let mut staging = vec![T::ZERO; plan.staging_columns() * n];
    let staging = Block::column_major(staging.as_mut_ptr(), n, plan.staging_columns(), n);
    let mut pivots = vec![-1; n];
    let rows = vector(&mut pivots);

    let rhs = 3;
    let mut numbers = Random(99);
    let b = Mat::<T>::from_fn(n, rhs, |_, _| numbers.scalar());
    let ops = [Op::None, Op::Conjugate, Op::Transpose, Op::Adjoint];
    let row_major: Vec<T> = (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
    let mut xs = vec![row_major; 2 * ops.len()];
    let blocks: Vec<_> =
        xs.iter_mut().map(|x| Block::row_major(x.as_mut_ptr(), n, rhs, rhs)).collect();
    let mut sums = vec![T::NAN; lanes * n * rhs];
    let sums: Vec<_> =
        (sums.chunks_mut(n * rhs)).map(|s| Block::row_major(s.as_mut_ptr(), n, rhs, rhs)).collect();

    let team = Team::new(lanes);
    on_lanes::<T>(&team, m.columns.widest(), |lane| {
        redistribute(lane, &m, &plan, staging).unwrap();
        factor(lane, &m, rows).unwrap();
        for (i, op) in ops.into_iter().enumerate() {
            let (sweeps, interchange) = sweeps(op);
            let sweeps = sweeps.map(|(triangle, op)| Triangular { a: &m, triangle, op });
            let (together, alone) = (blocks[2 * i], blocks[2 * i + 1]);
            let first = Backend::<T>::lane(lane) == 0;
            if first && interchange == Interchange::Before {
                lane.swap_rows(together, 0, rows, false);
                lane.swap_rows(alone, 0, rows, false);
            }
            for (done, sweep) in sweeps.iter().enumerate() {
                sweep.solve_shared(lane, together, &sums, 2 * i + done).unwrap();
            }
            Backend::<T>::barrier(lane).unwrap();
            if first {
                sweeps.iter().for_each(|sweep| sweep.solve_columns(lane, alone));
            }
            if first && interchange == Interchange::After {
                lane.swap_rows(together, 0, rows, true);
                lane.swap_rows(alone, 0, rows, true);
            }
        }
    });

    assert_eq!(team.info(), 0, "{name}");
    let lu = Mat::<T>::from_fn(n, n, |i, j| element(&m, &memory, i, j));
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

fn the_first_zero_pivot_is_reported_and_nobody_stops<T: Scalar>() {
    for (singular, lanes) in [(0, 2), (13, 3), (39, 2), (20, 1)] {
        let n = 40;
        let mut a = random::<T>(n, n, 5);
        for i in 0..n {
            a[(i, singular)] = T::ZERO;
            a[(i, 39)] = T::ZERO;
        }
        let mut memory = shards(&a, 4);
        let m = matrix(&mut memory, Columns::new(n, 4, 4, Order::Natural));
        let mut pivots = vec![-1; n];
        let rows = vector(&mut pivots);
        let team = Team::new(lanes);
        on_lanes::<T>(&team, 4, |lane| factor(lane, &m, rows).unwrap());
        assert_eq!(team.info(), singular + 1);
        let lu = Mat::<T>::from_fn(n, n, |i, j| element(&m, &memory, i, j));
        assert!(ratio(&rebuilt(&lu, &pivots), &a) < 3.0, "column {singular}, {lanes} lanes");
    }
}

for_all_scalars!(
    panels_have_the_pivots_of_the_textbook
    equal_candidates_give_the_first
    zero_pivots_are_noted_and_passed_over
    no_number_is_a_pivot_only_in_the_first_place
    extreme_pivots_do_not_overflow
    factors_and_solves
    the_first_zero_pivot_is_reported_and_nobody_stops
);
