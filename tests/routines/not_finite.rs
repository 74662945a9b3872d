//! Matrices with an entry that is not finite: all results are NaN, and `info` reports where the
//! routine met it.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{buffer, int_scalar, int_vector, positive_definite, real_scalar, real_value};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

/// Entries and their places: corners, neighbours of the diagonal, and entries of other tiles (tiles
/// are three wide). Fewer where every step is slow.
fn entries(at: Place) -> impl Iterator<Item = ((usize, usize), f64)> {
    let places = [(4, 1), (1, 4), (6, 6), (0, 0), (11, 11), (0, 11), (11, 0), (1, 2), (2, 1)];
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let (places_taken, values_taken) = if at.is_some() { (3, 2) } else { (9, 3) };
    let places = places.into_iter().take(places_taken);
    places.flat_map(move |place| values.into_iter().take(values_taken).map(move |v| (place, v)))
}

fn some_cases(at: Place) -> impl Iterator<Item = Case> {
    let storages = if at.is_some() { 1 } else { 3 };
    let taken = &Storage::ALL[..storages];
    cases(at).filter(|c| c.n == 12 && taken.contains(&c.storage))
}

/// The first pivot, from 1, that is not finite in the identity with `value` at (i, j).
fn pivot_of_identity(i: usize, j: usize, value: f64) -> usize {
    // An infinite entry below the diagonal is the pivot of its column. A NaN is passed over until
    // its row is the first candidate. An entry above the diagonal makes the rest of its column NaN,
    // as 0 * value is.
    if i > j && value.is_nan() { i + 1 } else { j + 1 }
}

fn is_nan<T: Scalar>(x: &T) -> bool {
    x.magnitude().is_nan()
}

/// `gesv`, `gesv_rcond`, `getrf` and `lu_inverse` of one matrix. It returns their infos after all
/// other checks.
fn by_lu<T: Scalar>(case: Case, a: &Mat<T>, name: &str) -> [i32; 4] {
    let Case { n, ranks, .. } = case;
    let (dims, _) = case.dims();
    let mut infos = [(); 4].map(|()| vec![-1; ranks]);
    let (mut work, mut x) = (case.shards(a), vec![vec![T::ONE; n]; ranks]);
    case.run("gesv", |r| {
        let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut x[r], &[n, 1]));
        call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[0][r])])
    });
    assert!(x.iter().flatten().all(is_nan), "{name}: gesv {x:?}");

    let (mut work, mut x) = (case.shards(a), vec![vec![T::ONE; n]; ranks]);
    let mut rcond = vec![1.0; ranks];
    case.run("gesv_rcond", |r| {
        let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut x[r], &[n, 1]));
        let rets = vec![
            w.clone(),
            x.clone(),
            int_scalar(&mut infos[1][r]),
            real_scalar::<T>(&mut rcond[r]),
        ];
        call(r, vec![w, x], rets)
    });
    assert!(x.iter().flatten().all(is_nan), "{name}: gesv_rcond");
    assert!(rcond.iter().all(|r| real_value::<T>(r).is_nan()), "{name}: rcond");

    let (mut work, mut norm) = (case.shards(a), vec![1.0; ranks]);
    let mut pivots = vec![vec![-1; n]; ranks];
    case.run("getrf", |r| {
        let (w, rows) = (buffer(&mut work[r], &dims), int_vector(&mut pivots[r]));
        let norm = real_scalar::<T>(&mut norm[r]);
        call(r, vec![w.clone()], vec![w, rows, int_scalar(&mut infos[2][r]), norm])
    });
    assert!(work.iter().flatten().all(is_nan), "{name}: getrf");
    assert!(norm.iter().all(|x| real_value::<T>(x).is_nan()), "{name}: anorm");
    let named = pivots.iter().flatten().all(|row| (0..n as i32).contains(row));
    assert!(named, "{name}: pivots are rows");

    let mut work = case.shards(a);
    case.run("lu_inverse", |r| {
        let w = buffer(&mut work[r], &dims);
        call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[3][r])])
    });
    assert!(work.iter().flatten().all(is_nan), "{name}: lu_inverse");
    infos.map(|of_ranks| {
        assert!(of_ranks.iter().all(|&i| i == of_ranks[0] && 0 < i && i <= n as i32), "{name}");
        of_ranks[0]
    })
}

pub fn lu_of_what_is_not_finite<T: Scalar>(at: Place) {
    for case in some_cases(at).filter(|c| !c.lower) {
        let n = case.n;
        for ((i, j), value) in entries(at) {
            let name = format!("{case:?} {} {value} at {i}, {j}", T::DTYPE.name());
            let entry = T::from_f64_impl(value);
            let mut a = Mat::from_fn(n, n, |i, j| if i == j { T::ONE } else { T::ZERO });
            a[(i, j)] = entry;
            let infos = by_lu(case, &a, &name);
            if at.is_none() && !T::IS_COMPLEX {
                // By rows the stored matrix, A^T, is factored, except in getrf.
                let transposed = case.storage.1 == Storage::Rows;
                let lies = if transposed { (j, i) } else { (i, j) };
                let [of_memory, of_a] =
                    [lies, (i, j)].map(|(i, j)| pivot_of_identity(i, j, value) as i32);
                assert_eq!(infos, [of_memory, of_memory, of_a, of_memory], "{name}");
            }
            if at.is_none() {
                let mut a = positive_definite::<T>(n, 7);
                a[(i, j)] = entry;
                by_lu(case, &a, &name);
            }
        }
    }
}

/// Entries of the given triangle. The pivot that shows the entry is that of its row, or its own.
pub fn cholesky_of_what_is_not_finite<T: Scalar>(at: Place) {
    for case in some_cases(at) {
        let Case { n, ranks, lower, .. } = case;
        let (dims, _) = case.dims();
        let given = |&((i, j), _): &((usize, usize), f64)| if lower { i >= j } else { i <= j };
        for ((i, j), value) in entries(at).filter(given) {
            let name = format!("{case:?} {} {value} at {i}, {j}", T::DTYPE.name());
            let mut a = positive_definite::<T>(n, 7);
            a[(i, j)] = T::from_f64_impl(value);
            let mut infos = [(); 3].map(|()| vec![-1; ranks]);
            let (mut work, mut x) = (case.shards(&a), vec![vec![T::ONE; n]; ranks]);
            case.run("posv", |r| {
                let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut x[r], &[n, 1]));
                call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[0][r])])
            });
            assert!(x.iter().flatten().all(is_nan), "{name}: posv");
            let (mut work, mut norm) = (case.shards(&a), vec![1.0; ranks]);
            case.run("potrf", |r| {
                let (w, norm) = (buffer(&mut work[r], &dims), real_scalar::<T>(&mut norm[r]));
                call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[1][r]), norm])
            });
            assert!(work.iter().flatten().all(is_nan), "{name}: potrf");
            assert!(norm.iter().all(|x| real_value::<T>(x).is_nan()), "{name}: anorm");
            let mut work = case.shards(&a);
            case.run("cholesky_inverse", |r| {
                let w = buffer(&mut work[r], &dims);
                call(r, vec![w.clone()], vec![w, int_scalar(&mut infos[2][r])])
            });
            assert!(work.iter().flatten().all(is_nan), "{name}: cholesky_inverse");
            let expected = i.max(j) as i32 + 1;
            assert!(infos.iter().flatten().all(|&i| i == expected), "{name}: {infos:?}");
        }
    }
}
