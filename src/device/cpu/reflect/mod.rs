//! `[R; C] <- Q^H [R; C]`: a block of rows C is reduced into a triangle R by Householder
//! reflectors, in the compact form I - V T V^H (Schreiber and Van Loan, SIAM J. Sci. Stat. Comput.
//! 10, 1989), as in LAPACK's `tpqrt`.
//!
//! Reflector j has a one in row j of R and its other elements in C. So R changes only in the rows of
//! the panel, and R below its diagonal is neither read nor written. Panels are halved down to
//! leaves of a few columns (Elmroth and Gustavson, IBM J. Res. Dev. 44, 2000); all but the leaves is
//! products. `panel.rs` does the same for a full panel, as in LAPACK's `geqrt`.

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod columns;
mod panel;

pub use panel::factor as factor_panel;

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::reborrow::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par};

use super::{blas, product};
use crate::device::Op;
use crate::scalar::Scalar;

/// Columns of a leaf.
const LEAF: usize = columns::MOST;
/// Columns on the right of a panel for which there is scratch.
const AT_ONCE: usize = 128;
/// The same where processors have no kernel: each product packs V.
const WITHOUT_KERNEL: usize = 512;

/// Columns of a panel, of so many. Of few columns each panel has fewer, as the product that joins two
/// halves of it takes as long as the others. Elements have `size` bytes: with AVX-512 the kernel takes 24
/// rows of V^H at a time, or 48 of float32. The widths come from measurements (benchmarks/NOTES.md).
pub fn panel_width(columns: usize, size: usize) -> usize {
    match columns {
        0..=96 => 16,
        97..=192 => 24,
        193..=768 if size >= 8 => 24,
        _ => 48,
    }
}

/// Elements of scratch to reduce blocks with so many columns in total.
pub fn scratch_elements(columns: usize, size: usize) -> usize {
    let width = panel_width(columns, size);
    let at_once = if product::tile::shape().is_some() { AT_ONCE } else { WITHOUT_KERNEL };
    2 * width * (width + columns.min(at_once))
}

/// Large products, as the worker does them.
pub trait Products<T> {
    /// `C <- C + alpha op(A) B`.
    fn product(&mut self, c: MatMut<T>, alpha: T, a: MatRef<T>, op: Op, b: MatRef<T>);
    /// `[R; C] <- (I - V T^H V^H) [R; C]` for the rows of R where V has its ones. T has zeros below its
    /// diagonal. `w` is for twice as many elements as some columns of R have.
    fn reflect(&mut self, v: MatRef<T>, t: MatRef<T>, r: MatMut<T>, c: MatMut<T>, w: &mut [T]);
}

/// `Products::reflect` by `Products::product`.
pub fn reflect<T: Scalar>(
    by: &mut impl Products<T>,
    v: MatRef<T>,
    t: MatRef<T>,
    mut r: MatMut<T>,
    mut c: MatMut<T>,
    w: &mut [T],
) {
    let (k, all) = r.shape();
    let most = (w.len() / (2 * k.max(1))).max(1);
    for first in (0..all).step_by(most) {
        let count = most.min(all - first);
        let r = r.rb_mut().subcols_mut(first, count);
        apply(by, v, t, r, c.rb_mut().subcols_mut(first, count), w);
    }
}

/// Reduces `c` into the upper triangle in the first columns of `r`, a panel. Both have more columns on
/// the right, which it multiplies by Q^H. C then holds V, and `coefficients` those of the reflectors.
/// `scratch` has `scratch_elements` elements.
pub fn reduce<T: Scalar>(
    by: &mut impl Products<T>,
    r: MatMut<T>,
    c: MatMut<T>,
    coefficients: &mut [T],
    scratch: &mut [T],
) {
    let (k, all) = r.shape();
    assert!(k <= all && c.ncols() == all, "a triangle and rows with as many columns");
    let (t, w) = scratch.split_at_mut(k * k);
    let (diagonal, right) = r.split_at_col_mut(k);
    let (mut panel, rest) = c.split_at_col_mut(k);
    let mut t = MatMut::from_column_major_slice_mut(t, k, k);
    t.fill(T::ZERO);
    factor(by, diagonal, panel.rb_mut(), t.rb_mut(), &mut w[..k * k]);
    for (j, to) in coefficients[..k].iter_mut().enumerate() {
        *to = t[(j, j)];
    }
    by.reflect(panel.rb(), t.rb(), right, rest, w);
}

/// The same for a panel. `t` becomes T, upper triangular.
fn factor<T: Scalar>(
    by: &mut impl Products<T>,
    r: MatMut<T>,
    c: MatMut<T>,
    mut t: MatMut<T>,
    w: &mut [T],
) {
    let k = r.ncols();
    if k <= LEAF {
        return leaf(r, c, t);
    }
    let left = (k / 2).next_multiple_of(LEAF);
    let right = k - left;
    let (top, bottom) = r.split_at_row_mut(left);
    let (r1, r12) = top.split_at_col_mut(left);
    let r2 = bottom.split_at_col_mut(left).1;
    let (mut c1, mut c2) = c.split_at_col_mut(left);
    factor(by, r1, c1.rb_mut(), t.rb_mut().submatrix_mut(0, 0, left, left), w);
    apply(by, c1.rb(), t.rb().submatrix(0, 0, left, left), r12, c2.rb_mut(), w);
    factor(by, r2, c2.rb_mut(), t.rb_mut().submatrix_mut(left, left, right, right), w);
    // The ones of V1 and V2 are in different rows.
    let (x, y) = w.split_at_mut(left * right);
    let mut x = MatMut::from_column_major_slice_mut(x, left, right);
    let y = MatMut::from_column_major_slice_mut(&mut y[..left * right], left, right);
    x.fill(T::ZERO);
    by.product(x.rb_mut(), T::ONE, c1.rb(), Op::Adjoint, c2.rb());
    join(t, x.rb(), y);
}

/// The same for all columns at once. `w` has twice as many elements as R.
fn apply<T: Scalar>(
    by: &mut impl Products<T>,
    v: MatRef<T>,
    t: MatRef<T>,
    mut r: MatMut<T>,
    c: MatMut<T>,
    w: &mut [T],
) {
    let (k, count) = r.shape();
    if count == 0 {
        return;
    }
    let (x, y) = w.split_at_mut(k * count);
    let mut x = MatMut::from_column_major_slice_mut(x, k, count);
    let mut y = MatMut::from_column_major_slice_mut(&mut y[..k * count], k, count);
    blas::copy(r.rb(), x.rb_mut());
    by.product(x.rb_mut(), T::ONE, v, Op::Adjoint, c.rb());
    by_triangle(y.rb_mut(), t, Op::Adjoint, x.rb());
    blas::add(r.rb_mut(), y.rb());
    by.product(c, T::ONE, v, Op::None, y.rb());
}

/// The same for a panel of at most `LEAF` columns, one reflector after another.
fn leaf<T: Scalar>(mut r: MatMut<T>, mut c: MatMut<T>, mut t: MatMut<T>) {
    let k = r.ncols();
    for j in 0..k {
        reflect_columns(r.rb_mut().subrows_mut(j, 1), c.rb_mut(), j, t.rb_mut(), |_| T::ZERO);
    }
}

/// Makes reflector j from column j, with its one in `row` and its other elements in `c`, and applies
/// it to the columns after it. It also makes column j of T. `between` gives v_l^H v_j in the rows
/// that are not in `c`, from `row`.
fn reflect_columns<T: Scalar>(
    mut row: MatMut<T>,
    mut c: MatMut<T>,
    j: usize,
    mut t: MatMut<T>,
    between: impl Fn(T) -> T,
) {
    let k = row.ncols();
    let Reflector { beta, tau, scale, dots } = reflector(row[(0, j)], c.rb_mut(), j);
    row[(0, j)] = beta;
    let mut by = [T::ZERO; LEAF];
    by[0] = scale;
    for i in j + 1..k {
        // v^H [row_i; c_i], with v = [1; scale c_j].
        let product = row[(0, i)] + T::conj_impl(&scale) * dots[i];
        let part = -(T::conj_impl(&tau) * product);
        row[(0, i)] += part;
        by[i - j] = part * scale;
    }
    columns::add_multiples(c.subcols_mut(j, k - j), &by);
    // T_0j = -tau T (V^H v_j)
    for i in 0..j {
        let mut sum = T::ZERO;
        for l in i..j {
            let product = between(row[(0, l)]) + scale * T::conj_impl(&dots[l]);
            sum += t[(i, l)] * product;
        }
        t[(i, j)] = -(tau * sum);
    }
    t[(j, j)] = tau;
}

/// T12 = -T1 (V1^H V2) T2 for the product in `x`, with `y` as its scratch.
fn join<T: Scalar>(t: MatMut<T>, x: MatRef<T>, mut y: MatMut<T>) {
    let (t1, t12, _, t2) = t.split_at_mut(x.nrows(), x.nrows());
    let (upper, full) = (BlockStructure::TriangularUpper, BlockStructure::Rectangular);
    let replace = Accum::Replace;
    triangular::matmul(y.rb_mut(), full, replace, t1.rb(), upper, x, full, -T::ONE, Par::Seq);
    triangular::matmul(t12, full, replace, y.rb(), full, t2.rb(), upper, T::ONE, Par::Seq);
}

/// `Y <- -op(T) X`, op the adjoint or none.
pub fn by_triangle<T: Scalar>(y: MatMut<T>, t: MatRef<T>, op: Op, x: MatRef<T>) {
    let full = BlockStructure::Rectangular;
    let (upper, lower) = (BlockStructure::TriangularUpper, BlockStructure::TriangularLower);
    let replace = Accum::Replace;
    match op {
        Op::Adjoint => {
            let t = t.adjoint();
            triangular::matmul(y, full, replace, t, lower, x, full, -T::ONE, Par::Seq);
        }
        op => {
            assert_eq!(op, Op::None, "T or its adjoint");
            triangular::matmul(y, full, replace, t, upper, x, full, -T::ONE, Par::Seq);
        }
    }
}

/// H = I - tau v v^H with v = [1; scale c], so that H^H [alpha; c] = [beta; 0].
struct Reflector<T> {
    beta: T,
    tau: T,
    scale: T,
    /// c^H c_i for the columns i.
    dots: [T; LEAF],
}

/// Columns whose norms have smaller squares are scaled first: their products with other columns
/// could underflow where those of a vector of norm 1 do not.
const LEAST_SQUARES: f64 = 1.0 / (1 << 20) as f64;

/// The reflector for column j. It first scales the column by a power of two if its square or a
/// product is not exact enough.
fn reflector<T: Scalar>(alpha: T, mut c: MatMut<T>, j: usize) -> Reflector<T> {
    let dots = columns::dots(c.rb_mut(), j);
    let squares = dots[j].parts().0;
    let size = alpha.magnitude();
    let most = 1.0 / T::NEAR_UNDERFLOW;
    let is_safe = (LEAST_SQUARES..most).contains(&squares) && size * size < most;
    if is_safe && dots.iter().all(|dot| dot.is_number()) {
        return of_safe(alpha, squares, dots);
    }
    let largest = blas::largest(c.rb().subcols(j, 1));
    let (_, imaginary) = alpha.parts();
    if largest == 0.0 && imaginary == 0.0 && !squares.is_nan() {
        return Reflector { beta: alpha, tau: T::ZERO, scale: T::ZERO, dots };
    }
    let size = largest.max(size);
    if !size.is_finite() || squares.is_nan() {
        return of_safe(alpha, squares, dots);
    }
    // In steps, because a power of two may be too large.
    let exponent = -(size.log2().floor() as i32);
    let (first, second) = (exponent / 2, exponent - exponent / 2);
    let mut alpha = alpha;
    for exponent in [first, second] {
        let by = T::from_f64_impl(2f64.powi(exponent));
        alpha *= by;
        let column = blas::column_mut(c.rb_mut(), j);
        column.iter_mut().for_each(|x| *x *= by);
    }
    let dots = columns::dots(c.rb_mut(), j);
    let mut found = of_safe(alpha, dots[j].parts().0, dots);
    for exponent in [first, second] {
        found.beta *= T::from_f64_impl(2f64.powi(-exponent));
    }
    found
}

fn of_safe<T: Scalar>(alpha: T, squares: f64, dots: [T; LEAF]) -> Reflector<T> {
    let (re, im) = alpha.parts();
    let norm = (re * re + im * im + squares).sqrt();
    // LAPACK's sign, which a zero has, too.
    let beta = if re < 0.0 { norm } else { -norm };
    let tau = T::of_parts((beta - re) / beta, -im / beta);
    let scale = T::ONE.divided_by(T::of_parts(re - beta, im));
    Reflector { beta: T::of_parts(beta, 0.0), tau, scale, dots }
}
