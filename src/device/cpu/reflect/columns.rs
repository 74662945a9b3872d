//! Passes over some contiguous columns: inner products with one of them, and sums with multiples of
//! it, in registers.
//!
//! Everything between `run` and an instruction is inlined, as in `product/tile.rs`.

use faer::MatMut;
use pulp::{Simd, WithSimd};

use crate::device::cpu::vectors::{length, load, store, with_vectors, zero};
use crate::scalar::{Lanes, Scalar, Vector};

/// The most columns of a pass. Each has a register for its sum, a complex one two.
pub const MOST: usize = 8;

/// Contiguous columns, of which each has the same number of elements.
pub struct Columns<T> {
    at: *mut T,
    rows: usize,
    count: usize,
    stride: usize,
}

impl<T: Scalar> Columns<T> {
    pub fn new(c: MatMut<T>) -> Self {
        assert!(c.row_stride() == 1 || c.nrows() <= 1, "contiguous columns");
        assert!(c.ncols() <= MOST, "at most {MOST} columns");
        let (rows, count, stride) = (c.nrows(), c.ncols(), c.col_stride() as usize);
        Columns { at: c.as_ptr_mut(), rows, count, stride }
    }

    fn at(&self, row: usize, column: usize) -> *mut T {
        assert!(row < self.rows && column < self.count, "an element");
        self.at.wrapping_add(column * self.stride + row)
    }

    fn get(&self, row: usize, column: usize) -> T {
        // SAFETY: the element is there, and the columns are borrowed.
        unsafe { self.at(row, column).read() }
    }
}

/// `c_j^H c_i` for every column i.
pub fn dots<T: Scalar>(c: MatMut<T>, j: usize) -> [T; MOST] {
    let columns = Columns::new(c);
    assert!(j < columns.count, "a column");
    run(Dots { columns, j })
}

/// `c_i <- c_i + by_i c_0` for every column i but the first, and `c_0 <- by_0 c_0`.
pub fn add_multiples<T: Scalar>(c: MatMut<T>, by: &[T; MOST]) {
    run(AddMultiples { columns: Columns::new(c), by });
}

/// A pass with vectors, or element by element where there is no kernel.
pub trait Pass: Sized {
    type Output;
    /// For N columns.
    fn vectors<S: Simd, const N: usize>(self, simd: S) -> Self::Output;
    fn plain(self) -> Self::Output;
    fn count(&self) -> usize;
}

struct Vectors<P>(P);

impl<P: Pass> WithSimd for Vectors<P> {
    type Output = P::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> P::Output {
        match self.0.count() {
            1 => self.0.vectors::<S, 1>(simd),
            2 => self.0.vectors::<S, 2>(simd),
            3 => self.0.vectors::<S, 3>(simd),
            4 => self.0.vectors::<S, 4>(simd),
            5 => self.0.vectors::<S, 5>(simd),
            6 => self.0.vectors::<S, 6>(simd),
            7 => self.0.vectors::<S, 7>(simd),
            MOST => self.0.vectors::<S, MOST>(simd),
            _ => self.0.plain(),
        }
    }
}

pub fn run<P: Pass>(pass: P) -> P::Output {
    with_vectors(Vectors(pass)).unwrap_or_else(|Vectors(pass)| pass.plain())
}

pub struct Dots<T> {
    pub columns: Columns<T>,
    pub j: usize,
}

pub struct AddMultiples<'a, T> {
    pub columns: Columns<T>,
    pub by: &'a [T; MOST],
}

/// The first elements of some columns.
#[inline(always)]
fn pointers<T, const N: usize>(at: *mut T, stride: usize) -> [*mut T; N] {
    std::array::from_fn(|i| at.wrapping_add(i * stride))
}

/// The sum of the parts of all elements.
#[inline(always)]
fn sum<T: Scalar, S: Simd>(vector: Vector<T, S>) -> f64 {
    let vector = [vector];
    let mut all = 0.0;
    for element in bytemuck::cast_slice::<_, T>(&vector) {
        let (re, im) = element.parts();
        all += re + im;
    }
    all
}

impl<T: Scalar> Dots<T> {
    /// Adds the products of `count` rows, at most a vector. Im(v^H c) is Re((iv)^H c).
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize>(
        simd: S,
        sums: &mut [[Vector<T, S>; N]; 2],
        v: *const T,
        columns: [*mut T; N],
        row: usize,
        count: usize,
    ) {
        // SAFETY: the caller promises these elements.
        let v = unsafe { load(simd, v.add(row), count) };
        let turned = if T::IS_COMPLEX { T::Real::turn(simd, v) } else { v };
        for (i, column) in columns.into_iter().enumerate() {
            // SAFETY: as above.
            let column = unsafe { load(simd, column.add(row), count) };
            sums[0][i] = T::Real::mul_add(simd, v, column, sums[0][i]);
            if T::IS_COMPLEX {
                sums[1][i] = T::Real::mul_add(simd, turned, column, sums[1][i]);
            }
        }
    }
}

impl<T: Scalar> Pass for Dots<T> {
    type Output = [T; MOST];

    fn count(&self) -> usize {
        self.columns.count
    }

    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(self, simd: S) -> [T; MOST] {
        let (Columns { at, rows, stride, .. }, j) = (self.columns, self.j);
        let (zero, full) = (zero::<T, S>(simd), length::<T, S>());
        let (v, columns) = (at.wrapping_add(j * stride), pointers::<T, N>(at, stride));
        let (mut sums, whole) = ([[zero; N]; 2], rows / full * full);
        for row in (0..whole).step_by(full) {
            // SAFETY: these elements are there, and the columns are borrowed.
            unsafe { Self::add(simd, &mut sums, v, columns, row, full) };
        }
        if whole < rows {
            // SAFETY: as above.
            unsafe { Self::add(simd, &mut sums, v, columns, whole, rows - whole) };
        }
        let mut found = [T::ZERO; MOST];
        for i in 0..N {
            found[i] = T::of_parts(sum::<T, S>(sums[0][i]), sum::<T, S>(sums[1][i]));
        }
        found
    }

    fn plain(self) -> [T; MOST] {
        let mut found = [T::ZERO; MOST];
        for row in 0..self.columns.rows {
            let v = T::conj_impl(&self.columns.get(row, self.j));
            for (i, sum) in found.iter_mut().enumerate().take(self.columns.count) {
                *sum += v * self.columns.get(row, i);
            }
        }
        found
    }
}

impl<T: Scalar> AddMultiples<'_, T> {
    /// Adds the multiples in `count` rows, at most a vector.
    ///
    /// # Safety
    /// They are there, and this thread's.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize>(
        simd: S,
        by: &[[Vector<T, S>; N]; 2],
        columns: [*mut T; N],
        row: usize,
        count: usize,
    ) {
        // SAFETY: the caller promises these elements.
        let v = unsafe { load(simd, columns[0].add(row), count) };
        let turned = if T::IS_COMPLEX { T::Real::turn(simd, v) } else { v };
        for (i, column) in columns.into_iter().enumerate() {
            // SAFETY: as above.
            let old = unsafe { load(simd, column.add(row), count) };
            let mut new = if i == 0 { zero::<T, S>(simd) } else { old };
            new = T::Real::mul_add(simd, v, by[0][i], new);
            if T::IS_COMPLEX {
                new = T::Real::mul_add(simd, turned, by[1][i], new);
            }
            // SAFETY: as above.
            unsafe { store(simd, column.add(row), count, new) };
        }
    }
}

impl<T: Scalar> Pass for AddMultiples<'_, T> {
    type Output = ();

    fn count(&self) -> usize {
        self.columns.count
    }

    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(self, simd: S) {
        let Columns { at, rows, stride, .. } = self.columns;
        let (zero, full) = (zero::<T, S>(simd), length::<T, S>());
        let (columns, whole) = (pointers::<T, N>(at, stride), rows / full * full);
        let mut by = [[zero; N]; 2];
        for (i, factor) in self.by.iter().enumerate().take(N) {
            by[0][i] = T::Real::splat(simd, T::real_part_impl(factor));
            by[1][i] = T::Real::splat(simd, T::imag_part_impl(factor));
        }
        for row in (0..whole).step_by(full) {
            // SAFETY: these elements are there, and the columns are borrowed.
            unsafe { Self::add(simd, &by, columns, row, full) };
        }
        if whole < rows {
            // SAFETY: as above.
            unsafe { Self::add(simd, &by, columns, whole, rows - whole) };
        }
    }

    fn plain(self) {
        for row in 0..self.columns.rows {
            let v = self.columns.get(row, 0);
            for (i, &by) in self.by.iter().enumerate().take(self.columns.count) {
                let old = if i == 0 { T::ZERO } else { self.columns.get(row, i) };
                // SAFETY: the columns are borrowed.
                unsafe { self.columns.at(row, i).write(old + by * v) };
            }
        }
    }
}
