//! Q R = P for a panel P with at least as many rows as columns. R overwrites its upper triangle, and
//! V, without its ones, the rest.

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::reborrow::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par};

use super::{LEAF, Products, by_triangle, join, reflect_columns};
use crate::device::Op;
use crate::device::cpu::blas;
use crate::scalar::Scalar;

/// Factors the panel. `t` becomes T, upper triangular; its rest is not written. `w` is scratch with
/// as many elements as T.
pub fn factor<T: Scalar>(
    by: &mut impl Products<T>,
    panel: MatMut<T>,
    mut t: MatMut<T>,
    w: &mut [T],
) {
    let k = panel.ncols();
    if k <= LEAF {
        return leaf(panel, t);
    }
    let left = (k / 2).next_multiple_of(LEAF);
    let right = k - left;
    let (mut v, mut c) = panel.split_at_col_mut(left);
    factor(by, v.rb_mut(), t.rb_mut().submatrix_mut(0, 0, left, left), w);
    apply(by, v.rb(), t.rb().submatrix(0, 0, left, left), c.rb_mut(), w);
    let mut c = c.subrows_mut(left, v.nrows() - left);
    factor(by, c.rb_mut(), t.rb_mut().submatrix_mut(left, left, right, right), w);
    let (x, y) = w.split_at_mut(left * right);
    let mut x = MatMut::from_column_major_slice_mut(x, left, right);
    let y = MatMut::from_column_major_slice_mut(&mut y[..left * right], left, right);
    let (top, rest) = v.rb().subrows(left, c.nrows()).split_at_row(right);
    let (ones, below) = c.rb().split_at_row(right);
    let (full, lower) = (BlockStructure::Rectangular, BlockStructure::UnitTriangularLower);
    let (sum, replace) = (x.rb_mut(), Accum::Replace);
    triangular::matmul(sum, full, replace, top.adjoint(), full, ones, lower, T::ONE, Par::Seq);
    by.product(x.rb_mut(), T::ONE, rest, Op::Adjoint, below);
    join(t, x.rb(), y);
}

/// `C <- (I - V T^H V^H) C`. `w` has twice as many elements as the rows of C where V has its ones.
fn apply<T: Scalar>(
    by: &mut impl Products<T>,
    v: MatRef<T>,
    t: MatRef<T>,
    c: MatMut<T>,
    w: &mut [T],
) {
    let (k, count) = (v.ncols(), c.ncols());
    let (x, y) = w.split_at_mut(k * count);
    let mut x = MatMut::from_column_major_slice_mut(x, k, count);
    let mut y = MatMut::from_column_major_slice_mut(&mut y[..k * count], k, count);
    let (ones, below) = v.split_at_row(k);
    let (mut top, rest) = c.split_at_row_mut(k);
    let (full, lower) = (BlockStructure::Rectangular, BlockStructure::UnitTriangularLower);
    let (upper, replace) = (BlockStructure::UnitTriangularUpper, Accum::Replace);
    let (adjoint, sum) = (ones.adjoint(), x.rb_mut());
    triangular::matmul(sum, full, replace, adjoint, upper, top.rb(), full, T::ONE, Par::Seq);
    by.product(x.rb_mut(), T::ONE, below, Op::Adjoint, rest.rb());
    by_triangle(y.rb_mut(), t, Op::Adjoint, x.rb());
    triangular::matmul(x.rb_mut(), full, replace, ones, lower, y.rb(), full, T::ONE, Par::Seq);
    blas::add(top.rb_mut(), x.rb());
    by.product(rest, T::ONE, below, Op::None, y.rb());
}

/// The same for at most `LEAF` columns, one reflector after another.
fn leaf<T: Scalar>(mut panel: MatMut<T>, mut t: MatMut<T>) {
    for j in 0..panel.ncols() {
        let (top, below) = panel.rb_mut().split_at_row_mut(j + 1);
        // v_l has its element j in this row, where v_j has its one.
        reflect_columns(top.subrows_mut(j, 1), below, j, t.rb_mut(), |x| T::conj_impl(&x));
    }
}
