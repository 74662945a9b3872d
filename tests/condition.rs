//! Norms and condition estimates against norms of inverses: the estimator alone, with lanes, and as
//! routines of call sites for every storage, triangle and column order.

mod common;

use std::sync::Mutex;

use common::case::{Case, call, cases};
use common::lanes::{CASES, matrix, on_lanes, shards};
use common::{Random, buffer, int_scalar, int_vector, positive_definite, random};
use common::{real_scalar, real_value, unit};
use faer::Mat;
use faer::linalg::solvers::DenseSolveCore;
use meshsolve::backend::Backend;
use meshsolve::backend::host::Team;
use meshsolve::dist::condition::{Estimator, Next, block, inverse_norm};
use meshsolve::dist::lu::{Interchange, factor, sweeps};
use meshsolve::dist::triangular::Triangular;
use meshsolve::layout::{Columns, Order};
use meshsolve::matrix::Block;
use meshsolve::scalar::Scalar;

fn norm1<T: Scalar>(a: &Mat<T>) -> f64 {
    let sum = |j: usize| (0..a.nrows()).map(|i| a[(i, j)].modulus()).sum::<f64>();
    (0..a.ncols()).map(sum).fold(0.0, f64::max)
}

fn inverse<T: Scalar>(a: &Mat<T>) -> Mat<T> {
    a.partial_piv_lu().inverse()
}

/// The estimate of `scale` norm1(M), M given as the inverse; and how many products it took.
fn estimated<T: Scalar>(m: &Mat<T>, scale: f64) -> (f64, usize) {
    let (n, mut products) = (m.nrows(), 0);
    let mut estimator = Estimator::<T>::new(n);
    let mut next = estimator.start(scale);
    while next != Next::Done {
        let t = block(n);
        let x = Mat::from_fn(n, t, |i, j| estimator.vectors()[i * t + j]);
        let y = if next == Next::Solve { m * x } else { m.adjoint() * x };
        (0..n * t).for_each(|e| estimator.vectors()[e] = y[(e / t, e % t)]);
        products += 1;
        next = estimator.advance();
    }
    (estimator.estimate(), products)
}

fn estimates_are_near_the_norm_and_not_above<T: Scalar>() {
    let mut least = f64::INFINITY;
    for n in (1..20).chain([33, 64, 100]) {
        for seed in 1..8 {
            let a = random::<T>(n, n, seed * 77 + n as u64);
            for m in [inverse(&a), a] {
                let exact = norm1(&m);
                let (estimate, products) = estimated(&m, 1.0);
                let ratio = estimate / exact;
                let tolerance = 4.0 * n as f64 * unit::<T>();
                assert!(ratio <= 1.0 + tolerance && ratio >= 1.0 / 3.0, "n {n}: {ratio}");
                assert!(n > 4 || ratio >= 1.0 - tolerance, "n {n} exactly: {ratio}");
                assert!(products <= 11, "n {n}: {products} products");
                assert_eq!(estimated(&m, 1.0), (estimate, products), "the same in every run");
                let (scaled, _) = estimated(&m, 1024.0);
                assert!((scaled / 1024.0 - estimate).abs() <= tolerance * exact, "n {n} scaled");
                least = least.min(ratio);
            }
        }
    }
    assert!(least < 1.0 - 1e-6, "some norms are hard to find, or the test is too easy: {least}");
}

/// norm1 of these is a sum with cancellation for vectors of ones, and of few columns for signs.
fn structured_matrices<T: Scalar>() {
    let n = 60;
    let of =
        |f: &dyn Fn(usize, usize) -> f64| Mat::<T>::from_fn(n, n, |i, j| T::from_f64_impl(f(i, j)));
    for (what, m) in [
        ("identity", of(&|i, j| f64::from(u8::from(i == j)))),
        ("one column", of(&|_, j| f64::from(u8::from(j == 37)))),
        ("one entry", of(&|i, j| if (i, j) == (5, 41) { 1e3 } else { 0.0 })),
        ("opposite columns", of(&|i, j| if j % 2 == 0 { i as f64 } else { -(i as f64) })),
        ("alternating", of(&|i, j| if (i + j) % 2 == 0 { 1.0 } else { -1.0 })),
        ("decaying", of(&|i, j| 0.5f64.powi(i.abs_diff(j) as i32))),
    ] {
        let (estimate, exact) = (estimated(&m, 1.0).0, norm1(&m));
        assert!(estimate > exact / 1.5 && estimate < exact * 1.0001, "{what}: {estimate} {exact}");
    }
    let mut m = random::<T>(n, n, 4);
    m[(3, 4)] = T::from_f64_impl(f64::MAX);
    let overflown = m[(3, 4)] * T::from_f64_impl(1e30);
    m[(3, 4)] = overflown;
    assert_eq!(estimated(&m, 1.0).0, f64::INFINITY, "an overflow");
    m[(3, 4)] = T::NAN;
    assert_eq!(estimated(&m, 1.0).0, f64::INFINITY, "no number");
}

/// All lanes with factors in shards: the estimate of one lane and no shards, but for rounding.
fn lanes_agree<T: Scalar>() {
    for (n, ranks, tile, lanes) in CASES {
        let a = random::<T>(n, n, 5 + n as u64);
        let mut memory = shards(&a, ranks);
        let columns = Columns::new(n, ranks, tile, Order::Natural);
        let widest = columns.widest();
        let m = matrix(&mut memory, columns);
        let (mut pivots, t) = (vec![0; n], block(n));
        let pivots = Block::column_major(pivots.as_mut_ptr(), n, 1, n);
        let mut scratch = vec![T::NAN; (1 + lanes) * n * t + 1];
        let base = scratch.as_mut_ptr() as usize;
        let part = |i: usize| Block::row_major((base as *mut T).wrapping_add(i * n * t), n, t, t);
        let estimator = Mutex::new(Estimator::<T>::new(n));
        estimator.lock().unwrap().start(1.0);
        on_lanes::<T>(&Team::new(lanes), widest, |lane| {
            factor(lane, &m, pivots).unwrap();
            let sums: Vec<_> = (0..lanes).map(|l| part(1 + l)).collect();
            let (x, told) = (part(0), Block::column_major(part(1 + lanes).ptr, 1, 1, 1));
            let mut own = (Backend::<T>::lane(lane) == 0).then(|| estimator.lock().unwrap());
            let mut earlier = 0;
            inverse_norm(lane, own.as_deref_mut(), x, told, |lane, op| {
                let (two, interchange) = sweeps(op);
                let first = Backend::<T>::lane(lane) == 0;
                if first && interchange == Interchange::Before {
                    lane.swap_rows(x, 0, pivots, false);
                }
                for (triangle, op) in two {
                    Triangular { a: &m, triangle, op }.solve_shared(lane, x, &sums, earlier)?;
                    earlier += 1;
                }
                Backend::<T>::barrier(lane)?;
                if first && interchange == Interchange::After {
                    lane.swap_rows(x, 0, pivots, true);
                }
                Ok(())
            })
            .unwrap();
        });
        let (estimate, exact) = (estimator.lock().unwrap().estimate(), norm1(&inverse(&a)));
        let ratio = estimate / exact;
        assert!((1.0 / 3.0..1.05).contains(&ratio), "n {n} lanes {lanes}: {ratio}");
    }
}

/// Rank 0's number; all ranks have the same.
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
    (agreed::<T>(&norms), agreed::<T>(&rconds), of_solve("gesvx", case, a))
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
    (agreed::<T>(&norms), agreed::<T>(&rconds), of_solve("posvx", case, &given))
}

/// I but for column j, so that the inverse is, too: only a product with A^-H tells which column is
/// large.
fn one_column<T: Scalar>(n: usize, j: usize) -> Mat<T> {
    Mat::from_fn(n, n, |i, k| match (i == k, k == j) {
        (true, _) => T::ONE,
        (_, true) => T::from_f64_impl(if i % 2 == 0 { 10.0 } else { -10.0 }),
        _ => T::ZERO,
    })
}

fn every_storage_triangle_and_order<T: Scalar>() {
    let larger = [("natural", false), ("cyclic", true)].map(|(order, lower)| Case {
        n: 96,
        ranks: 4,
        order,
        lower,
        ..cases().next().unwrap()
    });
    for case in cases().chain(larger) {
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

mod scalars {
    macro_rules! of {
        ($($name:ident $scalar:ty),*) => {$(
            #[test]
            fn $name() {
                super::estimates_are_near_the_norm_and_not_above::<$scalar>();
                super::structured_matrices::<$scalar>();
                super::lanes_agree::<$scalar>();
                super::every_storage_triangle_and_order::<$scalar>();
            }
        )*};
    }
    of!(f32 f32, f64 f64, c64 faer::c32, c128 faer::c64);
}

#[test]
fn what_is_singular_or_no_number() {
    let n = 12;
    for case in cases().filter(|c| c.n == n && !c.lower) {
        let mut a = random::<f64>(n, n, 5);
        let norm = norm1(&a);
        (0..n).for_each(|i| a[(i, 7)] = 0.0);
        let (zero, of_factor, of_solve) = by_lu(case, &a);
        assert!(zero <= norm && zero > 0.0, "{case:?}");
        assert_eq!((of_factor, of_solve), (0.0, 0.0), "{case:?}: singular");
        for (what, value, expected) in
            [("NaN", f64::NAN, f64::NAN), ("infinite", f64::INFINITY, 0.0)]
        {
            a[(3, 7)] = value;
            let (norm, of_factor, of_solve) = by_lu(case, &a);
            let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan();
            assert!(same(norm, value), "{case:?} {what}: norm {norm}");
            assert!(same(of_factor, expected) && same(of_solve, expected), "{case:?} {what}");
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

#[test]
fn moduli_at_the_ends_of_the_range() {
    // Squares of these over- and underflow; the diagonal counts as real.
    let n = 6;
    for scale in [1e-300, 1e-160, 1e160, 1e300] {
        let mut random = Random(7);
        let unit_scale = Mat::<faer::c64>::from_fn(n, n, |_, _| random.scalar());
        let a = Mat::from_fn(n, n, |i, j| unit_scale[(i, j)] * faer::c64::new(scale, 0.0));
        for case in cases().filter(|c| c.n == n) {
            let (norm, rcond, _) = by_lu(case, &a);
            assert!((norm / (scale * norm1(&unit_scale)) - 1.0).abs() < 1e-14, "{case:?} {scale}");
            let exact = 1.0 / (norm1(&unit_scale) * norm1(&inverse(&unit_scale)));
            assert!((0.99..3.0).contains(&(rcond / exact)), "{case:?} {scale}");
        }
    }
}
