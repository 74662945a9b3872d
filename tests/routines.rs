//! The Cholesky routines as call sites, without XLA: every storage, triangle and column order, with
//! NaN in the triangle that must not be read. `order="cyclic"` forces the redistribution that the
//! host does not need.

mod common;

use common::{Map, arrive, buffer, collect, int_scalar, outcomes, positive_definite, ratio};
use faer::Mat;
use meshsolve::call::{Buffer, Call};
use meshsolve::layout::Storage;
use meshsolve::rendezvous::CallSite;
use meshsolve::scalar::Scalar;

/// One case: how A lies, which triangle is given, in which order columns are worked on.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    ranks: usize,
    storage: (&'static str, Storage),
    lower: bool,
    order: &'static str,
}

impl Case {
    fn site(&self, routine: &str) -> CallSite {
        let map = Map::routine(routine, self.ranks)
            .text("storage", self.storage.0)
            .text("order", self.order)
            .text("rhs", "replicated")
            .int("lower", self.lower.into())
            .int("tile", 3);
        CallSite::new(&map).unwrap()
    }

    /// Global (row, column) of A at element (i, j) of a rank's shard.
    fn global(&self, rank: usize, i: usize, j: usize) -> (usize, usize) {
        let local = self.n / self.ranks;
        match self.storage.1 {
            Storage::Rows => (rank * local + i, j),
            _ => (i, rank * local + j),
        }
    }

    /// (address, row, column) of every element of a shard.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let shard = self.storage.1.shard(self.n, self.ranks);
        (0..shard.size()).map(move |l| {
            let coordinate = shard.coordinate(l).flat();
            (shard.index(l), coordinate[0], coordinate[1])
        })
    }

    fn shards<T: Scalar>(&self, a: &Mat<T>) -> Vec<Vec<T>> {
        let shard = |rank| {
            let mut memory = vec![T::NAN; self.n * self.n / self.ranks];
            for (at, i, j) in self.places() {
                memory[at] = a[self.global(rank, i, j)];
            }
            memory
        };
        (0..self.ranks).map(shard).collect()
    }

    fn gathered<T: Scalar>(&self, shards: &[Vec<T>]) -> Mat<T> {
        let mut a = Mat::from_fn(self.n, self.n, |_, _| T::NAN);
        for (rank, memory) in shards.iter().enumerate() {
            for (at, i, j) in self.places() {
                a[self.global(rank, i, j)] = memory[at];
            }
        }
        a
    }

    /// Dimensions of A on a rank, and of its factor.
    fn dims(&self) -> ([usize; 2], [usize; 2]) {
        let (tall, wide) = ([self.n, self.n / self.ranks], [self.n / self.ranks, self.n]);
        match self.storage.1 {
            Storage::Rows => (wide, wide),
            Storage::Columns => (tall, wide),
            Storage::ColumnMajor => (tall, tall),
        }
    }

    /// Lets every rank arrive with the operands and results that `part` gives it.
    fn run(&self, routine: &str, mut part: impl FnMut(usize) -> Call) {
        let site = self.site(routine);
        let (to, from) = outcomes();
        for rank in 0..self.ranks {
            arrive(&site, 1, part(rank), &to);
        }
        for (rank, outcome) in collect(&from, self.ranks) {
            outcome.unwrap_or_else(|e| panic!("{self:?} {routine} rank {rank}: {e}"));
        }
    }
}

fn cases() -> impl Iterator<Item = Case> {
    [(1, 1), (6, 2), (7, 1), (12, 3), (20, 2), (24, 8)].into_iter().flat_map(|(n, ranks)| {
        Storage::ALL.into_iter().flat_map(move |storage| {
            [false, true].into_iter().flat_map(move |lower| {
                ["natural", "cyclic"].map(|order| Case { n, ranks, storage, lower, order })
            })
        })
    })
}

fn call(rank: usize, args: Vec<Buffer>, rets: Vec<Buffer>) -> Call {
    Call { rank, device: rank as i32, args, rets }
}

fn factor_solve_unpack_pack<T: Scalar + std::ops::Mul<Output = T>>() {
    for case in cases() {
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

        // All at once.
        let (mut work, mut xs) = (case.shards(&given), vec![row_major.clone(); ranks]);
        case.run("posv", |r| {
            let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, rhs]));
            call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
        });
        check(&xs, "posv");

        // Factor, then solve; the operand of potrf is not its result and stays as it is.
        let mut kept = case.shards(&given);
        let mut work = vec![vec![T::NAN; n * n / ranks]; ranks];
        case.run("potrf", |r| {
            let (from, to) = (buffer(&mut kept[r], &dims), buffer(&mut work[r], &dims));
            call(r, vec![from], vec![to, int_scalar(&mut infos[r])])
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
        case.run("unpack", |r| {
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

        // And back, without what the other triangle holds.
        let only = Mat::from_fn(n, n, |i, j| {
            let read = if lower { i >= j } else { i <= j };
            if read { whole[(i, j)] } else { T::NAN }
        });
        let mut c = case.shards(&only);
        case.run("pack", |r| {
            let c = buffer(&mut c[r], &dims);
            call(r, vec![c.clone()], vec![c])
        });
        solve(&mut c, "pack, potrs");
    }
}

mod every_storage_triangle_and_order {
    #[test]
    fn f32() {
        super::factor_solve_unpack_pack::<f32>();
    }
    #[test]
    fn f64() {
        super::factor_solve_unpack_pack::<f64>();
    }
    #[test]
    fn c64() {
        super::factor_solve_unpack_pack::<faer::c32>();
    }
    #[test]
    fn c128() {
        super::factor_solve_unpack_pack::<faer::c64>();
    }
}
