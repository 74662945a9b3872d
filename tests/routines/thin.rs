//! `tsqr`, `tsqrf` and `geqr` as call sites: Q or its reflectors, and R, of tall matrices by rows, on
//! any number of devices.

use crate::common::case::{Place, call, run};
use crate::common::{Map, buffer, int_scalar, random, unit};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;

/// The matrices, by ranks: what is by columns is on one device.
fn cases(at: Place) -> impl Iterator<Item = (usize, (&'static str, Storage))> {
    let most = if at.is_some() { 3 } else { 8 };
    [1, 2, 3, 8].into_iter().filter(move |&ranks| ranks <= most).flat_map(|ranks| {
        let kept = move |(_, storage): &(&str, Storage)| ranks == 1 || *storage == Storage::Rows;
        Storage::ALL.into_iter().filter(kept).map(move |storage| (ranks, storage))
    })
}

/// (Q, R, info) of `tsqr`; `geqr` must find the same R, bit by bit, and leave A as it is. `tsqrf` must
/// have that R, and reflectors of the same Q.
fn answer<T: Scalar>(
    at: Place,
    ranks: usize,
    (name, storage): (&str, Storage),
    a: &Mat<T>,
) -> (Mat<T>, Mat<T>, i32) {
    let (m, n) = a.shape();
    let rows = m / ranks;
    let place = |rank: usize, e: usize| match storage {
        Storage::ColumnMajor => (e % rows, e / rows),
        _ => (rank * rows + e / n, e % n),
    };
    let shard = |rank| (0..rows * n).map(|e| a[place(rank, e)]).collect::<Vec<T>>();
    let mut shards: Vec<Vec<T>> = (0..ranks).map(shard).collect();
    let kept = shards.clone();
    let map = |routine| Map::routine(routine, ranks).text("storage", name).int("tile", 3);
    let found = ["geqr", "tsqr", "tsqrf"].map(|routine| {
        let (mut r, mut infos) = (vec![vec![T::NAN; n * n]; ranks], vec![-1; ranks]);
        let mut t = vec![vec![T::NAN; n * n]; ranks];
        let mut q = vec![vec![T::NAN; rows * n]; ranks];
        run(at, &map(routine), ranks, |rank| {
            let mut rets = vec![buffer(&mut r[rank], &[n, n]), int_scalar(&mut infos[rank])];
            if routine == "tsqrf" {
                rets.insert(1, buffer(&mut t[rank], &[n, n]));
            }
            if routine != "geqr" {
                rets.insert(0, buffer(&mut q[rank], &[rows, n]));
            }
            call(rank, vec![buffer(&mut shards[rank], &[rows, n])], rets)
        });
        assert_eq!(format!("{shards:?}"), format!("{kept:?}"), "only read");
        for rank in 1..ranks {
            assert_eq!(format!("{:?}", r[rank]), format!("{:?}", r[0]), "R of all ranks");
            assert_eq!(infos[rank], infos[0], "info of all ranks");
            assert_eq!(format!("{:?}", t[rank]), format!("{:?}", t[0]), "T of all ranks");
        }
        let mut whole = Mat::from_fn(m, n, |_, _| T::NAN);
        for (rank, part) in q.iter().enumerate() {
            part.iter().enumerate().for_each(|(e, x)| whole[place(rank, e)] = *x);
        }
        let [r, t] = [r, t].map(|x| Mat::from_fn(n, n, |i, j| x[0][i * n + j]));
        (whole, t, r, infos[0])
    });
    let [(_, _, alone, info), (q, _, r, other), (v, t, again, third)] = found;
    assert_eq!((format!("{alone:?}"), info), (format!("{r:?}"), other), "R alone");
    assert_eq!((format!("{again:?}"), third), (format!("{r:?}"), info), "R with reflectors");
    if (0..n).all(|j| (0..m).all(|i| q[(i, j)].modulus().is_finite())) {
        check_reflectors(&v, &t, &q);
    }
    (q, r, info)
}

/// Q = I - V T V^H in its first columns, and the reflectors one after another: H = I - tau v v^H, where
/// tau is LAPACK's, 0 or at least 1.
fn check_reflectors<T: Scalar>(v: &Mat<T>, t: &Mat<T>, q: &Mat<T>) {
    let ((m, n), one) = (v.shape(), |i, j| if i == j { T::ONE } else { T::ZERO });
    let bar = 20.0 * m as f64 * unit::<T>();
    for (i, j) in (0..n).flat_map(|j| (0..=j).map(move |i| (i, j))) {
        assert_eq!(v[(i, j)], one(i, j), "V at ({i}, {j})");
        assert!(i == j || t[(j, i)] == T::ZERO, "T at ({j}, {i})");
    }
    let mut whole = Mat::from_fn(m, n, one);
    let mut product = whole.clone();
    for l in (0..n).rev() {
        let tau = t[(l, l)];
        let from_one = (tau + -T::ONE).modulus();
        assert!(tau == T::ZERO || from_one <= 1.0 + bar, "tau {tau:?}");
        for j in l..n {
            let sum = (l..m).fold(T::ZERO, |s, i| s + T::conj_impl(&v[(i, l)]) * product[(i, j)]);
            (l..m).for_each(|i| product[(i, j)] += -(v[(i, l)] * tau * sum));
        }
    }
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        for (k, l) in (0..=j).flat_map(|l| (0..=l).map(move |k| (k, l))) {
            whole[(i, j)] += -(v[(i, k)] * t[(k, l)] * T::conj_impl(&v[(j, l)]));
        }
        for found in [&whole, &product] {
            let apart = (found[(i, j)] + -q[(i, j)]).modulus();
            assert!(apart <= bar, "Q of the reflectors at ({i}, {j}): {apart}");
        }
    }
}

fn product<T: Scalar>(x: &Mat<T>, i: usize, y: &Mat<T>, j: usize) -> T {
    (0..x.nrows()).fold(T::ZERO, |sum, l| sum + T::conj_impl(&x[(l, i)]) * y[(l, j)])
}

/// The ratios of LAPACK's tests, column by column.
fn check<T: Scalar>(a: &Mat<T>, q: &Mat<T>, r: &Mat<T>, what: &str) {
    let (m, n) = a.shape();
    let bar = 10.0 * m as f64 * unit::<T>();
    for j in 0..n {
        let size = product(a, j, a, j).modulus().sqrt();
        let apart = (0..m).fold(0.0f64, |most, i| {
            let there = (0..=j).fold(-a[(i, j)], |sum, l| sum + q[(i, l)] * r[(l, j)]);
            most.max(there.modulus())
        });
        assert!(apart <= bar * size, "{what}: A - Q R in column {j}: {apart}");
        assert!((j + 1..n).all(|i| r[(i, j)] == T::ZERO), "{what}: a triangle");
        assert!(r[(j, j)].parts().1 == 0.0, "{what}: a real diagonal");
        for i in 0..=j {
            let unit = if i == j { -T::ONE } else { T::ZERO };
            let there = (product(q, i, q, j) + unit).modulus();
            assert!(there <= bar, "{what}: Q^H Q at ({i}, {j}): {there}");
        }
    }
}

/// The R of LAPACK's algorithm, column by column.
fn reference<T: Scalar>(a: &Mat<T>) -> Mat<T> {
    let (mut a, (m, n)) = (a.clone(), a.shape());
    for j in 0..n {
        if a[(j, j)].parts().1 == 0.0 && (j + 1..m).all(|i| a[(i, j)] == T::ZERO) {
            continue;
        }
        let norm = (j..m).fold(0.0, |sum, i| sum + a[(i, j)].modulus().powi(2)).sqrt();
        let beta = if a[(j, j)].parts().0 < 0.0 { norm } else { -norm };
        let mut v: Vec<T> = (0..m).map(|i| if i < j { T::ZERO } else { a[(i, j)] }).collect();
        v[j] += T::from_f64_impl(-beta);
        // H^H = I - v v^H / (v^H x): that maps x to beta e_j.
        let along = (j..m).fold(T::ZERO, |sum, i| sum + T::conj_impl(&v[i]) * a[(i, j)]);
        for l in j..n {
            let sum = (j..m).fold(T::ZERO, |sum, i| sum + T::conj_impl(&v[i]) * a[(i, l)]);
            let by = sum.divided_by(along);
            (j..m).for_each(|i| a[(i, l)] += -(v[i] * by));
        }
    }
    Mat::from_fn(n, n, |i, j| if i <= j { a[(i, j)] } else { T::ZERO })
}

pub fn thin_q_and_r_by_rows<T: Scalar>(at: Place) {
    for (ranks, storage) in cases(at) {
        // Rows of a device: as few as columns, chunks and their rests; narrower than a panel and more.
        let shapes = match at {
            Some(_) => &[(3, 1), (9, 4), (10, 10)][..],
            None => &[(1, 1), (9, 4), (5, 5), (40, 33), (70, 70), (700, 12), (90, 64)],
        };
        for &(rows, n) in shapes {
            let a = random::<T>(rows * ranks, n, 3);
            let what = format!("{} {} x {n} on {ranks} {storage:?}", T::DTYPE.name(), a.nrows());
            let (q, r, info) = answer(at, ranks, storage, &a);
            assert_eq!(info, 0, "{what}");
            check(&a, &q, &r, &what);
            let (expected, bar) = (reference(&a), 100.0 * a.nrows() as f64 * unit::<T>());
            let size = (0..n).map(|j| product(&a, j, &a, j).modulus().sqrt()).fold(0.0, f64::max);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let apart = (r[(i, j)] + -expected[(i, j)]).modulus();
                assert!(apart <= bar * size, "{what}: R at ({i}, {j}): {apart}");
            }
            let again = answer(at, ranks, storage, &a);
            assert_eq!(format!("{:?}", (q, r)), format!("{:?}", (again.0, again.1)), "{what}");
        }
    }
}

/// The entries of a matrix.
type Entry<'a> = &'a dyn Fn(usize, usize) -> f64;

/// Kinds of LAPACK's tests: Q is orthonormal whatever A is.
pub fn thin_factors_of_hard_matrices(at: Place) {
    let n = 5;
    for (ranks, storage) in cases(at) {
        let m = 9 * ranks;
        let free = random::<f64>(m, n, 9);
        let kinds: [(&str, Entry, i32); 8] = [
            ("zero", &|_, _| 0.0, 1),
            ("a column of zeros", &|i, j| if j == 3 { 0.0 } else { free[(i, j)] }, 4),
            ("equal columns", &|i, j| free[(i, if j == 3 { 1 } else { j })], 4),
            ("rank 1", &|i, j| free[(i, 0)] * (j + 1) as f64, 2),
            ("graded columns", &|i, j| free[(i, j)] * 10f64.powi(-40 * j as i32), 0),
            ("graded rows", &|i, j| free[(i, j)] * 10f64.powi(i as i32 % 20), 0),
            ("near underflow", &|i, j| free[(i, j)] * 1e-290, 0),
            ("near overflow", &|i, j| free[(i, j)] * 1e290, 0),
        ];
        for (name, entry, info) in kinds {
            let a = Mat::from_fn(m, n, entry);
            let what = format!("{name} on {ranks} {storage:?}");
            let (q, r, found) = answer(at, ranks, storage, &a);
            assert_eq!(found, info, "{what}");
            // Without the scale, whose squares are no numbers.
            let scale = match name {
                "near overflow" => 1e-290,
                "near underflow" => 1e290,
                _ => 1.0,
            };
            let scaled = |x: &Mat<f64>| Mat::from_fn(x.nrows(), n, |i, j| x[(i, j)] * scale);
            check(&scaled(&a), &q, &scaled(&r), &what);
        }
        let mut partly = free.clone();
        partly[(7, 2)] = f64::NAN;
        assert_eq!(answer(at, ranks, storage, &partly).2, 3);
    }
}
