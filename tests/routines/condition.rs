//! Norms and condition estimates as routines of call sites, for every storage, triangle and
//! distribution.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{Random, buffer, int_scalar, int_vector, positive_definite, random};
use crate::common::{real_scalar, real_value, unit};
use faer::Mat;
use faer::linalg::solvers::DenseSolveCore;
use meshsolve::scalar::Scalar;

fn norm1<T: Scalar>(a: &Mat<T>) -> f64 {
    let sum = |j: usize| (0..a.nrows()).map(|i| a[(i, j)].modulus()).sum::<f64>();
    (0..a.ncols()).map(sum).fold(0.0, f64::max)
}

fn inverse<T: Scalar>(a: &Mat<T>) -> Mat<T> {
    a.partial_piv_lu().inverse()
}

/// Rank 0's number; all ranks must have the same.
fn agreed<T: Scalar>(numbers: &[f64]) -> f64 {
    let values: Vec<_> = numbers.iter().map(real_value::<T>).collect();
    assert!(values.iter().all(|v| v.to_bits() == values[0].to_bits()), "{values:?}");
    values[0]
}

/// (norm1, rcond of the factor, rcond of the solve) by the LU routines.
fn by_lu<T: Scalar>(case: Case, a: &Mat<T>) -> (f64, f64, f64) {
    let Case { n, ranks, .. } = case;
    let (dims, factor_dims) = case.dims();
    let (mut work, mut pivots) = (case.shards(a), vec![vec![0; n]; ranks]);
    let (mut infos, mut norms, mut rconds) =
        (vec![-1; ranks], vec![-1.0; ranks], vec![-1.0; ranks]);
    case.run("getrf", |r| {
        let w = buffer(&mut work[r], &dims);
        let norm = real_scalar::<T>(&mut norms[r]);
        let rets = vec![w.clone(), int_vector(&mut pivots[r]), int_scalar(&mut infos[r]), norm];
        call(r, vec![w], rets)
    });
    case.run("gecon", |r| {
        let norm = real_scalar::<T>(&mut norms[r]);
        let work = buffer(&mut work[r], &factor_dims);
        let args = vec![work, int_vector(&mut pivots[r]), int_scalar(&mut infos[r]), norm];
        call(r, args, vec![real_scalar::<T>(&mut rconds[r])])
    });
    (agreed::<T>(&norms), agreed::<T>(&rconds), of_solve("gesv_rcond", case, a))
}

fn of_solve<T: Scalar>(routine: &str, case: Case, a: &Mat<T>) -> f64 {
    let Case { n, ranks, .. } = case;
    let (mut work, mut xs) = (case.shards(a), vec![vec![T::ONE; n]; ranks]);
    let (mut infos, mut rconds) = (vec![-1; ranks], vec![-1.0; ranks]);
    case.run(routine, |r| {
        let (w, x) = (buffer(&mut work[r], &case.dims().0), buffer(&mut xs[r], &[n, 1]));
        let rcond = real_scalar::<T>(&mut rconds[r]);
        call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r]), rcond])
    });
    agreed::<T>(&rconds)
}

/// The same by the Cholesky routines; the triangle that must not be read is NaN.
fn by_cholesky<T: Scalar>(case: Case, a: &Mat<T>) -> (f64, f64, f64) {
    let Case { n, ranks, lower, .. } = case;
    let given = Mat::from_fn(n, n, |i, j| {
        let read = if lower { i >= j } else { i <= j };
        if read { a[(i, j)] } else { T::NAN }
    });
    let (dims, factor_dims) = case.dims();
    let mut work = case.shards(&given);
    let (mut infos, mut norms, mut rconds) =
        (vec![-1; ranks], vec![-1.0; ranks], vec![-1.0; ranks]);
    case.run("potrf", |r| {
        let w = buffer(&mut work[r], &dims);
        let norm = real_scalar::<T>(&mut norms[r]);
        call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[r]), norm])
    });
    case.run("pocon", |r| {
        let norm = real_scalar::<T>(&mut norms[r]);
        let args = vec![buffer(&mut work[r], &factor_dims), int_scalar(&mut infos[r]), norm];
        call(r, args, vec![real_scalar::<T>(&mut rconds[r])])
    });
    (agreed::<T>(&norms), agreed::<T>(&rconds), of_solve("posv_rcond", case, &given))
}

/// I except for column j; so is the inverse. Only a product with A^-H finds the large column.
fn one_column<T: Scalar>(n: usize, j: usize) -> Mat<T> {
    Mat::from_fn(n, n, |i, k| match (i == k, k == j) {
        (true, _) => T::ONE,
        (_, true) => T::from_f64_impl(if i % 2 == 0 { 10.0 } else { -10.0 }),
        _ => T::ZERO,
    })
}

pub fn conditions_in_every_storage<T: Scalar>(at: Place) {
    let larger = [("natural", false), ("cyclic", true)].map(|(order, lower)| Case {
        n: 96,
        ranks: 4,
        order,
        lower,
        ..cases(at).next().unwrap()
    });
    // These take many steps, which are slow on an emulated device.
    let larger = larger.into_iter().filter(|_| at.is_none());
    for case in cases(at).chain(larger) {
        let n = case.n;
        // Columns and rows of different sizes: norm1 is not the norm of the transpose.
        let mut a = random::<T>(n, n, 17 + n as u64);
        (0..n).for_each(|j| a[(n / 2, j)] *= T::from_f64_impl(9.0));
        let check = |(norm, of_factor, of_solve): (f64, f64, f64), a: &Mat<T>| {
            let name = format!("{case:?} {}", T::DTYPE.name());
            let tolerance = 4.0 * (n + 1) as f64 * unit::<T>();
            assert!((norm / norm1(a) - 1.0).abs() < tolerance, "{name}: norm {norm}");
            let exact = 1.0 / (norm1(a) * norm1(&inverse(a)));
            for rcond in [of_factor, of_solve] {
                let ratio = rcond / exact;
                assert!((0.98..3.0).contains(&ratio), "{name}: {ratio}");
            }
        };
        if !case.lower {
            check(by_lu(case, &a), &a);
            if n > 20 {
                let a = one_column(n, n - 3);
                check(by_lu(case, &a), &a);
            }
        }
        let a = positive_definite::<T>(n, 3 + n as u64);
        check(by_cholesky(case, &a), &a);
    }
}

pub fn what_is_singular_or_no_number(at: Place) {
    let n = 12;
    for case in cases(at).filter(|c| c.n == n && !c.lower) {
        let mut a = random::<f64>(n, n, 5);
        let norm = norm1(&a);
        (0..n).for_each(|i| a[(i, 7)] = 0.0);
        let (zero, of_factor, of_solve) = by_lu(case, &a);
        assert!(zero <= norm && zero > 0.0, "{case:?}");
        assert_eq!((of_factor, of_solve), (0.0, 0.0), "{case:?}: singular");
        for value in [f64::NAN, f64::INFINITY] {
            a[(3, 7)] = value;
            let (norm, of_factor, of_solve) = by_lu(case, &a);
            let all = [norm, of_factor, of_solve];
            assert!(all.iter().all(|x| x.is_nan()), "{case:?} {value}: {all:?}");
        }
        let mut a = positive_definite::<f64>(n, 5);
        a[(8, 8)] = -a[(8, 8)];
        let (norm, of_factor, of_solve) = by_cholesky(case, &a);
        assert!((norm / norm1(&a) - 1.0).abs() < 1e-14, "{case:?}: not positive definite");
        assert_eq!((of_factor, of_solve), (0.0, 0.0), "{case:?}: not positive definite");
        a[(8, 8)] = f64::NAN;
        let (norm, of_factor, of_solve) = by_cholesky(case, &a);
        assert!(norm.is_nan() && of_factor.is_nan() && of_solve.is_nan(), "{case:?}");
    }
}

pub fn moduli_at_the_ends_of_the_range(at: Place) {
    // Squares of these overflow and underflow; the diagonal counts as real.
    let n = 6;
    for scale in [1e-300, 1e-160, 1e160, 1e300] {
        let mut random = Random(7);
        let unit_scale = Mat::<faer::c64>::from_fn(n, n, |_, _| random.scalar());
        let a = Mat::from_fn(n, n, |i, j| unit_scale[(i, j)] * faer::c64::new(scale, 0.0));
        for case in cases(at).filter(|c| c.n == n) {
            let (norm, rcond, _) = by_lu(case, &a);
            assert!((norm / (scale * norm1(&unit_scale)) - 1.0).abs() < 1e-14, "{case:?} {scale}");
            let exact = 1.0 / (norm1(&unit_scale) * norm1(&inverse(&unit_scale)));
            assert!((0.99..3.0).contains(&(rcond / exact)), "{case:?} {scale}");
        }
    }
}
