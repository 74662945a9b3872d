//! Columns that hold real numbers before they hold elements of any dtype.

use faer::MatMut;
use faer::reborrow::ReborrowMut;

use super::blas;
use super::divide::{self, Divided};
use crate::comm::Step;
use crate::layout::Layout;
use crate::matrix::{Cells, Columns};
use crate::scalar::{DType, Scalar};

/// The memory of contiguous columns as real numbers R, as many in each as it has elements, from its
/// beginning on.
fn reals<'a, T: Scalar, R: Scalar>(columns: Cells<'a, T>) -> Cells<'a, R> {
    let parts = size_of::<T>() / size_of::<R>();
    assert!(columns.rows() <= 1 || columns.row_stride() == 1, "contiguous columns");
    let shape = (columns.rows(), columns.cols());
    let layout = Layout::new(shape, (1, columns.col_stride() * parts));
    // SAFETY: *memory* of the columns. An element is one or two of these numbers.
    unsafe { Cells::new(columns.as_ptr().cast(), &layout, columns.rank()) }
}

/// These numbers become elements, where they are.
fn make_elements<T: Scalar, R: Scalar>(mut columns: MatMut<T>) {
    if !T::IS_COMPLEX {
        return;
    }
    for j in 0..columns.ncols() {
        let column: &mut [R] = bytemuck::cast_slice_mut(blas::column_mut(columns.rb_mut(), j));
        for i in (0..column.len() / 2).rev() {
            let x = column[i];
            (column[2 * i], column[2 * i + 1]) = (x, R::ZERO);
        }
    }
}

/// Elements of a worker's room for [`divide`].
pub fn room<T: Scalar>(n: usize) -> usize {
    let reals = match T::DTYPE.real() {
        DType::F32 => Divided::room::<f32>(n),
        _ => Divided::room::<f64>(n),
    };
    (reals * size_of::<T::Real>()).div_ceil(size_of::<T>())
}

/// A worker's part of Z, to columns of `z`; see [`divide::solve`].
///
/// # Safety
/// *Order* (see [`Cells`]): nobody else but workers who do the same accesses these columns.
pub unsafe fn divide<T: Scalar>(
    divided: &Divided,
    worker: usize,
    z: &Columns<T>,
    room: &mut [T],
    barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        match T::DTYPE.real() {
            DType::F32 => of_reals::<T, f32>(divided, worker, z, room, barrier, is_stopped),
            _ => of_reals::<T, f64>(divided, worker, z, room, barrier, is_stopped),
        }
    }
}

/// The same with the real numbers of T.
///
/// # Safety
/// As above.
unsafe fn of_reals<T: Scalar, R: Scalar>(
    divided: &Divided,
    worker: usize,
    z: &Columns<T>,
    room: &mut [T],
    barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    let (own, n) = (divided.rows(worker), divided.order());
    let numbers = Columns::new(z.range(0, n).map(|c| reals::<T, R>(c.row_range(0..n))));
    let room = bytemuck::cast_slice_mut(room);
    // SAFETY: the caller's promise.
    let left = unsafe { divide::solve(divided, worker, &numbers, room, barrier, is_stopped) }?;
    for columns in z.range(own.start, own.end) {
        // SAFETY: the caller's promise: each worker has its rows again.
        make_elements::<T, R>(unsafe { columns.row_range(0..n).write() });
    }
    Ok(left)
}
