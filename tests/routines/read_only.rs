//! Routines that read the matrix in place, as call sites without XLA: trtrs and residual. They run
//! for every storage, triangle and operation, with NaN wherever nothing may be read.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{Map, buffer, int_scalar, random, ratio, residual};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

fn applied<T: Scalar>(trans: i64, a: &Mat<T>) -> Mat<T> {
    match trans {
        0 => a.clone(),
        1 => a.transpose().to_owned(),
        _ => a.adjoint().to_owned(),
    }
}

fn row_major<T: Scalar>(m: &Mat<T>) -> Vec<T> {
    let (rows, cols) = (m.nrows(), m.ncols());
    (0..rows * cols).map(|e| m[(e / cols, e % cols)]).collect()
}

fn one_triangle<T: Scalar>(a: &Mat<T>, lower: bool, other: T) -> Mat<T> {
    Mat::from_fn(
        a.nrows(),
        a.ncols(),
        |i, j| {
            if i == j || (i > j) == lower { a[(i, j)] } else { other }
        },
    )
}

/// Runs a routine with one or many right-hand sides (equal on all ranks) and returns its results.
fn run<T: Scalar>(
    case: &Case,
    routine: &str,
    attributes: impl Fn(Map) -> Map,
    a: &Mat<T>,
    operands: &[&Mat<T>],
    info: &mut [i32],
) -> Vec<Mat<T>> {
    let Case { n, ranks, .. } = *case;
    let k = operands[0].ncols();
    let kept = case.shards(a);
    let mut made = Vec::new();
    for spread in ["replicated", "columns"] {
        let mut shards = case.shards(a);
        let mut given: Vec<Vec<Vec<T>>> =
            (0..ranks).map(|_| operands.iter().map(|m| row_major(m)).collect()).collect();
        let mut xs = vec![vec![T::NAN; n * k]; ranks];
        let map = attributes(case.map(routine).text("rhs", spread));
        case.run_with(map, |r| {
            let mut args = vec![buffer(&mut shards[r], &case.dims().0)];
            args.extend(given[r].iter_mut().map(|m| buffer(m, &[n, k])));
            let mut rets = vec![buffer(&mut xs[r], &[n, k])];
            if routine == "trtrs" {
                rets.push(int_scalar(&mut info[r]));
            }
            call(r, args, rets)
        });
        let same = |x: &T, y: &T| x == y || T::is_nan_impl(x) && T::is_nan_impl(y);
        let untouched = shards.iter().flatten().zip(kept.iter().flatten());
        assert!(untouched.clone().all(|(x, y)| same(x, y)), "{case:?}: only read");
        made.extend(xs.iter().map(|x| Mat::from_fn(n, k, |i, j| x[i * k + j])));
    }
    made
}

pub fn triangular_systems<T: Scalar>(at: Place) {
    for case in cases(at).flat_map(|case| (0..3).map(move |trans| Case { trans, ..case })) {
        let n = case.n;
        let mut a = random::<T>(n, n, 5 + n as u64);
        (0..n).for_each(|i| a[(i, i)] += T::from_f64_impl(3.0));
        let b = random::<T>(n, 2, 7);
        for unit in [false, true] {
            let mut given = one_triangle(&a, case.lower, T::NAN);
            let mut t = one_triangle(&a, case.lower, T::ZERO);
            if unit {
                (0..n).for_each(|i| (given[(i, i)], t[(i, i)]) = (T::NAN, T::ONE));
            }
            let attributes = |map: Map| map.int("unit_diagonal", unit.into());
            let mut info = vec![-1; case.ranks];
            for x in run(&case, "trtrs", attributes, &given, &[&b], &mut info) {
                let residual = residual(&applied(case.trans, &t), &x, &b);
                assert!(residual < 3.0, "{case:?} unit={unit} {}: {residual}", T::DTYPE.name());
            }
            assert!(info.iter().all(|&i| i == 0));
        }
        if n > 1 {
            a[(n / 2, n / 2)] = T::ZERO;
            let mut info = vec![-1; case.ranks];
            for x in run(&case, "trtrs", |map| map, &a, &[&b], &mut info) {
                assert!((0..n).all(|i| T::is_nan_impl(&x[(i, 1)])), "{case:?}");
            }
            assert!(info.iter().all(|&i| i == n as i32 / 2 + 1), "{case:?} {info:?}");
        }
    }
}

pub fn residuals<T: Scalar>(at: Place) {
    for case in cases(at).flat_map(|case| (0..3).map(move |trans| Case { trans, ..case })) {
        residuals_of::<T>(&case, 3);
    }
}

/// On CPU devices products of so many columns pack both factors in the worker's scratch.
pub fn residuals_of_many_columns<T: Scalar>(at: Place) {
    let (n, columns) = if at.is_some() { (20, 9) } else { (384, 96) };
    for (lower, trans) in
        [false, true].into_iter().flat_map(|lower| (0..3).map(move |t| (lower, t)))
    {
        let storage = Storage::ALL[trans as usize % Storage::ALL.len()];
        let order = "natural";
        residuals_of::<T>(&Case { n, ranks: 1, storage, lower, trans, order, at }, columns);
    }
}

fn residuals_of<T: Scalar>(case: &Case, columns: usize) {
    let n = case.n;
    let a = random::<T>(n, n, 5 + n as u64);
    let (b, x) = (random::<T>(n, columns, 7), random::<T>(n, columns, 8));
    for structure in ["general", "hermitian", "symmetric", "triangular"] {
        let mirrored = |i: usize, j: usize| {
            let x = a[(j, i)];
            if structure == "hermitian" { T::conj_impl(&x) } else { x }
        };
        let whole = Mat::<T>::from_fn(n, n, |i, j| match structure {
            "general" => a[(i, j)],
            "hermitian" if i == j => T::from_real_impl(&T::real_part_impl(&a[(i, i)])),
            _ if i == j || (i > j) == case.lower => a[(i, j)],
            "triangular" => T::ZERO,
            _ => mirrored(i, j),
        });
        let given = match structure {
            "general" => a.clone(),
            // The diagonal has imaginary parts, which must not be read.
            _ => one_triangle(&a, case.lower, T::NAN),
        };
        let expected = &b - &applied(case.trans, &whole) * &x;
        let attributes = |map: Map| map.text("structure", structure);
        for r in run(case, "residual", attributes, &given, &[&b, &x], &mut []) {
            let name = format!("{case:?} {structure} {}", T::DTYPE.name());
            assert!(ratio(&r, &expected) < 20.0, "{name}");
        }
    }
}
