//! `lange` as call sites, for every storage, at the ends of the range and with an identity corner.

use crate::common::case::{Case, Place, call, cases};
use crate::common::norms::{norms, uneven};
use crate::common::{buffer, real_scalar, real_value, unit};
use faer::Mat;
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

pub fn norms_at_the_ends_of_the_range(at: Place) {
    // Squares of the first ones underflow, and those of the last ones overflow; some are subnormal.
    for case in cases(at).filter(|case| !case.lower && case.n < 20) {
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

pub fn norms_of_what_is_no_number(at: Place) {
    for case in cases(at).filter(|case| !case.lower && case.n == 12) {
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
