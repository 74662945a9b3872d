//! Solutions with matrices of every kind: well and badly conditioned, graded, at the ends of the
//! range. Orders are around the border of a tile, on shards of every storage.

use std::iter;

use crate::common::case::{Case, call};
use crate::common::inverse::reflection;
use crate::common::{Random, buffer, for_all_scalars, int_scalar, random, residual, unit};
use faer::Mat;
use meshsolve::layout::Storage;
use meshsolve::scalar::{DType, Scalar};

/// The matrices of LAPACK's test generators, and matrices with known effects on solvers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Random,
    /// Kac, Murdock and Szegő: 2^-|i-j|; another power above the diagonal for a matrix without
    /// symmetry.
    Kms,
    /// min(i, j) + 1.
    Minimum,
    /// 1 / (i + j + 1), the worst conditioned.
    Hilbert,
    Dominant,
    /// Random, scaled so that norms are near the ends of the range.
    Tiny,
    Huge,
    /// With a prescribed spectrum, largest 1, smallest 1 / condition.
    Spectrum(Shape, Condition),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    OneSmall,
    OneLarge,
    Geometric,
    Arithmetic,
    RandomLogarithms,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition {
    Two,
    Sqrt,
    Full,
}

const KINDS: [Kind; 12] = [
    Kind::Random,
    Kind::Kms,
    Kind::Minimum,
    Kind::Hilbert,
    Kind::Dominant,
    Kind::Tiny,
    Kind::Huge,
    Kind::Spectrum(Shape::OneSmall, Condition::Two),
    Kind::Spectrum(Shape::OneLarge, Condition::Sqrt),
    Kind::Spectrum(Shape::Geometric, Condition::Full),
    Kind::Spectrum(Shape::Arithmetic, Condition::Sqrt),
    Kind::Spectrum(Shape::RandomLogarithms, Condition::Full),
];

/// Orders for each rank, around a tile of 16, and numbers of ranks.
const SIZES: [usize; 5] = [1, 15, 16, 17, 37];
const RANKS: [usize; 4] = [1, 2, 3, 8];
const TILE: i64 = 16;

fn is_single<T: Scalar>() -> bool {
    matches!(T::DTYPE, DType::F32 | DType::C64)
}

/// The factor that brings the norms of a matrix near an end of the range.
fn extreme<T: Scalar>(kind: Kind, n: usize) -> f64 {
    let (least, most) = if is_single::<T>() {
        (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))
    } else {
        (f64::MIN_POSITIVE, f64::MAX)
    };
    if kind == Kind::Tiny { least * 1e6 } else { most / (1e3 * (n * n) as f64) }
}

fn scaled<T: Scalar>(a: &Mat<T>, factor: f64) -> Mat<T> {
    let factor = T::from_f64_impl(factor);
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * factor)
}

fn spectrum<T: Scalar>(shape: Shape, condition: Condition, n: usize, full: f64) -> Vec<f64> {
    let condition = match condition {
        Condition::Two => 2.0,
        Condition::Sqrt => (full / unit::<T>()).sqrt(),
        Condition::Full => full / unit::<T>(),
    };
    let mut draws = Random(5);
    (0..n)
        .map(|i| {
            let t = i as f64 / n.saturating_sub(1).max(1) as f64;
            match shape {
                Shape::OneSmall => {
                    if i + 1 < n {
                        1.0
                    } else {
                        1.0 / condition
                    }
                }
                Shape::OneLarge => {
                    if i > 0 {
                        1.0 / condition
                    } else {
                        1.0
                    }
                }
                Shape::Geometric => condition.powf(-t),
                Shape::Arithmetic => 1.0 - t * (1.0 - 1.0 / condition),
                Shape::RandomLogarithms => {
                    (-draws.scalar::<f64>().abs().min(1.0) * condition.ln()).exp()
                }
            }
        })
        .collect()
}

/// A product of three random reflections.
fn unitary<T: Scalar>(n: usize, seed: u64) -> Mat<T> {
    (0..3).fold(Mat::identity(n, n), |q, i| q * reflection::<T>(n, seed + i))
}

/// The matrix, without symmetry if its kind has none.
fn general<T: Scalar>(kind: Kind, n: usize) -> Mat<T> {
    let each =
        |f: &dyn Fn(usize, usize) -> f64| Mat::from_fn(n, n, |i, j| T::from_f64_impl(f(i, j)));
    match kind {
        Kind::Random => random(n, n, 3),
        Kind::Kms => each(&|i, j| (if i < j { 0.25f64 } else { 0.5 }).powi(i.abs_diff(j) as i32)),
        Kind::Minimum => each(&|i, j| (i.min(j) + 1) as f64),
        Kind::Hilbert => each(&|i, j| 1.0 / (i + j + 1) as f64),
        Kind::Dominant => dominant(random(n, n, 3)),
        Kind::Tiny | Kind::Huge => scaled(&random(n, n, 3), extreme::<T>(kind, n)),
        Kind::Spectrum(shape, condition) => {
            let values = spectrum::<T>(shape, condition, n, 0.1);
            with_values(&unitary(n, 3), &values, &unitary(n, 7))
        }
    }
}

/// The Hermitian positive definite matrix; `None` for kinds that cannot be.
fn definite<T: Scalar>(kind: Kind, n: usize) -> Option<Mat<T>> {
    let well = || {
        let g = random::<T>(n, n, 3);
        scaled(&(&g * g.adjoint()), 1.0 / n as f64) + Mat::<T>::identity(n, n)
    };
    let a = match kind {
        Kind::Hilbert => return None,
        Kind::Random => well(),
        Kind::Tiny | Kind::Huge => scaled(&well(), extreme::<T>(kind, n)),
        Kind::Dominant => {
            let g = random::<T>(n, n, 3);
            dominant(&g + g.adjoint())
        }
        Kind::Spectrum(shape, condition) => {
            let q = unitary(n, 3);
            with_values(&q, &spectrum::<T>(shape, condition, n, 0.01), &q.adjoint().to_owned())
        }
        Kind::Kms => Mat::from_fn(n, n, |i, j| T::from_f64_impl(0.5f64.powi(i.abs_diff(j) as i32))),
        Kind::Minimum => general(kind, n),
    };
    // Hermitian to the last bit.
    let half = T::from_f64_impl(0.5);
    Some(Mat::from_fn(n, n, |i, j| (a[(i, j)] + T::conj_impl(&a[(j, i)])) * half))
}

fn dominant<T: Scalar>(mut a: Mat<T>) -> Mat<T> {
    for j in 0..a.ncols() {
        let sum: f64 = (0..a.nrows()).map(|i| a[(i, j)].magnitude()).sum();
        a[(j, j)] += T::from_f64_impl(2.0 * sum + 1.0);
    }
    a
}

fn with_values<T: Scalar>(left: &Mat<T>, values: &[f64], right: &Mat<T>) -> Mat<T> {
    let graded = |i, j| left[(i, j)] * T::from_f64_impl(values[j]);
    Mat::from_fn(left.nrows(), values.len(), graded) * right
}

/// All kinds, sizes and ranks; storages and triangles in turn.
fn cases() -> impl Iterator<Item = (Kind, Case)> {
    let sizes =
        SIZES.into_iter().flat_map(|size| RANKS.into_iter().map(move |ranks| (size, ranks)));
    let all = KINDS.into_iter().flat_map(move |kind| sizes.clone().map(move |s| (kind, s)));
    let turns = Storage::ALL.into_iter().flat_map(|s| [(s, false), (s, true)]).collect::<Vec<_>>();
    all.enumerate().map(move |(i, (kind, (size, ranks)))| {
        let (storage, lower) = turns[i % turns.len()];
        let (n, order) = (size * ranks, ["natural", "cyclic"][i / turns.len() % 2]);
        (kind, Case { n, ranks, storage, lower, trans: 0, order, at: None })
    })
}

/// Solves with the given part of A, and returns the worst residual of all ranks.
fn solved<T: Scalar>(case: Case, routine: &str, given: &Mat<T>, a: &Mat<T>) -> f64 {
    let Case { n, ranks, .. } = case;
    let (dims, _) = case.dims();
    let (rhs, scale) = (3, (0..n).map(|i| a[(i, i)].magnitude()).fold(0.0, f64::max));
    let b = scaled(&random::<T>(n, rhs, 23), scale.max(f64::MIN_POSITIVE));
    let row_major: Vec<T> = (0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect();
    let (mut work, mut xs) = (case.shards(given), vec![row_major; ranks]);
    let mut infos = vec![-1; ranks];
    let map = case.map(routine).text("rhs", "replicated").int("tile", TILE);
    case.run_with(map, |r| {
        let (w, x) = (buffer(&mut work[r], &dims), buffer(&mut xs[r], &[n, rhs]));
        call(r, vec![w.clone(), x.clone()], vec![w, x, int_scalar(&mut infos[r])])
    });
    assert!(infos.iter().all(|&info| info == 0), "{case:?}: {infos:?}");
    // Sums of squares stay within the range.
    let (a, b) = (scaled(a, 1.0 / scale), scaled(&b, 1.0 / scale));
    let worse = |worst: f64, ratio: f64| if worst > ratio { worst } else { ratio };
    let ratios = xs.iter().map(|x| residual(&a, &Mat::from_fn(n, rhs, |i, j| x[i * rhs + j]), &b));
    iter::once(0.0).chain(ratios).reduce(worse).unwrap()
}

/// The limits of the acceptance tests. Order 1 gets the higher one, because it exceeds the lower
/// one in LAPACK too.
fn limit(kind: Kind, n: usize) -> f64 {
    let well = match kind {
        Kind::Minimum | Kind::Hilbert => false,
        Kind::Spectrum(_, condition) => condition == Condition::Two,
        _ => true,
    };
    if well && n > 1 { 3.0 } else { 30.0 }
}

fn general_matrices<T: Scalar>() {
    for (kind, case) in cases() {
        let a = general::<T>(kind, case.n);
        let ratio = solved(case, "gesv", &a, &a);
        assert!(ratio <= limit(kind, case.n), "{kind:?} {case:?} {}: {ratio}", T::DTYPE.name());
    }
}

fn positive_definite_matrices<T: Scalar>() {
    for (kind, case) in cases() {
        let Some(a) = definite::<T>(kind, case.n) else { continue };
        let read = |i, j| if case.lower { i >= j } else { i <= j };
        let given =
            Mat::from_fn(case.n, case.n, |i, j| if read(i, j) { a[(i, j)] } else { T::NAN });
        let ratio = solved(case, "posv", &given, &a);
        assert!(ratio <= limit(kind, case.n), "{kind:?} {case:?} {}: {ratio}", T::DTYPE.name());
    }
}

for_all_scalars!(general_matrices positive_definite_matrices);
