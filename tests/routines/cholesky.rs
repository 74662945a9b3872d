//! The Cholesky routines as call sites, without XLA: every storage, triangle and distribution, with
//! NaN in the triangle that must not be read. `order="cyclic"` forces the redistribution that CPU
//! devices do not need.

use crate::common::case::{Case, Place, call, cases};
use crate::common::{buffer, int_scalar, positive_definite, ratio, real_scalar};
use faer::Mat;
use meshsolve::scalar::Scalar;

pub fn cholesky_in_every_storage<T: Scalar>(at: Place) {
    for case in cases(at) {
        let Case { n, ranks, lower, .. } = case;
        let a = positive_definite::<T>(n, 3 + n as u64);
        let given = Mat::from_fn(n, n, |i, j| {
            let read = if lower { i >= j } else { i <= j };
            if read { a[(i, j)] } else { T::NAN }
        });
        let (rhs, (dims, factor_dims)) = (2, case.dims());
        let b = Mat::<T>::from_fn(n, rhs, |i, j| T::from_f64_impl((i + 3 * j) as f64 - 2.5));
        let row_major: Vec<T> = (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
        let mut infos = vec![-1; ranks];
        let check = |xs: &[Vec<T>], what: &str| {
            for x in xs {
                let x = Mat::from_fn(n, rhs, |i, j| x[i * rhs + j]);
                assert!(ratio(&(&a * &x), &b) < 30.0, "{case:?} {} {what}", T::DTYPE.name());
            }
        };

        // In one call.
        for distribution in ["replicated", "columns"] {
            let (mut work, mut xs) = (case.shards(&given), vec![row_major.clone(); ranks]);
            case.run_with(case.map("posv").text("rhs", distribution), |r| {
                let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, rhs]));
                call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
            });
            check(&xs, "posv");
        }

        // Factor, then solve. The operand of potrf is not its result and stays unchanged.
        let mut kept = case.shards(&given);
        let mut work = vec![vec![T::NAN; n * n / ranks]; ranks];
        let mut norms = vec![0.0; ranks];
        case.run("potrf", |r| {
            let (from, to) = (buffer(&mut kept[r], &dims), buffer(&mut work[r], &dims));
            let norm = real_scalar::<T>(&mut norms[r]);
            call(r, vec![from], vec![to, int_scalar(&mut infos[r]), norm])
        });
        assert!(infos.iter().all(|&i| i == 0), "{case:?}");
        let same = |x: &T, y: &T| x == y || x.magnitude().is_nan() && y.magnitude().is_nan();
        let before = case.shards(&given);
        assert!(kept.iter().flatten().zip(before.iter().flatten()).all(|(x, y)| same(x, y)));
        let mut solve = |work: &mut Vec<Vec<T>>, what: &str| {
            let mut bs = vec![row_major.clone(); ranks];
            let mut xs = bs.clone();
            case.run("potrs", |r| {
                let args = vec![
                    buffer(&mut work[r], &factor_dims),
                    int_scalar(&mut infos[r]),
                    buffer(&mut bs[r], &[n, rhs]),
                ];
                call(r, args, vec![buffer(&mut xs[r], &[n, rhs])])
            });
            check(&xs, what);
        };
        solve(&mut work, "potrs");

        // To scipy's form: the named triangle of c holds L or U.
        let mut c = vec![vec![T::NAN; n * n / ranks]; ranks];
        let mut zero = vec![0; ranks];
        case.run("cholesky_to_scipy", |r| {
            let args = vec![buffer(&mut work[r], &factor_dims), int_scalar(&mut zero[r])];
            call(r, args, vec![buffer(&mut c[r], &factor_dims)])
        });
        let whole = case.gathered(&c);
        let l = Mat::<T>::from_fn(n, n, |i, j| match (i >= j, lower) {
            (false, _) => T::ZERO,
            (true, true) => whole[(i, j)],
            (true, false) => T::conj_impl(&whole[(j, i)]),
        });
        assert!(ratio(&(&l * l.adjoint()), &a) < 3.0, "{case:?} {} unpack", T::DTYPE.name());

        // And back, with NaN in the other triangle.
        let only = Mat::from_fn(n, n, |i, j| {
            let read = if lower { i >= j } else { i <= j };
            if read { whole[(i, j)] } else { T::NAN }
        });
        let mut c = case.shards(&only);
        case.run("cholesky_from_scipy", |r| {
            let c = buffer(&mut c[r], &dims);
            call(r, vec![c.clone()], vec![c])
        });
        solve(&mut c, "pack, potrs");
    }
}
