//! The routines of A = Q R by columns as call sites: any shape, on any number of devices.

use crate::common::case::{Place, call, run};
use crate::common::{Map, buffer, int_scalar, random, unit};
use faer::Mat;
use meshsolve::call::Buffer;
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    ranks: usize,
    storage: (&'static str, Storage),
    tile: i64,
    at: Place,
}

/// What the routines make of a matrix.
struct Made<T> {
    r: Mat<T>,
    /// None of a matrix with fewer rows than columns.
    q: Option<Mat<T>>,
    work: Vec<Vec<T>>,
    tau: Vec<T>,
    info: i32,
}

impl Case {
    /// Global (row, column) of element `at` of a rank's part of an array as A, or as a factor.
    fn place(&self, rank: usize, at: usize, is_factor: bool) -> (usize, usize) {
        let (m, columns) = (self.m, self.n / self.ranks);
        match self.storage.1 {
            _ if is_factor => (at % m, rank * columns + at / m),
            Storage::ColumnMajor => (at % m, rank * columns + at / m),
            Storage::Columns => (at / columns, rank * columns + at % columns),
            Storage::Rows => (rank * (m / self.ranks) + at / self.n, at % self.n),
        }
    }

    fn shards<T: Scalar>(&self, a: &Mat<T>) -> Vec<Vec<T>> {
        let size = self.m * self.n / self.ranks;
        let shard = |rank| (0..size).map(|at| a[self.place(rank, at, false)]).collect();
        (0..self.ranks).map(shard).collect()
    }

    fn gathered<T: Scalar>(&self, shards: &[Vec<T>], is_factor: bool) -> Mat<T> {
        let mut a = Mat::from_fn(self.m, self.n, |_, _| T::NAN);
        for (rank, shard) in shards.iter().enumerate() {
            shard.iter().enumerate().for_each(|(at, x)| a[self.place(rank, at, is_factor)] = *x);
        }
        a
    }

    /// Dimensions of A on a rank, and of a factor.
    fn dims(&self) -> ([usize; 2], [usize; 2]) {
        let (by_rows, by_columns) = ([self.m / self.ranks, self.n], [self.m, self.n / self.ranks]);
        match self.storage.1 {
            Storage::Rows => (by_rows, by_rows),
            Storage::Columns => (by_columns, [by_columns[1], by_columns[0]]),
            Storage::ColumnMajor => (by_columns, by_columns),
        }
    }

    fn run(
        &self,
        routine: &str,
        more: &[(&str, &str)],
        trans: i64,
        part: impl FnMut(usize) -> (Vec<Buffer>, Vec<Buffer>),
    ) {
        let mut part = part;
        let mut map = Map::routine(routine, self.ranks)
            .text("storage", self.storage.0)
            .int("tile", self.tile);
        for (name, value) in more {
            map = map.text(name, value);
        }
        if routine == "ormqr" {
            map = map.int("trans", trans);
        }
        run(self.at, &map, self.ranks, |rank| {
            let (args, rets) = part(rank);
            call(rank, args, rets)
        });
    }

    fn made<T: Scalar>(&self, a: &Mat<T>) -> Made<T> {
        let (Case { m, n, ranks, .. }, (dims, of_factor)) = (*self, self.dims());
        let (least, size) = (m.min(n), m * n / ranks);
        let mut given = self.shards(a);
        let kept = given.clone();
        let mut work = vec![vec![T::NAN; size]; ranks];
        let (mut tau, mut infos) = (vec![vec![T::NAN; least]; ranks], vec![-1; ranks]);
        self.run("geqrf", &[], 0, |r| {
            let rets = vec![
                buffer(&mut work[r], &dims),
                buffer(&mut tau[r], &[least]),
                int_scalar(&mut infos[r]),
            ];
            (vec![buffer(&mut given[r], &dims)], rets)
        });
        assert_eq!(format!("{given:?}"), format!("{kept:?}"), "the operand, {self:?}");
        assert!(tau.iter().all(|t| format!("{t:?}") == format!("{:?}", tau[0])), "{self:?}");
        assert!(infos.iter().all(|&info| info == infos[0]), "{self:?}");
        let mut upper = vec![vec![T::NAN; least * n / ranks]; ranks];
        self.run("qr_triangle", &[], 0, |r| {
            let ret = buffer(&mut upper[r], &[least, n / ranks]);
            let args = vec![buffer(&mut work[r], &of_factor), buffer(&mut tau[r], &[least])];
            (args, vec![ret])
        });
        let columns = n / ranks;
        let r = Mat::from_fn(least, n, |i, j| upper[j / columns][i * columns + j % columns]);
        let q = (m >= n).then(|| {
            let mut q = vec![vec![T::NAN; size]; ranks];
            self.run("orgqr", &[], 0, |r| {
                let args = vec![buffer(&mut work[r], &of_factor), buffer(&mut tau[r], &[least])];
                (args, vec![buffer(&mut q[r], &of_factor)])
            });
            self.gathered(&q, false)
        });
        Made { r, q, work, tau: tau.remove(0), info: infos[0] }
    }

    /// Q B or Q^H B, or a solution, with the same B on all ranks or columns of each.
    fn applied<T: Scalar>(
        &self,
        made: &Made<T>,
        routine: &str,
        trans: i64,
        b: &Mat<T>,
        rhs: &str,
    ) -> Mat<T> {
        let (Case { m, ranks, .. }, (_, of_factor)) = (*self, self.dims());
        let is_spread = rhs == "columns";
        let k = if is_spread { b.ncols() / ranks } else { b.ncols() };
        let first = |rank: usize| if is_spread { rank * k } else { 0 };
        let part = |rank| (0..m * k).map(|e| b[(e / k, first(rank) + e % k)]).collect();
        let mut sides: Vec<Vec<T>> = (0..ranks).map(part).collect();
        let mut work = made.work.clone();
        let (mut tau, mut infos) = (vec![made.tau.clone(); ranks], vec![made.info; ranks]);
        self.run(routine, &[("rhs", rhs)], trans, |r| {
            let x = buffer(&mut sides[r], &[m, k]);
            let mut args =
                vec![buffer(&mut work[r], &of_factor), buffer(&mut tau[r], &[made.tau.len()])];
            if routine == "qr_solve" {
                args.push(int_scalar(&mut infos[r]));
            }
            args.push(x.clone());
            (args, vec![x])
        });
        if !is_spread {
            assert!(
                sides.iter().all(|x| format!("{x:?}") == format!("{:?}", sides[0])),
                "{self:?}"
            );
        }
        Mat::from_fn(m, b.ncols(), |i, j| match is_spread {
            true => sides[j / k][i * k + j % k],
            false => sides[0][i * k + j],
        })
    }
}

fn times<T: Scalar>(a: &Mat<T>, adjoint: bool, b: &Mat<T>) -> Mat<T> {
    let (rows, inner) = if adjoint { (a.ncols(), a.nrows()) } else { (a.nrows(), a.ncols()) };
    let entry = |i, l| if adjoint { T::conj_impl(&a[(l, i)]) } else { a[(i, l)] };
    Mat::from_fn(rows, b.ncols(), |i, j| {
        (0..inner).fold(T::ZERO, |sum, l| sum + entry(i, l) * b[(l, j)])
    })
}

/// The largest difference of two columns, over the norm of the second.
fn difference<T: Scalar>(x: &Mat<T>, y: &Mat<T>) -> f64 {
    assert_eq!(x.shape(), y.shape());
    let norm = |of: &dyn Fn(usize) -> T| {
        (0..x.nrows()).map(|i| of(i).modulus().powi(2)).sum::<f64>().sqrt()
    };
    (0..x.ncols())
        .map(|j| norm(&|i| x[(i, j)] + -y[(i, j)]) / norm(&|i| y[(i, j)]).max(f64::MIN_POSITIVE))
        .fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most })
}

fn check<T: Scalar>(case: Case, a: &Mat<T>, info: i32) {
    let (Case { m, n, ranks, .. }, made) = (case, case.made(a));
    let what = format!("{} {case:?}", T::DTYPE.name());
    let bar = 10.0 * m.max(n) as f64 * unit::<T>();
    assert_eq!(made.info, info, "{what}");
    for j in 0..n {
        for i in j + 1..made.r.nrows() {
            assert!(made.r[(i, j)] == T::ZERO, "{what}: a triangle");
        }
    }
    // Q R, with as many reflectors as R has rows.
    let tall = Mat::from_fn(m, n, |i, j| if i < made.r.nrows() { made.r[(i, j)] } else { T::ZERO });
    let product = case.applied(&made, "ormqr", 0, &tall, "replicated");
    assert!(difference(&product, a) <= bar, "{what}: Q R, {}", difference(&product, a));
    // Q is unitary, and Q^H undoes it.
    let b = random::<T>(m, 2 * ranks, 29);
    for rhs in ["replicated", "columns"] {
        let there = case.applied(&made, "ormqr", 0, &b, rhs);
        let back = case.applied(&made, "ormqr", 2, &there, rhs);
        assert!(difference(&back, &b) <= bar, "{what} {rhs}: Q^H Q B");
        assert!(difference(&there, &b) > 0.1 || m == 1, "{what}: Q is no identity");
    }
    let Some(q) = &made.q else { return };
    assert!(difference(&times(q, false, &made.r), a) <= bar, "{what}: Q R with the columns of Q");
    let unit = Mat::from_fn(n, n, |i, j| if i == j { T::ONE } else { T::ZERO });
    assert!(difference(&times(q, true, q), &unit) <= bar, "{what}: Q^H Q");
    if info > 0 {
        let x = case.applied(&made, "qr_solve", 0, &b, "replicated");
        assert!(x[(0, 0)].modulus().is_nan(), "{what}: no solution");
        return;
    }
    for rhs in ["replicated", "columns"] {
        let y = case.applied(&made, "qr_solve", 0, &b, rhs);
        let x = Mat::from_fn(n, b.ncols(), |i, j| y[(i, j)]);
        // R X is the first part of Q^H B, and the rest of that is below.
        let there = case.applied(&made, "ormqr", 2, &b, rhs);
        let first = Mat::from_fn(n, b.ncols(), |i, j| there[(i, j)]);
        let again = times(&made.r, false, &x);
        assert!(difference(&again, &first) <= 1e3 * bar, "{what} {rhs}: R X");
        for (i, j) in (n..m).flat_map(|i| (0..b.ncols()).map(move |j| (i, j))) {
            assert!(y[(i, j)] == there[(i, j)], "{what} {rhs}: the residual");
        }
    }
}

fn cases(at: Place) -> impl Iterator<Item = Case> {
    // Tiles that are wide enough for packed products, with rests of rows and of columns.
    let wide =
        [(330, 130, 2, 32), (101, 101, 1, 64), (70, 150, 3, 24)].map(|(m, n, ranks, tile)| {
            let case = move |storage| Case { m, n, ranks, storage, tile, at };
            Storage::ALL.into_iter().map(case)
        });
    let wide = wide.into_iter().flatten().filter(move |_| at.is_none());
    // Narrower than a leaf, a tile and a panel; wide, with a panel that is cut; as many rows as
    // columns. Columns per rank.
    let shapes = match at {
        Some(_) => &[(7, 2), (5, 4)][..],
        None => &[(1, 1), (9, 4), (5, 5), (4, 7), (2, 1), (40, 12), (64, 70), (150, 40)],
    };
    let most = if at.is_some() { 3 } else { 8 };
    let narrow = shapes.iter().flat_map(move |&(m, columns)| {
        let few = move |ranks: &usize| *ranks <= most && columns * ranks <= 150;
        [1, 2, 3, 8].into_iter().filter(few).flat_map(move |ranks| {
            let n = columns * ranks;
            let sizes = if ranks > 1 { vec![m, n] } else { vec![m] };
            sizes.into_iter().flat_map(move |m| {
                let case = move |storage| Case { m, n, ranks, storage, tile: 3, at };
                Storage::ALL.into_iter().map(case)
            })
        })
    });
    narrow.chain(wide).filter(|case| case.storage.1 != Storage::Rows || case.m == case.n)
}

pub fn factors_in_every_storage<T: Scalar>(at: Place) {
    for case in cases(at) {
        check(case, &random::<T>(case.m, case.n, 3), 0);
    }
}

pub fn hard_matrices(at: Place) {
    // Emulated devices are slow.
    let most = if at.is_some() { 3 } else { usize::MAX };
    let sizes = |case: &Case| case.m >= 3 && (3..=40).contains(&case.n);
    for case in cases(at).filter(sizes).take(most) {
        let Case { m, n, .. } = case;
        let free = random::<f64>(m, n, 9);
        let first = |j: usize| if j == 2 { 1 } else { j };
        check(case, &Mat::from_fn(m, n, |i, j| free[(i, first(j))]), 3);
        check(case, &Mat::from_fn(m, n, |i, j| if j == 1 { 0.0 } else { free[(i, j)] }), 2);
        check(case, &Mat::from_fn(m, n, |i, j| free[(i, 0)] * (j + 1) as f64), 2);
        // Rows and columns of any size.
        for scale in [1e-200, 1e150] {
            check(case, &Mat::from_fn(m, n, |i, j| free[(i, j)] * scale), 0);
        }
        let power = |e: usize| 10f64.powi(-2 * (e % 40) as i32);
        check(case, &Mat::from_fn(m, n, |i, j| free[(i, j)] * power(j)), 0);
        check(case, &Mat::from_fn(m, n, |i, j| free[(i, j)] * power(n - j)), 0);
        if m >= n {
            continue;
        }
        let mut partly = free;
        partly[(1, 1)] = f64::NAN;
        assert_eq!(case.made(&partly).info, 2, "{case:?}");
    }
}
