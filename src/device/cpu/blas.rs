//! Tile kernels on CPU devices: those of faer, one thread each.

use std::ops::Range;

use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul_with_conj;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
    solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
};
use faer::reborrow::ReborrowMut;
use faer::{Accum, Conj, MatMut, MatRef, Par};
use faer::{dyn_stack::MemBuffer, dyn_stack::MemStack};

use crate::device::{Op, Triangle};
use crate::matrix::Cells;
use crate::scalar::Scalar;
use crate::transpose::copies::Copies;
use crate::transpose::vector::with_widest;

/// A column, which is contiguous.
pub fn column<T>(x: MatRef<'_, T>, j: usize) -> &[T] {
    let column = x.col(j);
    match column.try_as_col_major() {
        Some(column) => column.as_slice(),
        None if column.nrows() <= 1 => column.iter().next().map_or(&[], std::slice::from_ref),
        None => panic!("contiguous columns"),
    }
}

/// A column, which is contiguous.
pub fn column_mut<T>(x: MatMut<'_, T>, j: usize) -> &mut [T] {
    let column = x.col_mut(j);
    if column.row_stride() == 1 {
        return column.try_as_col_major_mut().expect("just seen").as_slice_mut();
    }
    assert!(column.nrows() <= 1, "contiguous columns");
    column.iter_mut().next().map_or(&mut [], std::slice::from_mut)
}

fn conj(yes: bool) -> Conj {
    if yes { Conj::Yes } else { Conj::No }
}

/// Scratch of `potrf` on tiles up to `width`.
pub fn potrf_scratch<T: Scalar>(width: usize) -> MemBuffer {
    MemBuffer::new(cholesky_in_place_scratch::<T>(width, Par::Seq, Default::default()))
}

pub fn potrf<T: Scalar>(mut a: MatMut<T>, scratch: &mut MemBuffer) -> Result<(), usize> {
    // The diagonal of a Hermitian matrix is real; like LAPACK, this ignores imaginary parts.
    for i in 0..a.ncols() {
        a[(i, i)] = T::from_real_impl(&T::real_part_impl(&a[(i, i)]));
    }
    let stack = MemStack::new(scratch);
    // faer refuses pivots that are not finite, too.
    match cholesky_in_place(a, Default::default(), Par::Seq, stack, Default::default()) {
        Ok(_) => Ok(()),
        Err(LltError::NonPositivePivot { index }) => Err(index),
    }
}

/// `X <- op(A)^-1 X` with a triangle of A.
pub fn trsm<T: Scalar>(a: MatRef<T>, triangle: Triangle, op: Op, x: MatMut<T>) {
    use Triangle::{Lower, UnitLower, UnitUpper, Upper};
    let (a, triangle) = match (op.transposes(), triangle) {
        (false, _) => (a, triangle),
        (true, Lower) => (a.transpose(), Upper),
        (true, UnitLower) => (a.transpose(), UnitUpper),
        (true, Upper) => (a.transpose(), Lower),
        (true, UnitUpper) => (a.transpose(), UnitLower),
    };
    let solve = match triangle {
        Lower => solve_lower_triangular_in_place_with_conj,
        UnitLower => solve_unit_lower_triangular_in_place_with_conj,
        Upper => solve_upper_triangular_in_place_with_conj,
        UnitUpper => solve_unit_upper_triangular_in_place_with_conj,
    };
    solve(a, conj(op.conjugates()), x, Par::Seq);
}

/// `C <- C + alpha op(A) B`.
pub fn gemm<T: Scalar>(c: MatMut<T>, alpha: T, a: MatRef<T>, op: Op, b: MatRef<T>) {
    let stored = if op.transposes() { a.transpose() } else { a };
    let conj_a = conj(op.conjugates());
    matmul_with_conj(c, Accum::Add, stored, conj_a, b, Conj::No, alpha, Par::Seq);
}

/// `C <- C + A conj(B)`.
pub fn gemm_conjugate<T: Scalar>(c: MatMut<T>, a: MatRef<T>, b: MatRef<T>) {
    matmul_with_conj(c, Accum::Add, a, Conj::No, b, Conj::Yes, T::ONE, Par::Seq);
}

/// `C <- alpha A B` with a triangle of A.
pub fn trmm<T: Scalar>(c: MatMut<T>, alpha: T, a: MatRef<T>, triangle: Triangle, b: MatRef<T>) {
    let structure = match triangle {
        Triangle::Lower => BlockStructure::TriangularLower,
        Triangle::UnitLower => BlockStructure::UnitTriangularLower,
        Triangle::Upper => BlockStructure::TriangularUpper,
        Triangle::UnitUpper => BlockStructure::UnitTriangularUpper,
    };
    let full = BlockStructure::Rectangular;
    triangular::matmul(c, full, Accum::Replace, a, structure, b, full, alpha, Par::Seq);
}

/// Rows of a column of a square block: those within a triangle, with the diagonal, and those
/// outside.
fn cut(column: usize, order: usize, triangle: Triangle) -> [Range<usize>; 2] {
    match triangle.is_lower() {
        true => [column..order, 0..column],
        false => [0..column + 1, column + 1..order],
    }
}

/// Copies a triangle with its diagonal.
pub fn copy_triangle<T: Scalar>(from: MatRef<T>, mut to: MatMut<T>, triangle: Triangle) {
    for j in 0..from.ncols() {
        let [Range { start, end }, _] = cut(j, from.ncols(), triangle);
        let shape = (start, j, end - start, 1);
        let part = from.submatrix(shape.0, shape.1, shape.2, shape.3);
        copy(part, to.rb_mut().submatrix_mut(shape.0, shape.1, shape.2, shape.3));
    }
}

/// Writes zeros outside a triangle.
pub fn clear_outside<T: Scalar>(mut a: MatMut<T>, triangle: Triangle) {
    for j in 0..a.ncols() {
        let [_, rows] = cut(j, a.ncols(), triangle);
        a.rb_mut().submatrix_mut(rows.start, j, rows.len(), 1).fill(T::ZERO);
    }
}

/// `C <- C + S`.
pub fn add<T: Scalar>(c: MatMut<T>, s: MatRef<T>) {
    faer::zip!(c, s).for_each(|faer::unzip!(c, s)| *c += *s);
}

/// The largest |Re| + |Im|, without NaN entries. Contiguous columns or rows are fast.
pub fn largest<T: Scalar>(x: MatRef<T>) -> f64 {
    let x = if x.row_stride() == 1 { x } else { x.transpose() };
    let of_column = |j: usize| match x.row_stride() {
        1 => largest_of_slice(column(x, j)),
        _ => x.col(j).iter().map(|x| x.magnitude()).fold(0.0, f64::max),
    };
    (0..x.ncols()).map(of_column).fold(0.0, f64::max)
}

fn largest_of_slice<T: Scalar>(entries: &[T]) -> f64 {
    // Several independent maxima, because one would be a chain of dependent comparisons.
    let mut side = [0.0f64; 16];
    for chunk in entries.chunks(side.len()) {
        for (most, x) in side.iter_mut().zip(chunk) {
            let x = x.magnitude();
            *most = if x > *most { x } else { *most };
        }
    }
    side.into_iter().fold(0.0, f64::max)
}

pub fn copy<T: Scalar>(from: MatRef<T>, mut to: MatMut<T>) {
    assert_eq!(from.shape(), to.shape(), "shapes of a copy");
    if from.row_stride() == 1 && to.row_stride() == 1 {
        for j in 0..from.ncols() {
            column_mut(to.rb_mut(), j).copy_from_slice(column(from, j));
        }
    } else {
        to.copy_from(from);
    }
}

/// Rows and columns that are mirrored at a time. The lines of a square of this size fit in cache,
/// even where columns are a power of two apart.
const MIRROR: usize = 8;

/// `to <- from^T`, or from^H if `conjugated`. `lower_only` makes only the lower triangle with the
/// diagonal, which is real if `conjugated`. Then both may be the same memory.
///
/// # Safety
/// *Order* (see [`Cells`]): nothing else writes `from` meanwhile, and nothing else accesses `to`.
pub unsafe fn mirror<T: Scalar>(from: Cells<T>, to: Cells<T>, lower_only: bool, conjugated: bool) {
    let from = from.transposed();
    assert_eq!((from.rows(), from.cols()), (to.rows(), to.cols()), "shapes of a mirror image");
    let is_turned = (from.col_stride(), to.row_stride()) == (1, 1);
    if is_turned && !lower_only && !(conjugated && T::IS_COMPLEX) {
        // SAFETY: *memory* of both; the caller promises *order*.
        return unsafe {
            match size_of::<T>() {
                4 => with_widest(copies::<T, 4>(from, to)),
                8 => with_widest(copies::<T, 8>(from, to)),
                _ => with_widest(copies::<T, 16>(from, to)),
            }
        };
    }
    let image = |x: T, on_diagonal: bool| match (conjugated, on_diagonal) {
        (false, _) => x,
        (true, true) => T::from_real_impl(&T::real_part_impl(&x)),
        (true, false) => T::conj_impl(&x),
    };
    // Of a tile on the diagonal it reads only elements above the diagonal and writes only those on
    // and below. It reads a diagonal element before it writes it. Columns of `from` come one after
    // another, because they may be in memory far away.
    for top in (0..to.rows()).step_by(MIRROR) {
        let height = MIRROR.min(to.rows() - top);
        let end = if lower_only { to.cols().min(top + MIRROR) } else { to.cols() };
        for left in (0..end).step_by(MIRROR) {
            let width = MIRROR.min(to.cols() - left);
            let [source, target] = [from, to].map(|all| all.sub(top, left, height, width));
            for j in 0..width {
                let first = if lower_only { (left + j).saturating_sub(top) } else { 0 };
                for i in first..height {
                    let at = |block: &Cells<T>| {
                        block.as_ptr().wrapping_add(i * block.row_stride() + j * block.col_stride())
                    };
                    let on_diagonal = lower_only && top + i == left + j;
                    // SAFETY: *memory* of both views, of which these are elements; the caller
                    // promises *order*.
                    unsafe { at(&target).write(image(at(&source).read(), on_diagonal)) };
                }
            }
        }
    }
}

/// The copies of contiguous rows of elements of S bytes to contiguous columns.
fn copies<T: Scalar, const S: usize>(from: Cells<T>, to: Cells<T>) -> Copies<S> {
    assert_eq!(size_of::<T>(), S, "bytes of an element");
    Copies {
        from: from.as_ptr().cast(),
        across: from.row_stride() * S,
        to: to.as_ptr().cast(),
        down: to.col_stride() * S,
        rows: from.rows(),
        cols: from.cols(),
    }
}
