//! Tile kernels on CPU devices: those of faer, one thread each, on blocks turned into views.
//!
//! # Safety
//! All functions here dereference their blocks. The algorithms in `algorithms` keep this contract:
//! a worker writes only blocks that it owns in the present phase. It reads blocks of others only
//! after a signal or barrier that orders their writes before.

use std::ops::Range;

use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul_with_conj;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
    solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
};
use faer::{Accum, Conj, MatMut, MatRef, Par};
use faer::{dyn_stack::MemBuffer, dyn_stack::MemStack};

use crate::device::{Op, Triangle};
use crate::matrix::Block;
use crate::scalar::Scalar;

unsafe fn read<'a, T>(b: Block<T>) -> MatRef<'a, T> {
    let strides = (b.row_stride as isize, b.col_stride as isize);
    // SAFETY: the module's contract; `Block::sub` keeps blocks inside their allocation.
    unsafe { MatRef::from_raw_parts(b.ptr, b.rows, b.cols, strides.0, strides.1) }
}

unsafe fn write<'a, T>(b: Block<T>) -> MatMut<'a, T> {
    let strides = (b.row_stride as isize, b.col_stride as isize);
    // SAFETY: the module's contract; `Block::sub` keeps blocks inside their allocation.
    unsafe { MatMut::from_raw_parts_mut(b.ptr, b.rows, b.cols, strides.0, strides.1) }
}

/// A column with contiguous elements, which no worker writes meanwhile.
pub unsafe fn slice<'a, T>(b: Block<T>) -> &'a [T] {
    assert!(b.cols == 1 && (b.row_stride == 1 || b.rows <= 1), "a contiguous column");
    // SAFETY: the module's contract.
    unsafe { std::slice::from_raw_parts(b.ptr, b.rows) }
}

/// A column with contiguous elements, which only this worker uses.
pub unsafe fn slice_mut<'a, T>(b: Block<T>) -> &'a mut [T] {
    assert!(b.cols == 1 && (b.row_stride == 1 || b.rows <= 1), "a contiguous column");
    // SAFETY: the module's contract.
    unsafe { std::slice::from_raw_parts_mut(b.ptr, b.rows) }
}

fn conj(yes: bool) -> Conj {
    if yes { Conj::Yes } else { Conj::No }
}

/// Scratch of `potrf` on tiles up to `width`.
pub fn potrf_scratch<T: Scalar>(width: usize) -> MemBuffer {
    MemBuffer::new(cholesky_in_place_scratch::<T>(width, Par::Seq, Default::default()))
}

pub unsafe fn potrf<T: Scalar>(a: Block<T>, scratch: &mut MemBuffer) -> Result<(), usize> {
    // SAFETY: the module's contract.
    let mut a = unsafe { write(a) };
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
pub unsafe fn trsm<T: Scalar>(a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
    use Triangle::{Lower, UnitLower, UnitUpper, Upper};
    let (stored, triangle) = match (op.transposes(), triangle) {
        (false, _) => (a, triangle),
        (true, Lower) => (a.transposed(), Upper),
        (true, UnitLower) => (a.transposed(), UnitUpper),
        (true, Upper) => (a.transposed(), Lower),
        (true, UnitUpper) => (a.transposed(), UnitLower),
    };
    // SAFETY: the module's contract.
    let (a, x) = unsafe { (read(stored), write(x)) };
    let solve = match triangle {
        Lower => solve_lower_triangular_in_place_with_conj,
        UnitLower => solve_unit_lower_triangular_in_place_with_conj,
        Upper => solve_upper_triangular_in_place_with_conj,
        UnitUpper => solve_unit_upper_triangular_in_place_with_conj,
    };
    solve(a, conj(op.conjugates()), x, Par::Seq);
}

/// `C <- C + alpha op(A) op(B)`.
pub unsafe fn gemm<T: Scalar>(c: Block<T>, alpha: T, a: Block<T>, op_a: Op, b: Block<T>, op_b: Op) {
    let stored = |m: Block<T>, op: Op| if op.transposes() { m.transposed() } else { m };
    // SAFETY: the module's contract.
    let (c, a, b) = unsafe { (write(c), read(stored(a, op_a)), read(stored(b, op_b))) };
    let (conj_a, conj_b) = (conj(op_a.conjugates()), conj(op_b.conjugates()));
    matmul_with_conj(c, Accum::Add, a, conj_a, b, conj_b, alpha, Par::Seq);
}

/// `C <- alpha A B` with a triangle of A.
pub unsafe fn trmm<T: Scalar>(c: Block<T>, alpha: T, a: Block<T>, triangle: Triangle, b: Block<T>) {
    let structure = match triangle {
        Triangle::Lower => BlockStructure::TriangularLower,
        Triangle::UnitLower => BlockStructure::UnitTriangularLower,
        Triangle::Upper => BlockStructure::TriangularUpper,
        Triangle::UnitUpper => BlockStructure::UnitTriangularUpper,
    };
    // SAFETY: the module's contract.
    let (c, a, b) = unsafe { (write(c), read(a), read(b)) };
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
pub unsafe fn copy_triangle<T: Scalar>(from: Block<T>, to: Block<T>, triangle: Triangle) {
    for j in 0..from.cols {
        let [rows, _] = cut(j, from.cols, triangle);
        let part = |m: Block<T>| m.sub(rows.start, j, rows.len(), 1);
        // SAFETY: the module's contract.
        unsafe { copy(part(from), part(to)) };
    }
}

/// Writes zeros outside a triangle.
pub unsafe fn clear_outside<T: Scalar>(a: Block<T>, triangle: Triangle) {
    for j in 0..a.cols {
        let [_, rows] = cut(j, a.cols, triangle);
        // SAFETY: the module's contract.
        unsafe { fill(a.sub(rows.start, j, rows.len(), 1), T::ZERO) };
    }
}

/// `C <- C + S`.
pub unsafe fn add<T: Scalar>(c: Block<T>, s: Block<T>) {
    // SAFETY: the module's contract.
    let (c, s) = unsafe { (write(c), read(s)) };
    faer::zip!(c, s).for_each(|faer::unzip!(c, s)| *c += *s);
}

/// The largest |Re| + |Im|, without NaN entries. Contiguous columns or rows are fast.
pub unsafe fn largest<T: Scalar>(x: Block<T>) -> f64 {
    let x = if x.row_stride == 1 { x } else { x.transposed() };
    let column = |j: usize| x.sub(0, j, x.rows, 1);
    // SAFETY: the module's contract.
    let of_column = |j: usize| unsafe {
        if x.row_stride == 1 {
            let entries = std::slice::from_raw_parts(column(j).ptr, x.rows);
            return largest_of_slice(entries);
        }
        let column = read(column(j));
        (0..x.rows).map(|i| column[(i, 0)].magnitude()).fold(0.0, f64::max)
    };
    (0..x.cols).map(of_column).fold(0.0, f64::max)
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

pub unsafe fn copy<T: Scalar>(from: Block<T>, to: Block<T>) {
    assert_eq!((from.rows, from.cols), (to.rows, to.cols), "shapes of a copy");
    if from.row_stride == 1 && to.row_stride == 1 {
        for j in 0..from.cols {
            let (f, t) = (from.sub(0, j, from.rows, 1).ptr, to.sub(0, j, to.rows, 1).ptr);
            // SAFETY: the module's contract; columns are contiguous here.
            unsafe { std::ptr::copy_nonoverlapping(f, t, from.rows) };
        }
    } else {
        // SAFETY: the module's contract.
        unsafe { write(to).copy_from(read(from)) };
    }
}

/// Rows and columns that are mirrored at a time. The lines of a square of this size fit in cache,
/// even where columns are a power of two apart.
const MIRROR: usize = 8;

/// `to <- from^T`, or from^H if `conjugated`. `lower_only` makes only the lower triangle with the
/// diagonal, which is real if `conjugated`.
pub unsafe fn mirror<T: Scalar>(from: Block<T>, to: Block<T>, lower_only: bool, conjugated: bool) {
    let image = |x: T, on_diagonal: bool| match (conjugated, on_diagonal) {
        (false, _) => x,
        (true, true) => T::from_real_impl(&T::real_part_impl(&x)),
        (true, false) => T::conj_impl(&x),
    };
    // On a diagonal tile both are the same memory. Then it reads only elements above the diagonal
    // and writes only those on and below. It reads a diagonal element before it writes it.
    for left in (0..to.cols).step_by(MIRROR) {
        for top in (if lower_only { left } else { 0 }..to.rows).step_by(MIRROR) {
            for j in left..to.cols.min(left + MIRROR) {
                for i in (if lower_only { top.max(j) } else { top })..to.rows.min(top + MIRROR) {
                    let source = from.ptr.wrapping_add(j * from.row_stride + i * from.col_stride);
                    let target = to.ptr.wrapping_add(i * to.row_stride + j * to.col_stride);
                    // SAFETY: the module's contract.
                    unsafe { target.write(image(source.read(), lower_only && i == j)) };
                }
            }
        }
    }
}

pub unsafe fn conjugate<T: Scalar>(x: Block<T>) {
    // SAFETY: the module's contract.
    let x = unsafe { write(x) };
    faer::zip!(x).for_each(|faer::unzip!(x)| *x = T::conj_impl(x));
}

pub unsafe fn fill<T: Scalar>(to: Block<T>, value: T) {
    // SAFETY: the module's contract.
    unsafe { write(to).fill(value) };
}
