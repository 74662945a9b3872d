//! Norms of a matrix that is only read: the algorithm with lanes, and `lange` as a call site for every
//! storage, at the ends of the range and with an identity corner.

mod common;

use std::sync::Mutex;

use common::case::{Case, call, cases};
use common::lanes::{CASES, matrix, on_lanes, shards};
use common::{buffer, for_all_scalars, random, real_scalar, real_value, unit};
use faer::Mat;
use meshsolve::backend::Squares;
use meshsolve::backend::host::Team;
use meshsolve::dist::norm::{squares, sums};
use meshsolve::layout::{Columns, Order};
use meshsolve::matrix::Block;
use meshsolve::scalar::Scalar;

/// (1-norm, infinity norm, Frobenius norm) of the leading part of order n.
fn norms<T: Scalar>(a: &Mat<T>, n: usize) -> [f64; 3] {
    let entry = |i: usize, j: usize| a[(i, j)].modulus();
    let largest = |sum: &dyn Fn(usize) -> f64| (0..n).map(sum).fold(0.0, f64::max);
    let scale = largest(&|j| (0..n).map(|i| entry(i, j)).fold(0.0, f64::max));
    let square = |e: usize| (entry(e / n, e % n) / scale).powi(2);
    [
        largest(&|j| (0..n).map(|i| entry(i, j)).sum()),
        largest(&|i| (0..n).map(|j| entry(i, j)).sum()),
        scale * (0..n * n).map(square).sum::<f64>().sqrt(),
    ]
}

/// Rows and columns of different sizes.
fn uneven<T: Scalar>(n: usize) -> Mat<T> {
    let mut a = random::<T>(n, n, 11 + n as u64);
    (0..n).for_each(|j| a[(n / 2, j)] *= T::from_f64_impl(9.0));
    a
}

fn lanes_together<T: Scalar>() {
    for (n, ranks, tile, lanes) in CASES {
        let a = uneven::<T>(n);
        let mut memory = shards(&a, ranks);
        let m = matrix(&mut memory, Columns::new(n, ranks, tile, Order::Natural));
        for order in [n, n - n / 3] {
            let mut found = vec![0.0; 2 * lanes * n];
            let base = found.as_mut_ptr() as usize;
            let part = |i: usize| {
                let first = (base as *mut f64).wrapping_add(i * n);
                Block::column_major(first, order, 1, order)
            };
            let all = Mutex::new(Squares::default());
            on_lanes::<T>(&Team::new(lanes), m.columns.widest(), |lane| {
                let l = meshsolve::backend::Backend::<T>::lane(lane);
                sums(lane, &m, order, true, part(2 * l));
                sums(lane, &m, order, false, part(2 * l + 1));
                let own = squares(lane, &m, order);
                let mut all = all.lock().unwrap();
                *all = all.and(own);
            });
            let largest = |which: usize| {
                let total = |i: usize| (0..lanes).map(|l| found[(2 * l + which) * n + i]).sum();
                (0..order).map(total).fold(0.0, f64::max)
            };
            let got = [largest(0), largest(1), all.into_inner().unwrap().root()];
            for (got, exact) in got.into_iter().zip(norms(&a, order)) {
                assert!((got / exact - 1.0).abs() < 1e-13, "n {n} order {order}: {got} {exact}");
            }
        }
    }
}

/// The three norms by the routine; all ranks have the same.
fn by_lange<T: Scalar>(case: Case, a: &Mat<T>, order_of_a: i64) -> [f64; 3] {
    let kept = case.shards(a);
    ["1", "inf", "fro"].map(|norm| {
        let (mut shards, mut values) = (case.shards(a), vec![-1.0; case.ranks]);
        let map = case.map("lange").text("norm", norm).int("order_of_a", order_of_a);
        case.run_with(map, |r| {
            let value = real_scalar::<T>(&mut values[r]);
            call(r, vec![buffer(&mut shards[r], &case.dims().0)], vec![value])
        });
        let bits = |m: &[Vec<T>]| format!("{:?}", m.concat());
        assert_eq!(bits(&shards), bits(&kept), "{case:?}: only read");
        let values: Vec<_> = values.iter().map(real_value::<T>).collect();
        assert!(values.iter().all(|v| v.to_bits() == values[0].to_bits()), "{values:?}");
        values[0]
    })
}

fn every_storage_and_order<T: Scalar>() {
    for case in cases().filter(|case| !case.lower) {
        let a = uneven::<T>(case.n);
        for order in [case.n, case.n.div_ceil(2)] {
            let corner = if order < case.n { order as i64 } else { 0 };
            let exact = norms(&a, order);
            for (got, exact) in by_lange(case, &a, corner).into_iter().zip(exact) {
                let name = format!("{case:?} {} {order}: {got} {exact}", T::DTYPE.name());
                assert!((got / exact - 1.0).abs() < 2.0 * unit::<T>() + 1e-14, "{name}");
            }
        }
    }
}

for_all_scalars!(lanes_together every_storage_and_order);

#[test]
fn at_the_ends_of_the_range() {
    // Squares of the first ones underflow, and those of the last ones overflow; some are subnormal.
    for case in cases().filter(|case| !case.lower && case.n < 20) {
        let unit_scale = uneven::<faer::c64>(case.n);
        for exponent in [-1060, -1000, -600, 600, 1000] {
            let half = 2f64.powi(exponent / 2);
            let scaled = |x: faer::c64| faer::c64::new(x.re * half * half, x.im * half * half);
            let a = Mat::from_fn(case.n, case.n, |i, j| scaled(unit_scale[(i, j)]));
            let exact = norms(&unit_scale, case.n).map(|norm| norm * half * half);
            for (got, exact) in by_lange(case, &a, 0).into_iter().zip(exact) {
                let bar = if exponent < -1022 { 1e-2 } else { 1e-13 };
                assert!((got / exact - 1.0).abs() < bar, "{case:?} 2^{exponent}: {got} {exact}");
            }
        }
        let small = Mat::from_fn(case.n, case.n, |i, j| unit_scale[(i, j)].re as f32 * 1e-38);
        let exact = norms(&small, case.n);
        for (got, exact) in by_lange(case, &small, 0).into_iter().zip(exact) {
            assert!((got / exact - 1.0).abs() < 1e-3, "{case:?}: {got} {exact}");
        }
    }
}

#[test]
fn what_is_no_number() {
    for case in cases().filter(|case| !case.lower && case.n == 12) {
        let mut a = uneven::<f64>(12);
        a[(7, 3)] = f64::NEG_INFINITY;
        assert_eq!(by_lange(case, &a, 0), [f64::INFINITY; 3], "{case:?}");
        a[(5, 10)] = f64::NAN;
        assert!(by_lange(case, &a, 0).iter().all(|norm| norm.is_nan()), "{case:?}");
        let a = Mat::<f32>::full(12, 12, 3e38);
        assert_eq!(by_lange(case, &a, 0), [f64::INFINITY; 3], "{case:?}: it overflows itself");
        assert_eq!(by_lange(case, &Mat::<f32>::zeros(12, 12), 0), [0.0; 3], "{case:?}");
    }
}
