//! Columns that hold real numbers before they hold elements of any dtype.

use faer::MatMut;
use faer::reborrow::ReborrowMut;

use super::blas;
use super::divide::{self, Divided};
use crate::comm::Step;
use crate::matrix::{Cells, Columns};
use crate::scalar::{DType, Scalar};

/// The memory of contiguous columns as real numbers R, as many in each as it has elements, from its
/// beginning on.
fn reals<'m, T: Scalar, R: Scalar>(columns: MatMut<'m, T>) -> MatMut<'m, R> {
    let parts = size_of::<T>() / size_of::<R>();
    assert!(columns.nrows() <= 1 || columns.row_stride() == 1, "contiguous columns");
    let (rows, cols, stride) = (columns.nrows(), columns.ncols(), columns.col_stride());
    let first = columns.as_ptr_mut().cast::<R>();
    // SAFETY: *memory* of the columns, which are borrowed. An element is one or two of these numbers.
    unsafe { MatMut::from_raw_parts_mut(first, rows, cols, 1, stride * parts as isize) }
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

/// A worker's rows of Z, to columns of `z`; see [`divide::solve`].
///
/// # Safety
/// *Order* (see [`Cells`]): nobody else accesses these columns.
pub unsafe fn divide<T: Scalar>(
    divided: &Divided,
    worker: usize,
    z: &Columns<T>,
    room: &mut [T],
    barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    let (rows, n) = (divided.rows(worker), divided.order());
    let own = z.range(rows.start, rows.end).map(|c| c.sub(0, 0, n, c.cols()));
    let own: Vec<Cells<T>> = own.collect();
    // SAFETY: the caller's promise.
    let mut own: Vec<_> = own.into_iter().map(|c| unsafe { c.write() }).collect();
    match T::DTYPE.real() {
        DType::F32 => of_reals::<T, f32>(divided, worker, &mut own, room, barrier, is_stopped),
        _ => of_reals::<T, f64>(divided, worker, &mut own, room, barrier, is_stopped),
    }
}

fn of_reals<T: Scalar, R: Scalar>(
    divided: &Divided,
    worker: usize,
    own: &mut [MatMut<T>],
    room: &mut [T],
    barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    let mut numbers: Vec<_> = own.iter_mut().map(|c| reals::<T, R>(c.rb_mut())).collect();
    let room = bytemuck::cast_slice_mut(room);
    let left = divide::solve(divided, worker, &mut numbers, room, barrier, is_stopped)?;
    own.iter_mut().for_each(|c| make_elements::<T, R>(c.rb_mut()));
    Ok(left)
}
