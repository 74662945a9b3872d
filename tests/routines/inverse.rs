//! Inverses as call sites: from L U and from L L^H, for every storage and distribution. They are
//! symmetric to the last bit where A is, and NaN where no inverse exists.

use crate::common::case::{Case, Place, call, cases};
use crate::common::inverse::{ratio, shifted};
use crate::common::{buffer, int_scalar, int_vector, positive_definite, random, real_scalar};
use faer::Mat;
use meshsolve::scalar::Scalar;

fn is_hermitian<T: Scalar>(x: &Mat<T>) -> bool {
    let mut places = (0..x.ncols()).flat_map(|j| (j..x.nrows()).map(move |i| (i, j)));
    places.all(|(i, j)| x[(i, j)] == T::conj_impl(&x[(j, i)]))
}

/// The general routines: in one call in place, and from a factor, which must stay unchanged.
fn general<T: Scalar>(case: Case, a: &Mat<T>) -> (Mat<T>, Mat<T>, Vec<i32>) {
    let Case { n, ranks, .. } = case;
    let (dims, factor_dims) = case.dims();
    let (mut work, mut infos) = (case.shards(a), vec![-1; ranks]);
    case.run("lu_inverse", |r| {
        let w = buffer(&mut work[r], &dims);
        call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[r])])
    });
    let at_once = case.gathered(&work);

    let (mut work, mut pivots) = (case.shards(a), vec![vec![-1; n]; ranks]);
    let mut norms = vec![0.0; ranks];
    case.run("getrf", |r| {
        let (w, norm) = (buffer(&mut work[r], &dims), real_scalar::<T>(&mut norms[r]));
        call(
            r,
            vec![w.clone()],
            vec![w, int_vector(&mut pivots[r]), int_scalar(&mut infos[r]), norm],
        )
    });
    let (kept, mut inverse) = (work.clone(), vec![vec![T::ONE; n * n / ranks]; ranks]);
    case.run("getri", |r| {
        let w = buffer(&mut work[r], &factor_dims);
        let args = vec![w, int_vector(&mut pivots[r]), int_scalar(&mut infos[r])];
        call(r, args, vec![buffer(&mut inverse[r], &factor_dims)])
    });
    // As text, because NaN differs from NaN.
    let text = |m: &Vec<Vec<T>>| format!("{m:?}");
    assert!(text(&kept) == text(&work), "{case:?}: the factor");
    let of_factor = case.gathered(&inverse);
    case.run("getri_transposed", |r| {
        let w = buffer(&mut work[r], &factor_dims);
        let args = vec![w, int_vector(&mut pivots[r]), int_scalar(&mut infos[r])];
        call(r, args, vec![buffer(&mut inverse[r], &factor_dims)])
    });
    let again = case.gathered(&inverse);
    let moved = case.storage.0 == "rows";
    let is_nan = |x: T| x.magnitude().is_nan();
    let same = |x: T, y: T| x == y || (is_nan(x) && is_nan(y));
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let at = if moved { (j, i) } else { (i, j) };
        assert!(same(again[at], of_factor[(i, j)]), "{case:?}: transposed");
    }
    (at_once, of_factor, infos)
}

/// The same with one triangle of a positive definite matrix.
fn definite<T: Scalar>(case: Case, a: &Mat<T>) -> (Mat<T>, Mat<T>, Vec<i32>) {
    let Case { n, ranks, lower, .. } = case;
    let (dims, factor_dims) = case.dims();
    let read = |i, j| if lower { i >= j } else { i <= j };
    let given = Mat::from_fn(n, n, |i, j| if read(i, j) { a[(i, j)] } else { T::NAN });
    let (mut work, mut infos) = (case.shards(&given), vec![-1; ranks]);
    case.run("cholesky_inverse", |r| {
        let w = buffer(&mut work[r], &dims);
        call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[r])])
    });
    let at_once = case.gathered(&work);

    let (mut work, mut norms) = (case.shards(&given), vec![0.0; ranks]);
    case.run("potrf", |r| {
        let (w, norm) = (buffer(&mut work[r], &dims), real_scalar::<T>(&mut norms[r]));
        call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[r]), norm])
    });
    let mut inverse = vec![vec![T::ONE; n * n / ranks]; ranks];
    case.run("potri", |r| {
        let args = vec![buffer(&mut work[r], &factor_dims), int_scalar(&mut infos[r])];
        call(r, args, vec![buffer(&mut inverse[r], &factor_dims)])
    });
    (at_once, case.gathered(&inverse), infos)
}

pub fn inverses_in_every_storage<T: Scalar>(at: Place) {
    for case in cases(at) {
        let n = case.n;
        if !case.lower {
            let a = shifted::<T>(n, 9 + n as u64);
            let (at_once, from_factor, infos) = general(case, &a);
            assert!(infos.iter().all(|&i| i == 0), "{case:?}");
            for x in [at_once, from_factor] {
                assert!(ratio(&a, &x) <= 3.0, "{case:?} {} general", T::DTYPE.name());
            }
        }
        let a = positive_definite::<T>(n, 9 + n as u64);
        let (at_once, from_factor, infos) = definite(case, &a);
        assert!(infos.iter().all(|&i| i == 0), "{case:?}");
        for x in [at_once, from_factor] {
            assert!(ratio(&a, &x) <= 3.0, "{case:?} {} definite", T::DTYPE.name());
            assert!(is_hermitian(&x), "{case:?} {}: symmetry", T::DTYPE.name());
        }
    }
}

pub fn where_there_is_no_inverse_all_is_nan_and_info_says_why(at: Place) {
    let no_number =
        |x: &Mat<f64>| (0..x.ncols()).all(|j| (0..x.nrows()).all(|i| x[(i, j)].is_nan()));
    for failing in [0, 4, 11] {
        for case in cases(at).filter(|c| (c.n, c.ranks) == (12, 3)) {
            let mut a = random::<f64>(12, 12, 5);
            (0..12).for_each(|i| a[(i, failing)] = 0.0);
            let (at_once, from_factor, infos) = general(case, &a);
            assert!(no_number(&at_once) && no_number(&from_factor), "{case:?}");
            assert!(infos.iter().all(|&i| i == failing as i32 + 1), "{case:?} {infos:?}");
            let mut a = positive_definite::<f64>(12, 5);
            a[(failing, failing)] = -1.0;
            let (at_once, from_factor, infos) = definite(case, &a);
            assert!(no_number(&at_once) && no_number(&from_factor), "{case:?}");
            assert!(infos.iter().all(|&i| i == failing as i32 + 1), "{case:?} {infos:?}");
        }
    }
}
