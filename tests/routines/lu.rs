//! The LU routines as call sites, without XLA: every storage, operation and distribution.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{
    buffer, int_scalar, int_vector, random, ratio, real_scalar, real_value, residual,
};
use faer::Mat;
use meshsolve::call::Buffer;
use meshsolve::scalar::Scalar;

fn scalar<T: Scalar>(value: &mut T) -> Buffer {
    buffer(std::slice::from_mut(value), &[])
}

fn applied<T: Scalar>(trans: i64, a: &Mat<T>) -> Mat<T> {
    match trans {
        0 => a.clone(),
        1 => a.transpose().to_owned(),
        _ => a.adjoint().to_owned(),
    }
}

/// A after the row interchanges of `pivots`, in order.
fn interchanged<T: Scalar>(a: &Mat<T>, pivots: &[i32]) -> Mat<T> {
    let mut rows: Vec<usize> = (0..a.nrows()).collect();
    pivots.iter().enumerate().for_each(|(i, &p)| rows.swap(i, p as usize));
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(rows[i], j)])
}

fn one_case<T: Scalar>(case: Case) {
    let Case { n, ranks, .. } = case;
    let name = format!("{case:?} {}", T::DTYPE.name());
    let mut a = random::<T>(n, n, 17 + n as u64);
    (0..n).for_each(|i| a[(i, i)] += T::from_f64_impl(1.5));
    let (rhs, (dims, factor_dims)) = (2, case.dims());
    let b = random::<T>(n, rhs, 23);
    let row_major: Vec<T> = (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
    let mut infos = vec![-1; ranks];
    let check = |xs: &[Vec<T>], what: &str| {
        for x in xs {
            let x = Mat::from_fn(n, rhs, |i, j| x[i * rhs + j]);
            let residual = residual(&applied(case.trans, &a), &x, &b);
            assert!(residual < 30.0, "{name} {what}: {residual}");
        }
    };

    // In one call.
    let (mut work, mut xs) = (case.shards(&a), vec![row_major.clone(); ranks]);
    case.run("gesv", |r| {
        let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, rhs]));
        call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
    });
    check(&xs, "gesv");
    assert!(infos.iter().all(|&i| i == 0), "{name}");

    // Every rank has right-hand sides of its own.
    let own: Vec<Mat<T>> = (0..ranks).map(|r| random::<T>(n, rhs, 31 + r as u64)).collect();
    let by_rows = |b: &Mat<T>| (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
    let (mut work, mut xs) = (case.shards(&a), own.iter().map(by_rows).collect::<Vec<Vec<T>>>());
    case.run_with(case.map("gesv").text("rhs", "columns"), |r| {
        let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, rhs]));
        call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
    });
    for (x, b) in xs.iter().zip(&own) {
        let x = Mat::from_fn(n, rhs, |i, j| x[i * rhs + j]);
        let residual = residual(&applied(case.trans, &a), &x, b);
        assert!(residual < 30.0, "{name} gesv by columns: {residual}");
    }

    // Factor, then solve. The operand of getrf is not its result and stays unchanged.
    let mut kept = case.shards(&a);
    let mut work = vec![vec![T::NAN; n * n / ranks]; ranks];
    let (mut pivots, mut norms) = (vec![vec![-1; n]; ranks], vec![0.0; ranks]);
    case.run("getrf", |r| {
        let (from, to) = (buffer(&mut kept[r], &dims), buffer(&mut work[r], &dims));
        let norm = real_scalar::<T>(&mut norms[r]);
        call(r, vec![from], vec![to, int_vector(&mut pivots[r]), int_scalar(&mut infos[r]), norm])
    });
    assert!(kept.iter().flatten().eq(case.shards(&a).iter().flatten()), "{name}: the operand");
    assert!(pivots.iter().all(|p| *p == pivots[0]), "{name}: pivots on all ranks");
    let solve = |work: &mut Vec<Vec<T>>, what: &str| {
        let mut bs = vec![row_major.clone(); ranks];
        let (mut xs, mut rows, mut zeros) = (bs.clone(), pivots.clone(), vec![0; ranks]);
        case.run("getrs", |r| {
            let args = vec![
                buffer(&mut work[r], &factor_dims),
                int_vector(&mut rows[r]),
                int_scalar(&mut zeros[r]),
                buffer(&mut bs[r], &[n, rhs]),
            ];
            call(r, args, vec![buffer(&mut xs[r], &[n, rhs])])
        });
        check(&xs, what);
    };
    solve(&mut work, "getrs");

    let (mut det, mut sign, mut log) = (vec![T::NAN; ranks], vec![T::NAN; ranks], vec![0.0; ranks]);
    let mut rows = pivots.clone();
    case.run("det", |r| {
        let args = vec![buffer(&mut work[r], &factor_dims), int_vector(&mut rows[r])];
        let log = real_scalar::<T>(&mut log[r]);
        call(r, args, vec![scalar(&mut det[r]), scalar(&mut sign[r]), log])
    });
    let expected = a.determinant();
    for r in 0..ranks {
        let log = real_value::<T>(&log[r]);
        let product = sign[r] * T::from_f64_impl(log.exp());
        for value in [det[r], product] {
            let (value, expected) = (Mat::full(1, 1, value), Mat::full(1, 1, expected));
            assert!(ratio(&value, &expected) < 1e3 * n as f64, "{name}: det, sign, log");
        }
    }

    // To scipy's form.
    let mut lu = vec![vec![T::NAN; n * n / ranks]; ranks];
    case.run("lu_to_scipy", |r| {
        let args = vec![buffer(&mut work[r], &factor_dims)];
        call(r, args, vec![buffer(&mut lu[r], &factor_dims)])
    });
    let whole = case.gathered(&lu);
    let l = Mat::<T>::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => whole[(i, j)],
    });
    let u = Mat::<T>::from_fn(n, n, |i, j| if i <= j { whole[(i, j)] } else { T::ZERO });
    assert!(ratio(&(l * u), &interchanged(&a, &pivots[0])) < 1.0, "{name}: P A is L U");

    // And back.
    let mut lu = case.shards(&whole);
    case.run("lu_from_scipy", |r| {
        let lu = buffer(&mut lu[r], &dims);
        call(r, vec![lu.clone()], vec![lu, int_scalar(&mut infos[r])])
    });
    solve(&mut lu, "lu_from_scipy, getrs");
}

pub fn lu_in_every_storage<T: Scalar>(at: Place) {
    for case in cases(at).filter(|case| !case.lower) {
        (0..3).for_each(|trans| one_case::<T>(Case { trans, ..case }));
    }
}

pub fn singular_matrices_have_no_solution_but_a_factor_and_a_determinant(at: Place) {
    for singular in [0, 4, 11] {
        for (n, ranks) in [(12, 1), (12, 3)] {
            let mut a = random::<f64>(n, n, 5);
            (0..n).for_each(|i| a[(i, singular)] = 0.0);
            for case in cases(at).filter(|c| (c.n, c.ranks, c.lower) == (12, 3, false)) {
                let case = Case { ranks, ..case };
                let (dims, factor_dims) = case.dims();
                let (mut work, mut norms) = (case.shards(&a), vec![0.0; ranks]);
                let (mut pivots, mut infos) = (vec![vec![0; n]; ranks], vec![-1; ranks]);
                case.run("getrf", |r| {
                    let work = buffer(&mut work[r], &dims);
                    let (rows, norm) = (int_vector(&mut pivots[r]), scalar(&mut norms[r]));
                    let rets = vec![work.clone(), rows, int_scalar(&mut infos[r]), norm];
                    call(r, vec![work], rets)
                });
                assert!(infos.iter().all(|&i| i == singular as i32 + 1), "{case:?} {infos:?}");
                let (mut det, mut sign, mut log) =
                    (vec![1.0; ranks], vec![1.0; ranks], vec![1.0; ranks]);
                case.run("det", |r| {
                    let args = vec![buffer(&mut work[r], &factor_dims), int_vector(&mut pivots[r])];
                    let rets = [&mut det[r], &mut sign[r], &mut log[r]].map(scalar);
                    call(r, args, rets.into())
                });
                assert!(det.iter().all(|&d| d == 0.0) && sign.iter().all(|&s| s == 0.0));
                assert!(log.iter().all(|&l| l == f64::NEG_INFINITY), "{case:?}");

                let (mut work, mut xs) = (case.shards(&a), vec![vec![1.0; n]; ranks]);
                case.run("gesv", |r| {
                    let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, 1]));
                    call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
                });
                assert!(xs.iter().flatten().all(|x: &f64| x.is_nan()), "{case:?}");
                assert!(infos.iter().all(|&i| i > 0), "{case:?} {infos:?}");
            }
        }
    }
}

pub fn determinants_at_the_ends_of_the_range(at: Place) {
    // Of twelve diagonal entries, even ones have the first power and odd ones the second.
    let powers =
        [(80, 80), (-85, -85), (1000, -1000), (1000, -830), (-1000, 830), (90, 90), (-90, -90)];
    for case in cases(at).filter(|c| (c.n, c.ranks, c.lower) == (12, 3, false)) {
        let (dims, factor_dims) = case.dims();
        for (one, other) in powers {
            let entry = |i: usize| 2f64.powi(if i.is_multiple_of(2) { one } else { other });
            let a = Mat::from_fn(12, 12, |i, j| if i == j { entry(i) } else { 0.0 });
            let (mut work, mut pivots) = (case.shards(&a), [[-1; 12]; 3]);
            let (mut infos, mut norms) = ([-1; 3], [0.0; 3]);
            case.run("getrf", |r| {
                let work = buffer(&mut work[r], &dims);
                let (rows, norm) = (int_vector(&mut pivots[r]), scalar(&mut norms[r]));
                let rets = vec![work.clone(), rows, int_scalar(&mut infos[r]), norm];
                call(r, vec![work], rets)
            });
            let [mut det, mut sign, mut log] = [[f64::NAN; 3]; 3];
            case.run("det", |r| {
                let args = vec![buffer(&mut work[r], &factor_dims), int_vector(&mut pivots[r])];
                let rets = [&mut det[r], &mut sign[r], &mut log[r]].map(scalar);
                call(r, args, rets.into())
            });
            let exponent = 6 * (one + other);
            assert_eq!((det, sign), ([2f64.powi(exponent); 3], [1.0; 3]), "{case:?}");
            let expected = f64::from(exponent) * std::f64::consts::LN_2;
            assert!(log.iter().all(|log| (log - expected).abs() < 1e-11), "{case:?}: {log:?}");
        }
    }
}
