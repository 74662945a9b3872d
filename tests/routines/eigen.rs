//! `eigenvalues` as call sites: every storage, order and place, padded matrices, hard ones.

use std::f64::consts::PI;

use crate::common::case::{Case, Place, call, cases};
use crate::common::{at as array, buffer, int_scalar, random, unit};
use faer::{Mat, Side};
use meshsolve::layout::Storage;
use meshsolve::scalar::{DType, Scalar};

/// The values and `info`, the same on all ranks, with tiles of a width and a padding.
fn answer<T: Scalar>(case: Case, tile: i64, order_of_a: usize, a: &Mat<T>) -> (Vec<f64>, i32) {
    let (mut shards, mut infos) = (case.shards(a), vec![-1; case.ranks]);
    let mut works = shards.clone();
    let mut values = vec![vec![-1.0f64; case.n]; case.ranks];
    let map = case.map("eigenvalues").int("tile", tile).int("order_of_a", order_of_a as i64);
    let dims = case.dims();
    case.run_with(map, |r| {
        let w = array(values[r].as_mut_ptr(), T::DTYPE.real(), &[case.n]);
        let work = buffer(&mut works[r], &dims.0);
        call(r, vec![buffer(&mut shards[r], &dims.0)], vec![work, w, int_scalar(&mut infos[r])])
    });
    let kept = case.shards(a);
    assert_eq!(format!("{shards:?}"), format!("{kept:?}"), "{case:?}: only read");
    let of_rank = |values: &Vec<f64>| match T::DTYPE.real() {
        DType::F32 => {
            let narrow: &[f32] = bytemuck::cast_slice(values);
            narrow[..case.n].iter().map(|&x| x.into()).collect()
        }
        _ => values.clone(),
    };
    let all: Vec<Vec<f64>> = values.iter().map(of_rank).collect();
    let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(all.iter().all(|one| bits(one) == bits(&all[0])), "{case:?}: {all:?}");
    assert!(infos.iter().all(|info| *info == infos[0]), "{case:?}: {infos:?}");
    (all.into_iter().next().unwrap(), infos[0])
}

/// Those of the leading part of order n, in double precision.
fn expected<T: Scalar>(a: &Mat<T>, n: usize, lower: bool) -> Vec<f64> {
    let whole = Mat::from_fn(n, n, |i, j| {
        let is_given = if lower { i >= j } else { i <= j };
        let (re, im) = if is_given { a[(i, j)].parts() } else { a[(j, i)].parts() };
        faer::c64::new(
            re,
            if i == j {
                0.0
            } else if is_given {
                im
            } else {
                -im
            },
        )
    });
    whole.self_adjoint_eigenvalues(Side::Lower).unwrap()
}

fn check<T: Scalar>(found: &[f64], expected: &[f64], what: &str) {
    let size = expected.iter().fold(0.0, |most, x| f64::max(most, x.abs()));
    let bar = 20.0 * expected.len() as f64 * 2.0 * unit::<T>() * size;
    assert!(found.is_sorted(), "{what}: ascending: {found:?}");
    for (x, y) in found.iter().zip(expected) {
        assert!((x - y).abs() <= bar, "{what}: {x} and not {y}, within {bar}");
    }
}

/// A random matrix of which one half, and the imaginary part of the diagonal, are no numbers.
pub fn half<T: Scalar>(n: usize, lower: bool, seed: u64) -> Mat<T> {
    let x = random::<T>(n, n, seed);
    Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Equal => T::of_parts(x[(i, j)].parts().0, f64::NAN),
        order => {
            let is_given = (order == std::cmp::Ordering::Greater) == lower;
            if is_given { x[(i, j)] } else { T::NAN }
        }
    })
}

/// Widths of tiles: that of a band, and none where a small matrix needs no band. Ranks always have one.
pub(super) fn ways(at: Place) -> &'static [i64] {
    if at.is_some() { &[3] } else { &[3, 0] }
}

pub fn eigenvalues_in_every_storage<T: Scalar>(at: Place) {
    // Emulated devices are slow.
    let tiles = if at.is_some() { &[3][..] } else { &[3, 1, 2, 9, 0] };
    for case in cases(at) {
        let a = half::<T>(case.n, case.lower, 3);
        let parts = ways(at).iter().map(|&tile| (tile, case.n.div_ceil(2)));
        let cuts = tiles.iter().map(|&tile| (tile, case.n)).chain(parts);
        for (tile, order) in cuts {
            let corner = if order < case.n { order } else { 0 };
            let what = format!("{} {case:?}, tiles {tile}, order {order}", T::DTYPE.name());
            let (values, info) = answer(case, tile, corner, &a);
            assert_eq!(info, 0, "{what}");
            check::<T>(&values[..order], &expected(&a, order, case.lower), &what);
            assert!(values[order..].iter().all(|x| x.is_nan()), "{what}: {values:?}");
        }
        let [one, other] = [0, 1].map(|_| format!("{:?}", answer(case, 3, 0, &a).0));
        assert_eq!(one, other, "{} {case:?}: the same bits", T::DTYPE.name());
    }
}

/// Orders around the widths of tiles, where the library chooses them.
pub fn eigenvalues_of_larger_matrices<T: Scalar>(at: Place) {
    let shapes: &[(usize, usize)] = match at {
        Some(_) => &[(10, 2)],
        None => &[(63, 1), (64, 1), (65, 1), (129, 3), (256, 2), (250, 1), (576, 2)],
    };
    for (index, &(n, ranks)) in shapes.iter().enumerate() {
        let (storage, lower) = (Storage::ALL[index % 3], index % 2 == 0);
        let case = Case { n, ranks, storage, lower, trans: 0, order: "auto", at };
        let a = half::<T>(n, lower, 5);
        let expected = expected(&a, n, lower);
        for tile in [0, 64] {
            let what = format!("{} {case:?}, tiles {tile}", T::DTYPE.name());
            let (values, info) = answer(case, tile, 0, &a);
            assert_eq!(info, 0, "{what}");
            check::<T>(&values, &expected, &what);
            assert_eq!(answer(case, tile, 0, &a).0, values, "{what}: the same bits");
        }
    }
}

/// The matrix with these eigenvalues, in the basis of some reflectors.
pub fn with_values(values: &[f64]) -> Mat<f64> {
    let n = values.len();
    let mut a = Mat::from_fn(n, n, |i, j| if i == j { values[i] } else { 0.0 });
    for seed in 1..4 {
        let v = random::<f64>(n, 1, seed);
        let h = &v * v.transpose() * (2.0 / (v.transpose() * &v)[(0, 0)]);
        let h = Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) - h[(i, j)]);
        a = &h * a * &h;
    }
    a
}

/// Eigenvalues of the kinds of LAPACK's tests.
pub fn spectra(n: usize) -> [(&'static str, Vec<f64>); 6] {
    let sign = |i: usize| if i.is_multiple_of(3) { -1.0 } else { 1.0 };
    let spectrum = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
        (0..n).map(|i| sign(i) * of(i as f64 / (n - 1) as f64)).collect()
    };
    let eps = f64::EPSILON;
    [
        ("evenly", spectrum(&|x| eps + x * (1.0 - eps))),
        ("geometric", spectrum(&|x| eps.powf(x))),
        ("clustered at 1", (0..n).map(|i| if i + 1 < n { sign(i) } else { eps }).collect()),
        ("clustered at eps", (0..n).map(|i| if i > 0 { eps * sign(i) } else { 1.0 }).collect()),
        ("rank 1", (0..n).map(|i| f64::from(u8::from(i == 3))).collect()),
        ("equal", vec![1.0; n]),
    ]
}

/// Matrices of other kinds.
pub fn entries(n: usize) -> Vec<(&'static str, Mat<f64>)> {
    type Entry<'a> = &'a dyn Fn(usize, usize) -> f64;
    let glued = |i: usize, j: usize| match i.abs_diff(j) {
        0 => (i % 8) as f64 - 3.5,
        1 if i.max(j).is_multiple_of(8) => 1e-12,
        1 => 1.0,
        _ => 0.0,
    };
    let all: [(&str, Entry); 7] = [
        ("zero", &|_, _| 0.0),
        ("identity", &|i, j| f64::from(u8::from(i == j))),
        ("diagonal", &|i, j| if i == j { (i * 7 % n) as f64 } else { 0.0 }),
        ("glued", &glued),
        ("graded down", &|i, j| 10f64.powi(-((i + j) as i32)) * (1.0 + (i * j % 5) as f64)),
        ("graded up", &|i, j| 10f64.powi((i + j) as i32) * (1.0 + (i * j % 5) as f64)),
        ("blocks", &|i, j| if i / 4 == j / 4 { (1 + i * j % 7) as f64 } else { 0.0 }),
    ];
    all.map(|(name, entry)| (name, Mat::from_fn(n, n, entry))).into()
}

/// Matrices with these, and others of which they are known.
pub fn eigenvalues_of_hard_matrices(at: Place) {
    let (n, ranks) = if at.is_some() { (8, 2) } else { (48, 2) };
    let storage = Storage::ALL[0];
    let case = Case { n, ranks, storage, lower: true, trans: 0, order: "auto", at };
    let pairs = |all: &[f64]| {
        all.iter()
            .flat_map(|&scale| ways(at).iter().map(move |&tile| (scale, tile)))
            .collect::<Vec<_>>()
    };
    for (name, mut values) in spectra(n) {
        let a = with_values(&values);
        values.sort_by(f64::total_cmp);
        let scales = if at.is_some() { &[1.0][..] } else { &[1.0, 1e290, 1e-290, 1e-306] };
        for (scale, tile) in pairs(scales) {
            let scaled = |x: f64| x * scale;
            let found = answer(case, tile, 0, &Mat::from_fn(n, n, |i, j| scaled(a[(i, j)])));
            assert_eq!(found.1, 0, "{name}");
            let found: Vec<f64> = found.0.iter().map(|x| x / scale).collect();
            check::<f64>(&found, &values, &format!("{name}, scaled by {scale:e}, tiles {tile}"));
        }
    }
    for (name, a) in entries(n) {
        for &tile in ways(at) {
            let (values, info) = answer(case, tile, 0, &a);
            assert_eq!(info, 0, "{name}, tiles {tile}");
            check::<f64>(&values, &expected(&a, n, true), name);
        }
    }
    let toeplitz = |i: usize, j| [2.0, 1.0, 0.0][i.abs_diff(j).min(2)];
    let exact = |k: usize| 2.0 - 2.0 * ((k + 1) as f64 * PI / (n + 1) as f64).cos();
    let (values, _) = answer(case, 3, 0, &Mat::from_fn(n, n, toeplitz));
    check::<f64>(&values, &(0..n).map(exact).collect::<Vec<_>>(), "(1, 2, 1)");
}

/// Sizes that leave the range of float32 as squares, and of its neighbours.
pub fn eigenvalues_at_the_ends_of_the_range(at: Place) {
    let storage = Storage::ALL[1];
    let case = Case { n: 12, ranks: 2, storage, lower: false, trans: 0, order: "auto", at };
    let x = random::<f32>(12, 12, 4);
    for exponent in [-125, -70, 70, 120] {
        // In steps, because a power of two may be too large.
        let half = 2f32.powi(exponent / 2);
        let a = Mat::from_fn(12, 12, |i, j| x[(i, j)] * half * half);
        for &tile in ways(at) {
            let (values, info) = answer(case, tile, 0, &a);
            assert_eq!(info, 0, "2^{exponent}, tiles {tile}");
            check::<f32>(&values, &expected(&a, 12, false), &format!("2^{exponent}"));
        }
    }
    // Sums of these entries overflow, and the values do not.
    let large = |i: usize, j: usize| match (i + j) % 4 {
        _ if i == j => 0.0,
        0 | 1 => 1.7e307,
        _ => -1.7e307,
    };
    let scaled = Mat::from_fn(12, 12, |i, j| large(i, j) / 16.0);
    for &tile in ways(at) {
        let (values, info) = answer(case, tile, 0, &Mat::from_fn(12, 12, large));
        assert_eq!(info, 0, "tiles {tile}");
        let values: Vec<f64> = values.iter().map(|x| x / 16.0).collect();
        check::<f64>(&values, &expected(&scaled, 12, false), "near overflow");
    }
}

pub fn eigenvalues_of_what_is_no_number(at: Place) {
    let given = |case: &Case| match at {
        Some(_) => case.n == 7 && case.lower,
        None => case.n == 12,
    };
    for case in cases(at).filter(given) {
        for (number, (i, j)) in [(f64::NAN, (5, 2)), (f64::INFINITY, (6, 6)), (f64::NAN, (3, 3))] {
            let mut a = random::<f64>(case.n, case.n, 8);
            a[if case.lower { (i, j) } else { (j, i) }] = number;
            let (values, info) = answer(case, 3, 0, &a);
            assert_eq!(info as usize, case.n + 1, "{case:?} {number}");
            assert!(values.iter().all(|x| x.is_nan()), "{case:?} {number}: {values:?}");
            // Not in the padding.
            let (values, info) = answer(case, 3, 2, &a);
            assert_eq!(info, 0, "{case:?} {number}");
            check::<f64>(&values[..2], &expected(&a, 2, case.lower), "the leading part");
        }
    }
}
