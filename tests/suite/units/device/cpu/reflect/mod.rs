//! Reductions of rows into triangles.

use faer::reborrow::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use meshsolve::device::Op;
use meshsolve::device::cpu::blas;
use meshsolve::device::cpu::reflect::{self, Products, panel_width, scratch_elements};
use meshsolve::scalar::{DType, Scalar};

mod columns;

struct Plain;

impl<T: Scalar> Products<T> for Plain {
    fn product(&mut self, c: MatMut<T>, alpha: T, a: MatRef<T>, op: Op, b: MatRef<T>) {
        blas::gemm(c, alpha, a, op, b);
    }

    fn reflect(&mut self, v: MatRef<T>, t: MatRef<T>, r: MatMut<T>, c: MatMut<T>, w: &mut [T]) {
        reflect::reflect(self, v, t, r, c, w);
    }
}

/// `reflect::reduce` for all panels, in scratch of no numbers.
fn reduce<T: Scalar>(mut r: MatMut<T>, mut c: MatMut<T>) {
    let (n, all) = r.shape();
    let size = size_of::<T>();
    let (width, mut scratch) = (panel_width(all, size), vec![T::NAN; scratch_elements(all, size)]);
    for first in (0..n).step_by(width) {
        let k = width.min(n - first);
        let block = r.rb_mut().submatrix_mut(first, first, k, all - first);
        let right = c.rb_mut().subcols_mut(first, all - first);
        reflect::reduce(&mut Plain, block, right, &mut vec![T::NAN; k], &mut scratch);
    }
}

fn numbers<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    Mat::from_fn(rows, cols, |_, _| T::of_parts(next(), next()))
}

fn unit<T: Scalar>() -> f64 {
    if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON }
}

/// The upper triangle.
fn upper<T: Scalar>(r: &Mat<T>) -> Mat<T> {
    Mat::from_fn(r.nrows(), r.ncols(), |i, j| if i <= j { r[(i, j)] } else { T::ZERO })
}

/// Column by column, the largest of |R^H R - A^H A| over the columns' norms.
fn error<T: Scalar>(old: &Mat<T>, c: &Mat<T>, new: &Mat<T>) -> f64 {
    let product = |x: &Mat<T>, i: usize, j: usize| {
        (0..x.nrows()).fold(T::ZERO, |sum, l| sum + T::conj_impl(&x[(l, i)]) * x[(l, j)])
    };
    let norm = |j| (product(old, j, j) + product(c, j, j)).modulus().sqrt();
    let mut most = 0.0f64;
    for j in 0..old.ncols() {
        for i in 0..old.ncols() {
            let there = product(new, i, j) + -(product(old, i, j) + product(c, i, j));
            let size = norm(i) * norm(j);
            most = most.max(there.modulus() / if size > 0.0 { size } else { 1.0 });
        }
    }
    most
}

fn check<T: Scalar>(old: &Mat<T>, c: &Mat<T>, what: &str) {
    let n = old.ncols();
    let (mut r, mut v) = (old.clone(), c.clone());
    reduce(r.as_mut(), v.as_mut());
    for j in 0..n {
        for i in j + 1..n {
            assert_eq!(r[(i, j)].parts().0.to_bits(), old[(i, j)].parts().0.to_bits(), "{what}");
        }
        assert!(
            r[(j, j)].parts().1 == 0.0 || old[(j, j)].parts().1 != 0.0,
            "real diagonal, {what}"
        );
    }
    let found = error(&upper(old), c, &upper(&r));
    let bound = 4.0 * unit::<T>() * (n + c.nrows()) as f64;
    assert!(found <= bound, "{what}: {found} and not {bound}");
}

fn kinds<T: Scalar>() {
    for n in [1, 2, 7, 8, 9, 16, 17, 31, 33, 63, 64, 65, 130, 193] {
        for rows in [0, 1, 3, 8, 33, 100] {
            let what = format!("{} {n} {rows}", T::DTYPE.name());
            let (old, c) = (numbers::<T>(n, n, 3), numbers::<T>(rows, n, 5));
            check(&old, &c, &what);
            check(&Mat::from_fn(n, n, |_, _| T::ZERO), &c, &format!("zeros, {what}"));
            let same = Mat::from_fn(rows, n, |i, _| c[(i, 0)]);
            check(&old, &same, &format!("equal columns, {what}"));
        }
    }
}

#[test]
fn reduced_rows_have_the_products_of_all_rows() {
    crate::common::every_scalar!(kinds);
}

/// Columns whose squares would over- or underflow, alone and among others.
fn graded<T: Scalar>(ends: [i32; 2]) {
    let power = |e: i32| T::from_f64_impl(2f64.powi(e));
    let (small, large) = (ends[0], ends[1]);
    for scales in [
        [small; 4],
        [large; 4],
        [small, 0, large, 3],
        [large, 1, 0, small],
        // Products of columns leave the range, their squares do not.
        [small / 3, small, large / 3, large],
        [small / 4, large, -3, small],
    ] {
        let column =
            |x: Mat<T>| Mat::from_fn(x.nrows(), x.ncols(), |i, j| x[(i, j)] * power(scales[j % 4]));
        let n = 12;
        let (old, c) = (column(numbers::<T>(n, n, 7)), column(numbers::<T>(40, n, 9)));
        let (mut r, mut v) = (old.clone(), c.clone());
        reduce(r.as_mut(), v.as_mut());
        // Scaling of columns is exact, so R has the same digits without it.
        let (mut plain, mut v) = (numbers::<T>(n, n, 7), numbers::<T>(40, n, 9));
        reduce(plain.as_mut(), v.as_mut());
        let plain = column(plain);
        for j in 0..n {
            for i in 0..=j {
                let (x, y) = (r[(i, j)], plain[(i, j)]);
                let size = plain[(j, j)].modulus() + y.modulus();
                let close = (x + -y).modulus() <= 64.0 * n as f64 * unit::<T>() * size;
                assert!(close, "{} {scales:?} ({i}, {j}): {x:?} and not {y:?}", T::DTYPE.name());
            }
        }
    }
}

#[test]
fn columns_may_be_as_small_or_large_as_their_dtype() {
    graded::<f32>([-110, 118]);
    graded::<f64>([-960, 1010]);
    graded::<faer::c32>([-110, 118]);
    graded::<faer::c64>([-960, 1010]);
}

/// Right-hand sides of the same rows: R and Z have the products with A, and all rows the norms.
#[test]
fn right_hand_sides_are_multiplied() {
    for (n, k, rows) in [(1, 1, 5), (9, 3, 20), (64, 1, 40), (70, 130, 90)] {
        let (old, c) = (numbers::<f64>(n, n + k, 3), numbers::<f64>(rows, n + k, 5));
        let (mut r, mut v) = (old.clone(), c.clone());
        reduce(r.as_mut(), v.as_mut());
        let dot = |x: &Mat<f64>, i: usize, j: usize| {
            (0..x.nrows()).map(|l| x[(l, i)] * x[(l, j)]).sum::<f64>()
        };
        let triangle =
            |x: &Mat<f64>| Mat::from_fn(n, n + k, |i, j| if i <= j { x[(i, j)] } else { 0.0 });
        let (before, after) = (triangle(&old), triangle(&r));
        for (i, j) in (0..n).flat_map(|i| (0..n + k).map(move |j| (i, j))) {
            let off = dot(&after, i, j) - dot(&before, i, j) - dot(&c, i, j);
            assert!(off.abs() < 1e-12, "{n} {k} {rows}: ({i}, {j}) {off}");
        }
        for j in n..n + k {
            let left: f64 = v.col(j).iter().map(|x| x * x).sum();
            let off = dot(&after, j, j) + left - dot(&before, j, j) - dot(&c, j, j);
            assert!(off.abs() < 1e-12, "{n} {k} {rows}: norm {j} {off}");
        }
    }
}

#[test]
fn what_is_no_number_stays_in_its_columns() {
    let (mut r, mut c) = (numbers::<f64>(20, 20, 1), numbers::<f64>(30, 20, 2));
    c[(4, 11)] = f64::NAN;
    reduce(r.as_mut(), c.as_mut());
    for j in 0..20 {
        let is_nan = (0..=j).any(|i| r[(i, j)].is_nan());
        assert_eq!(is_nan, j >= 11, "column {j}");
    }
}
