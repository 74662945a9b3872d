//! `eigenvectors` as call sites: every storage, order and place, padded matrices, hard ones.

use std::cmp::Ordering;
use std::ops::Range;

use crate::common::case::{Case, Place, call, cases};
use crate::common::{at as array, buffer, int_scalar, random, unit};
use faer::{Mat, c64};
use meshsolve::device::cpu::product::Units;
use meshsolve::layout::Storage;
use meshsolve::scalar::{DType, Scalar};

use super::eigen::{entries, half, spectra, ways, with_values};

struct Answer {
    values: Vec<f64>,
    /// In double precision.
    v: Mat<c64>,
    info: i32,
}

pub(super) fn wide<T: Scalar>(x: T) -> c64 {
    let (re, im) = x.parts();
    c64::new(re, im)
}

fn answer<T: Scalar>(case: Case, tile: i64, order_of_a: usize, a: &Mat<T>) -> Answer {
    answer_for(case, tile, order_of_a, a, 0..0)
}

/// With some eigenvectors alone, or all of them for an empty range.
fn answer_for<T: Scalar>(
    case: Case,
    tile: i64,
    order_of_a: usize,
    a: &Mat<T>,
    wanted: Range<usize>,
) -> Answer {
    let (mut shards, mut infos) = (case.shards(a), vec![-1; case.ranks]);
    let mut works = shards.clone();
    let mut vectors = vec![vec![T::NAN; case.n * case.n / case.ranks]; case.ranks];
    let mut values = vec![vec![-1.0f64; case.n]; case.ranks];
    let map = case.map("eigenvectors").int("tile", tile).int("order_of_a", order_of_a as i64);
    let map = map.int("first", wanted.start as i64).int("vectors", wanted.len() as i64);
    let dims = case.dims();
    case.run_with(map, |r| {
        let w = array(values[r].as_mut_ptr(), T::DTYPE.real(), &[case.n]);
        let (work, v) = (buffer(&mut works[r], &dims.0), buffer(&mut vectors[r], &dims.0));
        call(r, vec![buffer(&mut shards[r], &dims.0)], vec![work, v, w, int_scalar(&mut infos[r])])
    });
    assert!(infos.iter().all(|info| *info == infos[0]), "{case:?}: {infos:?}");
    let of_rank = |values: &Vec<f64>| -> Vec<f64> {
        match T::DTYPE.real() {
            DType::F32 => {
                let narrow: &[f32] = bytemuck::cast_slice(values);
                narrow[..case.n].iter().map(|&x| x.into()).collect()
            }
            _ => values.clone(),
        }
    };
    let all: Vec<Vec<f64>> = values.iter().map(of_rank).collect();
    assert!(all.iter().all(|one| format!("{one:?}") == format!("{:?}", all[0])), "{case:?}");
    let v = case.gathered(&vectors);
    let v = Mat::from_fn(case.n, case.n, |i, j| wide(v[(i, j)]));
    Answer { values: all.into_iter().next().unwrap(), v, info: infos[0] }
}

/// The Hermitian matrix of the leading part.
pub(super) fn whole<T: Scalar>(a: &Mat<T>, n: usize, lower: bool) -> Mat<c64> {
    Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        Ordering::Equal => c64::new(a[(i, j)].parts().0, 0.0),
        order if (order == Ordering::Greater) == lower => wide(a[(i, j)]),
        _ => wide(a[(j, i)]).conj(),
    })
}

pub(super) fn largest(a: &Mat<c64>) -> f64 {
    let columns = 0..a.ncols();
    let sum = |j: usize| (0..a.nrows()).map(|i| a[(i, j)].modulus()).sum::<f64>();
    columns.map(sum).fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most })
}

/// The ratios of `acceptance.md`, below the limit of CI: A V = V W, and V unitary.
fn check<T: Scalar>(found: &Answer, a: &Mat<T>, order: usize, lower: bool, what: &str) {
    assert_eq!(found.info, 0, "{what}");
    let a = whole(a, order, lower);
    let v = found.v.submatrix(0, 0, order, order).to_owned();
    let values = &found.values[..order];
    assert!(values.is_sorted(), "{what}: ascending: {values:?}");
    let scaled = Mat::from_fn(order, order, |i, j| v[(i, j)] * values[j]);
    let identity = Mat::<c64>::identity(order, order);
    let unit = 2.0 * unit::<T>() * order as f64;
    let residual = largest(&(&a * &v - scaled)) / (largest(&a) * unit).max(f64::MIN_POSITIVE);
    let loss = largest(&(v.adjoint() * &v - identity)) / unit;
    assert!(residual <= 20.0 && loss <= 20.0, "{what}: {residual}, {loss}");
    for (i, j) in (0..found.v.nrows()).flat_map(|i| (0..found.v.ncols()).map(move |j| (i, j))) {
        let is_padding = i >= order || j >= order;
        assert!(!is_padding || found.v[(i, j)] == c64::new(0.0, 0.0), "{what}: zeros at {i}, {j}");
    }
    assert!(found.values[order..].iter().all(|x| x.is_nan()), "{what}: {:?}", found.values);
}

pub fn eigenvectors_in_every_storage<T: Scalar>(at: Place) {
    // Emulated devices are slow.
    let tiles = if at.is_some() { &[3][..] } else { &[3, 1, 2, 9, 0] };
    for case in cases(at) {
        let a = half::<T>(case.n, case.lower, 3);
        let parts = ways(at).iter().map(|&tile| (tile, case.n.div_ceil(2)));
        let cuts = tiles.iter().map(|&tile| (tile, case.n)).chain(parts);
        for (tile, order) in cuts {
            let corner = if order < case.n { order } else { 0 };
            let what = format!("{} {case:?}, tiles {tile}, order {order}", T::DTYPE.name());
            check(&answer(case, tile, corner, &a), &a, order, case.lower, &what);
        }
        let [one, other] = [0, 1].map(|_| format!("{:?}", answer(case, 3, 0, &a).v));
        assert_eq!(one, other, "{} {case:?}: the same bits", T::DTYPE.name());
    }
}

/// Some eigenvectors have the bits that they have among all, also in a padded matrix.
pub fn some_eigenvectors<T: Scalar>(at: Place) {
    expect_some::<T>(at, false);
}

/// The same, where others are not found. Engines find all.
pub fn some_eigenvectors_alone<T: Scalar>(at: Place) {
    expect_some::<T>(at, true);
}

fn expect_some<T: Scalar>(at: Place, alone: bool) {
    let n = if at.is_some() { 48 } else { 144 };
    // Products of faer have other bits for other shapes.
    let most = if Units::of::<T>().is_some() { 0.0 } else { 100.0 * n as f64 * unit::<T>() };
    for (index, storage) in Storage::ALL.into_iter().enumerate() {
        let (lower, ranks) = (index % 2 == 0, index + 1);
        let case = Case { n, ranks, storage, lower, trans: 0, order: "auto", at };
        let a = half::<T>(n, lower, 4);
        for order in [n, n - 5] {
            let all = answer(case, 0, order, &a);
            for wanted in [0..1, 7..40, order - 1..order] {
                let what = format!("{} {case:?} {order} {wanted:?}", T::DTYPE.name());
                let some = answer_for(case, 0, order, &a, wanted.clone());
                let differs =
                    |j: usize| (0..n).any(|i| (some.v[(i, j)] - all.v[(i, j)]).modulus() > most);
                assert_eq!(some.values[..order], all.values[..order], "{what}");
                assert!(some.info == 0 && !wanted.clone().any(differs), "{what}");
                let others = (0..order).filter(|&j| !wanted.contains(&j)).filter(|&j| differs(j));
                assert!(!alone || 2 * others.count() > order - wanted.len(), "{what}");
            }
        }
    }
}

/// Orders around the widths of tiles, where the library chooses them. That of 576 takes several
/// batches of reflectors by a band, and by rows the last one conjugates.
pub fn eigenvectors_of_larger_matrices<T: Scalar>(at: Place) {
    let shapes: &[(usize, usize)] = match at {
        Some(_) => &[(10, 2)],
        None => &[(63, 1), (65, 1), (129, 3), (576, 2), (250, 1), (256, 2)],
    };
    for (index, &(n, ranks)) in shapes.iter().enumerate() {
        let (storage, lower) = (Storage::ALL[index % 3], index % 2 == 0);
        let case = Case { n, ranks, storage, lower, trans: 0, order: "auto", at };
        let a = half::<T>(n, lower, 5);
        let widths: &[i64] = if n > 500 { &[0, 96, 260] } else { &[0, 64] };
        for &tile in widths {
            let what = format!("{} {case:?}, tiles {tile}", T::DTYPE.name());
            check(&answer(case, tile, 0, &a), &a, n, lower, &what);
        }
    }
}

/// The kinds of LAPACK's tests.
pub fn eigenvectors_of_hard_matrices(at: Place) {
    let (n, ranks) = if at.is_some() { (8, 2) } else { (96, 2) };
    let storage = Storage::ALL[0];
    let case = Case { n, ranks, storage, lower: true, trans: 0, order: "auto", at };
    for (name, values) in spectra(n) {
        let a = with_values(&values);
        let scales = if at.is_some() { &[1.0][..] } else { &[1.0, 1e200, 1e-200] };
        for &scale in scales {
            let scaled = Mat::from_fn(n, n, |i, j| a[(i, j)] * scale);
            for &tile in ways(at) {
                let what = format!("{name}, {scale:e}, tiles {tile}");
                check(&answer(case, tile, 0, &scaled), &scaled, n, true, &what);
            }
        }
    }
    for (name, a) in entries(n) {
        for &tile in ways(at) {
            check(&answer(case, tile, 0, &a), &a, n, true, &format!("{name}, tiles {tile}"));
        }
    }
}

pub fn eigenvectors_of_what_is_no_number(at: Place) {
    let given = |case: &Case| match at {
        Some(_) => case.n == 7 && case.lower,
        None => case.n == 12,
    };
    for case in cases(at).filter(given) {
        for (number, (i, j)) in [(f64::NAN, (5, 2)), (f64::INFINITY, (6, 6))] {
            let mut a = random::<f64>(case.n, case.n, 8);
            a[if case.lower { (i, j) } else { (j, i) }] = number;
            let found = answer(case, 3, 0, &a);
            assert_eq!(found.info as usize, case.n + 1, "{case:?} {number}");
            assert!(found.values.iter().all(|x| x.is_nan()), "{case:?} {number}");
            let all = (0..case.n).flat_map(|i| (0..case.n).map(move |j| (i, j)));
            assert!(all.into_iter().all(|at| found.v[at].re.is_nan()), "{case:?} {number}");
            // Not in the padding.
            check(&answer(case, 3, 2, &a), &a, 2, case.lower, "the leading part");
        }
    }
}
