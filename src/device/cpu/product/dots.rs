//! `C <- C + A^H B` as inner products of contiguous columns. Nothing is packed, so that few columns
//! do not pay for it.
//!
//! All of it is inlined into the kernel, as in `tile.rs`.

use faer::{MatMut, MatRef};
use pulp::{Simd, WithSimd};

use crate::device::Op;
use crate::device::cpu::vectors::{length, load, with_vectors, zero};
use crate::scalar::{Lanes, Scalar, Vector};

/// Columns of B at a time. With as many vectors of A, their sums need half of 32 registers; with half
/// as many, half of 16.
const COLUMNS: usize = 4;

/// Of more columns faer's products are faster: they read both factors less often.
const MOST_COLUMNS: usize = 32;

/// Whether `C <- C + alpha op(A) B` is such a product, of few columns.
pub fn suits_dots<T: Scalar>(alpha: T, a: MatRef<T>, op: Op, b: MatRef<T>) -> bool {
    let suits = |x: MatRef<T>| is_contiguous(x) && x.ncols() <= MOST_COLUMNS;
    alpha == T::ONE && op == Op::Adjoint && suits(a) && suits(b)
}

fn is_contiguous<T>(x: MatRef<T>) -> bool {
    x.row_stride() == 1 || x.nrows() <= 1
}

/// `C <- C + A^H B`, where this processor has a kernel. A and B have contiguous columns.
pub fn add_dots<T: Scalar>(c: MatMut<T>, a: MatRef<T>, b: MatRef<T>) {
    assert!(with_vectors(Dots::new(c, a, b)).is_ok(), "dot products without a kernel");
}

pub struct Dots<'a, T> {
    c: MatMut<'a, T>,
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
}

impl<'a, T: Scalar> Dots<'a, T> {
    pub fn new(c: MatMut<'a, T>, a: MatRef<'a, T>, b: MatRef<'a, T>) -> Self {
        assert_eq!(a.nrows(), b.nrows(), "inner dimensions");
        assert_eq!(c.shape(), (a.ncols(), b.ncols()), "shape of a product");
        assert!(is_contiguous(a) && is_contiguous(b), "contiguous columns");
        Dots { c, a, b }
    }

    /// With V vectors of A at a time. A complex column is two of them, for Re and Im of the sums.
    #[inline(always)]
    pub fn run<S: Simd, const V: usize>(mut self, simd: S) {
        let some = if T::IS_COMPLEX { V / 2 } else { V };
        // Where there are fewer columns, the last one stands in for the others.
        let column = |x: MatRef<T>, j: usize| {
            x.as_ptr().wrapping_offset(j.min(x.ncols() - 1) as isize * x.col_stride())
        };
        let (rows, cols) = self.c.shape();
        for i in (0..rows).step_by(some) {
            let of_a = std::array::from_fn(|l| column(self.a, i + l));
            for j in (0..cols).step_by(COLUMNS) {
                let of_b = std::array::from_fn(|l| column(self.b, j + l));
                // SAFETY: the columns are borrowed and have so many rows.
                let sums = unsafe { sums::<T, S, V>(simd, self.a.nrows(), of_a, of_b) };
                for (l, sums) in sums.iter().enumerate().take(COLUMNS.min(cols - j)) {
                    for (k, sum) in sums.iter().enumerate().take(some.min(rows - i)) {
                        self.c[(i + k, j + l)] += *sum;
                    }
                }
            }
        }
    }
}

impl<T: Scalar> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT == 32 {
            self.run::<S, 4>(simd);
        } else {
            self.run::<S, 2>(simd);
        }
    }
}

/// For each column of B its inner products with columns of A.
///
/// # Safety
/// All have so many rows.
#[inline(always)]
unsafe fn sums<T: Scalar, S: Simd, const V: usize>(
    simd: S,
    rows: usize,
    a: [*const T; V],
    b: [*const T; COLUMNS],
) -> [[T; V]; COLUMNS] {
    let full = length::<T, S>();
    let whole = rows / full * full;
    let mut sums = [[zero::<T, S>(simd); V]; COLUMNS];
    for row in (0..whole).step_by(full) {
        // SAFETY: as the caller promises.
        unsafe { step::<T, S, V>(simd, &mut sums, a, b, row, full) };
    }
    if whole < rows {
        // SAFETY: as above.
        unsafe { step::<T, S, V>(simd, &mut sums, a, b, whole, rows - whole) };
    }
    let mut found = [[T::ZERO; V]; COLUMNS];
    for (found, sums) in found.iter_mut().zip(sums) {
        let parts = sums.map(|sum| T::Real::sum(simd, sum).into());
        for (k, found) in found.iter_mut().enumerate() {
            *found = if !T::IS_COMPLEX {
                T::of_parts(parts[k], 0.0)
            } else if 2 * k < V {
                T::of_parts(parts[2 * k], parts[2 * k + 1])
            } else {
                T::ZERO
            };
        }
    }
    found
}

/// Adds the products of `count` rows, at most a vector. Im(a^H b) is Re((ia)^H b).
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn step<T: Scalar, S: Simd, const V: usize>(
    simd: S,
    sums: &mut [[Vector<T, S>; V]; COLUMNS],
    a: [*const T; V],
    b: [*const T; COLUMNS],
    row: usize,
    count: usize,
) {
    let mut of_a = [zero::<T, S>(simd); V];
    for (l, vector) in of_a.iter_mut().enumerate() {
        let column = if T::IS_COMPLEX { a[l / 2] } else { a[l] };
        // SAFETY: the caller promises these elements.
        *vector = unsafe { load(simd, column.add(row), count) };
        if T::IS_COMPLEX && l % 2 == 1 {
            *vector = T::Real::turn(simd, *vector);
        }
    }
    for (sums, column) in sums.iter_mut().zip(b) {
        // SAFETY: as above.
        let vector = unsafe { load(simd, column.add(row), count) };
        for (sum, of_a) in sums.iter_mut().zip(of_a) {
            *sum = T::Real::mul_add(simd, of_a, vector, *sum);
        }
    }
}
