//! `lange` as call sites, for every storage, at the ends of the range and with an identity corner.

use crate::common::case::{Case, Place, call, cases, run};
use crate::common::norms::{norms, uneven};
use crate::common::{Map, buffer, real_scalar, real_value, unit};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

/// The three norms by the routine; all ranks must have the same.
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

pub fn norms_in_every_storage<T: Scalar>(at: Place) {
    for case in cases(at).filter(|case| !case.lower) {
        let a = uneven::<T>(case.n, case.n);
        for order in [case.n, case.n.div_ceil(2)] {
            let corner = if order < case.n { order as i64 } else { 0 };
            let exact = norms(&a, (order, order));
            for (got, exact) in by_lange(case, &a, corner).into_iter().zip(exact) {
                let name = format!("{case:?} {} {order}: {got} {exact}", T::DTYPE.name());
                assert!((got / exact - 1.0).abs() < 2.0 * unit::<T>() + 1e-14, "{name}");
            }
        }
    }
}

pub fn norms_at_the_ends_of_the_range(at: Place) {
    // Squares of the first ones underflow, and those of the last ones overflow; some are subnormal.
    for case in cases(at).filter(|case| !case.lower && case.n < 20) {
        let unit_scale = uneven::<faer::c64>(case.n, case.n);
        for exponent in [-1060, -1000, -600, 600, 1000] {
            let half = 2f64.powi(exponent / 2);
            let scaled = |x: faer::c64| faer::c64::new(x.re * half * half, x.im * half * half);
            let a = Mat::from_fn(case.n, case.n, |i, j| scaled(unit_scale[(i, j)]));
            let exact = norms(&unit_scale, (case.n, case.n)).map(|norm| norm * half * half);
            for (got, exact) in by_lange(case, &a, 0).into_iter().zip(exact) {
                let bar = if exponent < -1022 { 1e-2 } else { 1e-13 };
                assert!((got / exact - 1.0).abs() < bar, "{case:?} 2^{exponent}: {got} {exact}");
            }
        }
        let small = Mat::from_fn(case.n, case.n, |i, j| unit_scale[(i, j)].re as f32 * 1e-38);
        let exact = norms(&small, (case.n, case.n));
        for (got, exact) in by_lange(case, &small, 0).into_iter().zip(exact) {
            assert!((got / exact - 1.0).abs() < 1e-3, "{case:?}: {got} {exact}");
        }
    }
}

pub fn norms_of_what_is_no_number(at: Place) {
    for case in cases(at).filter(|case| !case.lower && case.n == 12) {
        let mut a = uneven::<f64>(12, 12);
        a[(7, 3)] = f64::NEG_INFINITY;
        assert_eq!(by_lange(case, &a, 0), [f64::INFINITY; 3], "{case:?}");
        a[(5, 10)] = f64::NAN;
        assert!(by_lange(case, &a, 0).iter().all(|norm| norm.is_nan()), "{case:?}");
        let a = Mat::<f32>::full(12, 12, 3e38);
        assert_eq!(by_lange(case, &a, 0), [f64::INFINITY; 3], "{case:?}: it overflows itself");
        assert_eq!(by_lange(case, &Mat::<f32>::zeros(12, 12), 0), [0.0; 3], "{case:?}");
    }
}

/// Shards of an m x n matrix over a p x q grid, as a device stores them.
fn on_grid<T: Scalar>(a: &Mat<T>, storage: Storage, (p, q): (usize, usize)) -> Vec<Vec<T>> {
    let (rows, columns) = (a.nrows() / p, a.ncols() / q);
    let shard = |rank: usize| {
        let element = |e: usize| match storage {
            Storage::ColumnMajor => (e % rows, e / rows),
            _ => (e / columns, e % columns),
        };
        let global = |(i, j)| a[(rank / q * rows + i, rank % q * columns + j)];
        (0..rows * columns).map(|e| global(element(e))).collect()
    };
    (0..p * q).map(shard).collect()
}

/// m and n differ, and devices hold rows, columns, or blocks of both.
pub fn norms_of_rectangles_on_grids<T: Scalar>(at: Place) {
    let grids = [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)];
    for (p, q) in grids.into_iter().take(if at.is_some() { 3 } else { 5 }) {
        for (name, storage) in Storage::ALL {
            for (m, n) in [(3 * p, 7 * q), (8 * p, q), (0, 2 * q)] {
                let a = uneven::<T>(m.max(p), n);
                let a = a.subrows(0, m).to_owned();
                let exact = if m == 0 { [0.0; 3] } else { norms(&a, (m, n)) };
                for (norm, exact) in ["1", "inf", "fro"].into_iter().zip(exact) {
                    let mut shards = on_grid(&a, storage, (p, q));
                    let mut values = vec![-1.0; p * q];
                    let map = Map::routine("lange", p * q).text("norm", norm);
                    let map = map.text("storage", name).int("grid_rows", p as i64).int("tile", 3);
                    run(at, &map, p * q, |r| {
                        let value = real_scalar::<T>(&mut values[r]);
                        call(r, vec![buffer(&mut shards[r], &[m / p, n / q])], vec![value])
                    });
                    for value in &values {
                        let got = real_value::<T>(value);
                        let near = (got - exact).abs() <= (2.0 * unit::<T>() + 1e-14) * exact;
                        assert!(near, "{m} x {n} on {p} x {q} {name} {norm}: {got} {exact}");
                    }
                }
            }
        }
    }
}
