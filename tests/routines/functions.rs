//! `hermitian_function` as call sites: every function, storage, order and place, padded matrices, those
//! without a value.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{at as array, buffer, int_scalar, real_operand, unit};
use faer::{Mat, Side, c64};
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

use super::eigen::half;
use super::eigenvectors::{largest, whole, wide};

type Function = fn(f64) -> f64;

const FUNCTIONS: [(&str, Function); 5] = [
    ("sqrt", f64::sqrt),
    ("log", f64::ln),
    ("exp", f64::exp),
    ("inverse_sqrt", |x| 1.0 / x.sqrt()),
    ("inverse", |x| 1.0 / x),
];

/// What a call gives: X in double precision, and info.
fn answer<T: Scalar>(
    case: Case,
    (tile, order_of_a): (i64, usize),
    function: &str,
    tolerance: f64,
    a: &Mat<T>,
) -> (Mat<c64>, i32) {
    let (mut shards, mut infos) = (case.shards(a), vec![-1; case.ranks]);
    let mut answers = shards.clone();
    let mut vectors = shards.clone();
    let mut values = vec![vec![0.0f64; case.n]; case.ranks];
    let mut number = real_operand::<T>(tolerance);
    let map = case.map("hermitian_function").text("function", function);
    let map = map.int("tile", tile).int("order_of_a", order_of_a as i64);
    let dims = case.dims();
    case.run_with(map, |r| {
        let real = T::DTYPE.real();
        let tolerance = array(number.as_mut_ptr(), real, &[]);
        let (x, v) = (buffer(&mut answers[r], &dims.0), buffer(&mut vectors[r], &dims.0));
        let w = array(values[r].as_mut_ptr(), real, &[case.n]);
        let given = vec![buffer(&mut shards[r], &dims.0), tolerance];
        call(r, given, vec![x, v, w, int_scalar(&mut infos[r])])
    });
    assert!(infos.iter().all(|info| *info == infos[0]), "{case:?}: {infos:?}");
    let x = case.gathered(&answers);
    (Mat::from_fn(case.n, case.n, |i, j| wide(x[(i, j)])), infos[0])
}

/// The same by faer.
fn expected(a: &Mat<c64>, function: impl Fn(f64) -> f64) -> Mat<c64> {
    let found = a.self_adjoint_eigen(Side::Lower).unwrap();
    let (v, w) = (found.U(), found.S());
    let scaled = Mat::from_fn(a.nrows(), a.ncols(), |i, j| v[(i, j)] * function(w[j].re));
    &scaled * v.adjoint()
}

fn check(x: &Mat<c64>, expected: &Mat<c64>, order: usize, bar: f64, what: &str) {
    let part = x.submatrix(0, 0, order, order);
    let error = largest(&(part - expected)) / largest(expected);
    assert!(error <= bar, "{what}: {error:e}");
    for (i, j) in (0..x.nrows()).flat_map(|i| (0..x.ncols()).map(move |j| (i, j))) {
        assert_eq!(x[(i, j)], x[(j, i)].conj(), "{what}: Hermitian to the last bit");
        let is_padding = i >= order || j >= order;
        assert!(!is_padding || x[(i, j)] == c64::new(0.0, 0.0), "{what}: zeros at {i}, {j}");
    }
}

/// A matrix with eigenvalues on both sides of 1.
fn positive<T: Scalar>(n: usize, lower: bool) -> Mat<T> {
    let mut a = half::<T>(n, lower, 3);
    let size = 2.0 / largest(&whole(&a, n, lower));
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let (re, im) = a[(i, j)].parts();
        a[(i, j)] = T::of_parts(0.45 * size * re, 0.45 * size * im);
    }
    (0..n).for_each(|i| a[(i, i)] += T::ONE);
    a
}

/// The cases take functions in turn.
pub fn functions_in_every_storage<T: Scalar>(at: Place) {
    for (index, case) in cases(at).enumerate() {
        let a = positive::<T>(case.n, case.lower);
        let (name, function) = FUNCTIONS[index % FUNCTIONS.len()];
        for order in [case.n, case.n.div_ceil(2)] {
            let corner = if order < case.n { order } else { 0 };
            let (x, info) = answer(case, (3, corner), name, 0.0, &a);
            let what = format!("{name} {} {case:?}, order {order}", T::DTYPE.name());
            assert_eq!(info, 0, "{what}");
            let expected = expected(&whole(&a, order, case.lower), function);
            check(&x, &expected, order, 100.0 * order as f64 * unit::<T>(), &what);
        }
    }
}

/// Several panels, with values of both signs, and eigenvalues that count as zero.
pub fn functions_of_larger_matrices<T: Scalar>(at: Place) {
    let (n, ranks) = if at.is_some() { (10, 2) } else { (258, 2) };
    for (storage, lower) in [(Storage::ALL[0], true), (Storage::ALL[2], false)] {
        let case = Case { n, ranks, storage, lower, trans: 0, order: "auto", at };
        let a = half::<T>(n, lower, 5);
        let what = format!("{} {case:?}", T::DTYPE.name());
        let (x, info) = answer(case, (0, 0), "inverse", 0.25, &a);
        assert_eq!(info, 0, "{what}");
        let a = whole(&a, n, lower);
        let values = a.self_adjoint_eigenvalues(Side::Lower).unwrap();
        let zero = 0.25 * values.iter().fold(0.0, |most, x| f64::max(most, x.abs()));
        assert!(values.iter().any(|x| x.abs() <= zero) && values[0] < -zero, "of all kinds");
        let inverse = |x: f64| if x.abs() <= zero { 0.0 } else { 1.0 / x };
        check(&x, &expected(&a, inverse), n, 100.0 * n as f64 * unit::<T>(), &what);
    }
}

pub fn functions_without_a_value(at: Place) {
    let (n, ranks) = if at.is_some() { (8, 2) } else { (12, 3) };
    let case =
        Case { n, ranks, storage: Storage::ALL[0], lower: true, trans: 0, order: "auto", at };
    let diagonal = |values: &[f64]| Mat::from_fn(n, n, |i, j| if i == j { values[i] } else { 0.0 });
    let mut values: Vec<f64> = (1..=n).map(|i| i as f64).collect();
    (values[0], values[1]) = (-1.0, -1e-12);
    let a = diagonal(&values);
    for (name, missing) in [("sqrt", 1), ("log", 2), ("inverse_sqrt", 2)] {
        let (x, info) = answer(case, (3, 0), name, 1e-10, &a);
        assert_eq!(info, missing, "{name}");
        assert!((0..n * n).all(|k| x[(k / n, k % n)].re.is_nan()), "{name}");
    }
    values[0] = 1.0;
    let (x, info) = answer(case, (3, 0), "sqrt", 1e-10, &diagonal(&values));
    assert!(info == 0 && x[(1, 1)] == c64::new(0.0, 0.0), "up to the tolerance: {info}");
    (values[2], values[3]) = (800.0, 900.0);
    let (x, info) = answer(case, (3, 0), "exp", 0.0, &diagonal(&values));
    assert!(info == 2 && x[(0, 0)].re.is_nan(), "too large: {info}");
    let (x, info) = answer(case, (3, 0), "exp", 0.0, &diagonal(&vec![f64::NAN; n]));
    assert!(info as usize == n + 1 && x[(0, 0)].re.is_nan(), "no number: {info}");
}
