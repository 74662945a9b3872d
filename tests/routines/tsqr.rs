//! `gels`, `gelsr`, `geqr`, `tsreduce` and `tsrest` as call sites: tall matrices by rows, on any number of devices.

use crate::common::case::{Place, call, run};
use crate::common::{Map, at as array, buffer, int_scalar, random, real_operand, unit};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::{DType, Scalar};

/// What the routines give on one rank.
#[derive(Clone)]
struct Answer<T> {
    x: Mat<T>,
    residuals: Vec<f64>,
    r: Mat<T>,
    info: i32,
}

/// Runs `gels` and `gelsr`, which must give the same, or `geqr` without right-hand sides; all ranks
/// must have the same.
fn answer<T: Scalar>(
    at: Place,
    ranks: usize,
    (name, storage): (&str, Storage),
    a: &Mat<T>,
    b: &Mat<T>,
) -> Answer<T> {
    with_ridge(at, ranks, (name, storage), a, b, 0.0)
}

/// The same with a ridge term.
fn with_ridge<T: Scalar>(
    at: Place,
    ranks: usize,
    (name, storage): (&str, Storage),
    a: &Mat<T>,
    b: &Mat<T>,
    ridge: f64,
) -> Answer<T> {
    let ((m, n), k) = (a.shape(), b.ncols());
    let rows = m / ranks;
    let by_rows = |a: &Mat<T>, rank: usize| -> Vec<T> {
        let n = a.ncols();
        (0..rows * n).map(|e| a[(rank * rows + e / n, e % n)]).collect()
    };
    let of_a = |rank| match storage {
        Storage::ColumnMajor => (0..rows * n).map(|e| a[(e % rows, e / rows)]).collect(),
        _ => by_rows(a, rank),
    };
    let mut shards: Vec<Vec<T>> = (0..ranks).map(of_a).collect();
    let mut sides: Vec<Vec<T>> = (0..ranks).map(|rank| by_rows(b, rank)).collect();
    let kept = shards.clone();
    let (mut x, mut r) = (vec![vec![T::NAN; n * k]; ranks], vec![vec![T::NAN; n * n]; ranks]);
    let mut ridges = vec![real_operand::<T>(ridge); ranks];
    let (mut residuals, mut infos) = (vec![vec![-1.0f64; k]; ranks], vec![-1; ranks]);
    let mut found = Vec::new();
    for routine in if k > 0 { &["gels", "gelsr"][..] } else { &["geqr"] } {
        let map = Map::routine(routine, ranks).text("storage", name).int("tile", 3);
        x.iter_mut().for_each(|x| x.fill(T::NAN));
        residuals.iter_mut().for_each(|residuals| residuals.fill(-1.0));
        infos.fill(-1);
        run(at, &map, ranks, |rank| {
            let mut args = vec![buffer(&mut shards[rank], &[rows, n])];
            let mut rets = vec![int_scalar(&mut infos[rank])];
            if *routine != "gels" {
                rets.insert(0, buffer(&mut r[rank], &[n, n]));
            }
            if k > 0 {
                args.push(array(ridges[rank].as_mut_ptr(), T::DTYPE.real(), &[]));
                args.push(buffer(&mut sides[rank], &[rows, k]));
                let squares = array(residuals[rank].as_mut_ptr(), T::DTYPE.real(), &[k]);
                rets.splice(0..0, [buffer(&mut x[rank], &[n, k]), squares]);
            }
            call(rank, args, rets)
        });
        found.push(format!("{x:?} {residuals:?} {infos:?}"));
    }
    assert!(found.first() == found.last(), "the same without R");
    let bits = |m: &[Vec<T>]| format!("{m:?}");
    assert_eq!(bits(&shards), bits(&kept), "only read");
    for rank in 1..ranks {
        assert_eq!(bits(&[x[rank].clone(), r[rank].clone()]), bits(&[x[0].clone(), r[0].clone()]));
        assert!(infos[rank] == infos[0], "info of all ranks");
    }
    let real = |i: usize| match T::DTYPE.real() {
        DType::F32 => f64::from(bytemuck::cast_slice::<_, f32>(&residuals[0])[i]),
        _ => residuals[0][i],
    };
    Answer {
        x: Mat::from_fn(n, k, |i, j| x[0][i * k + j]),
        residuals: (0..k).map(real).collect(),
        r: Mat::from_fn(n, n, |i, j| r[0][i * n + j]),
        info: infos[0],
    }
}

/// The matrices, by ranks, with their storages: what is by columns is on one device.
fn cases(at: Place) -> impl Iterator<Item = (usize, (&'static str, Storage))> {
    let most = if at.is_some() { 3 } else { 8 };
    [1, 2, 3, 8].into_iter().filter(move |&ranks| ranks <= most).flat_map(|ranks| {
        let kept = move |(_, storage): &(&str, Storage)| ranks == 1 || *storage == Storage::Rows;
        Storage::ALL.into_iter().filter(kept).map(move |storage| (ranks, storage))
    })
}

/// |x^H y| for columns of matrices, over their norms.
fn product<T: Scalar>(x: &Mat<T>, i: usize, y: &Mat<T>, j: usize) -> T {
    (0..x.nrows()).fold(T::ZERO, |sum, l| sum + T::conj_impl(&x[(l, i)]) * y[(l, j)])
}

fn norm<T: Scalar>(x: &Mat<T>, j: usize) -> f64 {
    product(x, j, x, j).modulus().sqrt()
}

fn minus<T: Scalar>(b: &Mat<T>, a: &Mat<T>, x: &Mat<T>) -> Mat<T> {
    Mat::from_fn(b.nrows(), b.ncols(), |i, j| {
        (0..a.ncols()).fold(b[(i, j)], |sum, l| sum + -(a[(i, l)] * x[(l, j)]))
    })
}

fn check<T: Scalar>(a: &Mat<T>, b: &Mat<T>, found: &Answer<T>, what: &str) {
    let ((m, n), u) = (a.shape(), unit::<T>());
    let bar = 10.0 * m.max(n) as f64 * u;
    assert_eq!(found.info, 0, "{what}");
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        if i > j {
            assert!(found.r[(i, j)] == T::ZERO, "{what}: a triangle");
        }
        let there = product(&found.r, i, &found.r, j) + -product(a, i, a, j);
        let size = norm(a, i) * norm(a, j);
        assert!(there.modulus() <= bar * size, "{what}: R^H R at ({i}, {j})");
    }
    let r = minus(b, a, &found.x);
    for j in 0..b.ncols() {
        let size = (0..n).fold(norm(b, j), |size, i| size + norm(a, i) * found.x[(i, j)].modulus());
        for i in 0..n {
            let there = product(a, i, &r, j).modulus();
            assert!(
                there <= bar * norm(a, i) * size,
                "{what}: normal equation {i} of {j}: {there}"
            );
        }
        let (got, exact) = (found.residuals[j].sqrt(), norm(&r, j));
        assert!((got - exact).abs() <= bar * size, "{what}: residual {j}: {got} and not {exact}");
    }
}

pub fn least_squares_of_tall_matrices<T: Scalar>(at: Place) {
    for (ranks, storage) in cases(at) {
        // Narrower than a leaf, a panel and more; as many rows as columns; chunks and their rests.
        let shapes = match at {
            Some(_) => &[(3, 1, 1), (9, 4, 2), (10, 10, 0)][..],
            None => &[(1, 1, 1), (9, 4, 2), (5, 5, 1), (40, 12, 0), (90, 70, 5), (700, 33, 3)],
        };
        for &(m, n, k) in shapes {
            let m = m.max(n) * ranks;
            let (a, b) = (random::<T>(m, n, 3), random::<T>(m, k, 5));
            let what = format!("{} {m} x {n}, {k} on {ranks} {storage:?}", T::DTYPE.name());
            check(&a, &b, &answer(at, ranks, storage, &a, &b), &what);
            let again = answer(at, ranks, storage, &a, &b);
            let first = answer(at, ranks, storage, &a, &b);
            assert_eq!(format!("{:?}", (again.x, again.r)), format!("{:?}", (first.x, first.r)));
        }
    }
}

pub fn ridge_terms<T: Scalar>(at: Place) {
    for (ranks, storage) in cases(at) {
        let (m, n, ridge) = (9 * ranks, 4, 0.25);
        let (a, b) = (random::<T>(m, n, 3), random::<T>(m, 2, 5));
        let found = with_ridge(at, ranks, storage, &a, &b, ridge);
        // That of a longer matrix.
        let root = T::from_f64_impl(0.5);
        let longer = Mat::from_fn(m + n, n, |i, j| match i.checked_sub(m) {
            None => a[(i, j)],
            Some(i) => {
                if i == j {
                    root
                } else {
                    T::ZERO
                }
            }
        });
        let padded = Mat::from_fn(m + n, 2, |i, j| if i < m { b[(i, j)] } else { T::ZERO });
        let rest = minus(&b, &a, &found.x);
        for j in 0..2 {
            let exact = norm(&rest, j);
            assert!((found.residuals[j].sqrt() - exact).abs() <= 100.0 * unit::<T>() * exact);
        }
        // The check is of the longer matrix, with the ridge term.
        let with_term = |j| norm(&rest, j).powi(2) + ridge * norm(&found.x, j).powi(2);
        let longest = Answer { residuals: (0..2).map(with_term).collect(), ..found };
        check(&longer, &padded, &longest, &format!("{} {ranks} {storage:?}", T::DTYPE.name()));
        // It makes dependent columns free.
        let equal = Mat::from_fn(m, n, |i, _| a[(i, 0)]);
        assert_eq!(with_ridge(at, ranks, storage, &equal, &b, ridge).info, 0);
        assert_eq!(with_ridge(at, ranks, storage, &equal, &b, 0.0).info, 2);
    }
}

pub fn columns_that_depend_on_others(at: Place) {
    let (m, n) = (24, 5);
    for (ranks, storage) in cases(at) {
        let free = random::<f64>(m, n, 9);
        let b = random::<f64>(m, 2, 7);
        let zero = Mat::from_fn(m, n, |i, j| if j == 3 { 0.0 } else { free[(i, j)] });
        let equal = Mat::from_fn(m, n, |i, j| free[(i, if j == 3 { 1 } else { j })]);
        let rank_1 = Mat::from_fn(m, n, |i, j| free[(i, 0)] * (j + 1) as f64);
        for (a, info) in [(zero, 4), (equal, 4), (rank_1, 2)] {
            let found = answer(at, ranks, storage, &a, &b);
            assert_eq!(found.info, info, "{ranks} {storage:?}");
            let unknown = found.x.col_iter().flat_map(|x| x.iter().copied().collect::<Vec<_>>());
            let unknown: Vec<f64> = unknown.chain(found.residuals).collect();
            assert!(unknown.len() == 12 && unknown.iter().all(|x| x.is_nan()), "{unknown:?}");
            assert!((0..n).all(|j| found.r[(0, j)].is_finite()), "R is there");
        }
        // Small columns are no dependent ones. Powers of two make no other R, but for their factors.
        let (clean, power) = (answer(at, ranks, storage, &free, &b), |j: usize| {
            [1.0, 2f64.powi(-400), 2f64.powi(-800), 2f64.powi(900), 2f64.powi(-30)][j]
        });
        let graded = Mat::from_fn(m, n, |i, j| free[(i, j)] * power(j));
        let found = answer(at, ranks, storage, &graded, &b);
        assert_eq!(found.info, 0);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let (x, y) = (found.r[(i, j)] / power(j), clean.r[(i, j)]);
            assert!((x - y).abs() <= 1e-13, "{ranks} {storage:?} ({i}, {j}): {x} and not {y}");
        }
        // What is no number in A is reported.
        let mut partly = free.clone();
        partly[(7, 2)] = f64::INFINITY;
        assert_eq!(answer(at, ranks, storage, &partly, &b).info, 3);
        // What is no number in B stays in its column.
        let mut partly = b.clone();
        partly[(7, 0)] = f64::NAN;
        let found = answer(at, ranks, storage, &free, &partly);
        for i in 0..n {
            assert!(found.x[(i, 0)].is_nan(), "{:?}", found.x);
            let (x, y) = (found.x[(i, 1)], clean.x[(i, 1)]);
            assert!((x - y).abs() <= 1e-13 * y.abs(), "{ranks} {storage:?}: {x} and not {y}");
        }
        assert!(found.residuals[0].is_nan());
        // cuSOLVER reduces right-hand sides, too.
        assert!(at.is_some() || found.residuals[1] == clean.residuals[1]);
    }
}

/// Z, the squares and R of `tsreduce`, or R of `tsrest` without right-hand sides.
fn part<T: Scalar>(at: Place, ranks: usize, a: &Mat<T>, b: &Mat<T>) -> (Mat<T>, Vec<f64>, Mat<T>) {
    let ((m, n), k) = (a.shape(), b.ncols());
    let rows = m / ranks;
    let shards = |x: &Mat<T>| -> Vec<Vec<T>> {
        let of_rank = |rank: usize| {
            let elements = 0..rows * x.ncols();
            elements.map(|e| x[(rank * rows + e / x.ncols(), e % x.ncols())]).collect()
        };
        (0..ranks).map(of_rank).collect()
    };
    let (mut of_a, mut of_b) = (shards(a), shards(b));
    let (mut z, mut r) = (vec![vec![T::NAN; n * k]; ranks], vec![vec![T::NAN; n * n]; ranks]);
    let mut squares = vec![vec![-1.0f64; k]; ranks];
    let map = Map::routine(if k > 0 { "tsreduce" } else { "tsrest" }, ranks).int("tile", 3);
    run(at, &map, ranks, |rank| {
        let mut args = vec![buffer(&mut of_a[rank], &[rows, n])];
        let mut rets = vec![buffer(&mut r[rank], &[n, n])];
        if k > 0 {
            args.push(buffer(&mut of_b[rank], &[rows, k]));
            let of_w = array(squares[rank].as_mut_ptr(), T::DTYPE.real(), &[k]);
            rets.splice(0..0, [buffer(&mut z[rank], &[n, k]), of_w]);
        }
        call(rank, args, rets)
    });
    assert!(format!("{of_a:?}") == format!("{:?}", shards(a)), "only read");
    assert!((1..ranks).all(|rank| format!("{:?}", r[rank]) == format!("{:?}", r[0])));
    let square = |j: usize| match T::DTYPE.real() {
        DType::F32 => f64::from(bytemuck::cast_slice::<_, f32>(&squares[ranks - 1])[j]),
        _ => squares[ranks - 1][j],
    };
    let z = Mat::from_fn(n, k, |i, j| z[ranks - 1][i * k + j]);
    (z, (0..k).map(square).collect(), Mat::from_fn(n, n, |i, j| r[0][i * n + j]))
}

/// What is left of [A B] has its products; the first rows may stay out.
pub fn parts_of_tall_matrices<T: Scalar>(at: Place) {
    let expect = |x: T, y: T, size: f64| {
        assert!((x + -y).modulus() <= 1000.0 * unit::<T>() * size, "{x:?} and not {y:?}");
    };
    for ranks in [1, 2] {
        for (m, n, k) in [(4, 4, 1), (9, 4, 2), (90, 17, 3)] {
            let m = m * ranks;
            let (a, b) = (random::<T>(m, n, 3), random::<T>(m, k, 5));
            let (z, squares, r) = part(at, ranks, &a, &b);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                expect(product(&r, i, &r, j), product(&a, i, &a, j), norm(&a, i) * norm(&a, j));
                assert!(i <= j || r[(i, j)] == T::ZERO, "a triangle");
            }
            for (j, square) in squares.into_iter().enumerate() {
                for i in 0..n {
                    expect(product(&r, i, &z, j), product(&a, i, &b, j), norm(&a, i) * norm(&b, j));
                }
                let whole = norm(&b, j).powi(2);
                let left = T::from_f64_impl(square + norm(&z, j).powi(2));
                expect(left, T::from_f64_impl(whole), whole);
            }
            let (_, _, r) = part(at, ranks, &a, &Mat::zeros(m, 0));
            let rest = Mat::from_fn(m - n, n, |i, j| a[(n + i, j)]);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                expect(
                    product(&r, i, &r, j),
                    product(&rest, i, &rest, j),
                    norm(&a, i) * norm(&a, j),
                );
                assert!(i <= j || r[(i, j)] == T::ZERO, "a triangle");
            }
        }
    }
}

/// `order_of_a` says how many rows a matrix had before it was reduced: the bar grows with them.
pub fn rows_of_reduced_matrices(at: Place) {
    let (m, n) = (12, 3);
    let mut a = random::<f64>(m, n, 9);
    for i in 0..m {
        a[(i, 2)] = a[(i, 1)] + a[(i, 2)] * 60.0 * f64::EPSILON;
    }
    let info = |order: i64| {
        let (mut shard, mut r, mut info) =
            ((0..m * n).map(|e| a[(e / n, e % n)]).collect::<Vec<_>>(), vec![0.0; n * n], -1);
        let map = Map::routine("geqr", 1).int("order_of_a", order);
        run(at, &map, 1, |rank| {
            let rets = vec![buffer(&mut r, &[n, n]), int_scalar(&mut info)];
            call(rank, vec![buffer(&mut shard, &[m, n])], rets)
        });
        info
    };
    assert_eq!([info(0), info(1 << 20)], [0, 3]);
}
