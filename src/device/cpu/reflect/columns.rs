//! Passes over some contiguous columns: inner products with one of them, and sums with multiples of
//! it, in registers.
//!
//! Everything between `run` and an instruction is inlined, as in `product/tile.rs`.

use faer::MatMut;
use pulp::{Simd, WithSimd};

use crate::device::cpu::vectors::{length, load, store, zero};
use crate::scalar::{Lanes, Scalar, Vector};

/// The most columns of a pass. Each has a register for its sum, a complex one two.
pub const MOST: usize = 8;

/// Contiguous columns, of which each has the same number of elements.
struct Columns<T> {
    at: *mut T,
    rows: usize,
    count: usize,
    stride: usize,
}

impl<T: Scalar> Columns<T> {
    fn new(c: MatMut<T>) -> Self {
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
trait Pass: Sized {
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

fn run<P: Pass>(pass: P) -> P::Output {
    #[cfg(target_arch = "x86_64")]
    match pulp::Arch::new() {
        pulp::Arch::V4(simd) => return Simd::vectorize(simd, Vectors(pass)),
        pulp::Arch::V3(simd) => return Simd::vectorize(simd, Vectors(pass)),
        _ => {}
    }
    pass.plain()
}

struct Dots<T> {
    columns: Columns<T>,
    j: usize,
}

struct AddMultiples<'a, T> {
    columns: Columns<T>,
    by: &'a [T; MOST],
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
    /// Adds the products of a vector of each column. Im(v^H c) is Re((iv)^H c).
    #[inline(always)]
    fn add<S: Simd, const N: usize>(
        simd: S,
        sums: &mut [[Vector<T, S>; N]; 2],
        v: Vector<T, S>,
        columns: [Vector<T, S>; N],
    ) {
        let turned = if T::IS_COMPLEX { T::Real::turn(simd, v) } else { v };
        for i in 0..N {
            sums[0][i] = T::Real::mul_add(simd, v, columns[i], sums[0][i]);
            if T::IS_COMPLEX {
                sums[1][i] = T::Real::mul_add(simd, turned, columns[i], sums[1][i]);
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
        let mut sums = [[zero; N]; 2];
        for row in (0..rows).step_by(full) {
            let some = full.min(rows - row);
            let mut columns = [zero; N];
            for (i, column) in columns.iter_mut().enumerate() {
                // SAFETY: these elements are there, and the columns are borrowed.
                *column = unsafe { load(simd, at.wrapping_add(i * stride + row), some) };
            }
            // SAFETY: as above.
            let v = unsafe { load(simd, at.wrapping_add(j * stride + row), some) };
            Self::add(simd, &mut sums, v, columns);
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

impl<T: Scalar> Pass for AddMultiples<'_, T> {
    type Output = ();

    fn count(&self) -> usize {
        self.columns.count
    }

    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(self, simd: S) {
        let Columns { at, rows, stride, .. } = self.columns;
        let (zero, full) = (zero::<T, S>(simd), length::<T, S>());
        let mut by = [[zero; 2]; N];
        for ([re, im], factor) in by.iter_mut().zip(self.by) {
            *re = T::Real::splat(simd, T::real_part_impl(factor));
            *im = T::Real::splat(simd, T::imag_part_impl(factor));
        }
        for row in (0..rows).step_by(full) {
            let some = full.min(rows - row);
            let first = at.wrapping_add(row);
            // SAFETY: these elements are there, and the columns are borrowed.
            let v = unsafe { load(simd, first, some) };
            let turned = if T::IS_COMPLEX { T::Real::turn(simd, v) } else { v };
            for (i, &[re, im]) in by.iter().enumerate() {
                let column = first.wrapping_add(i * stride);
                // SAFETY: as above.
                let mut new = if i == 0 { zero } else { unsafe { load(simd, column, some) } };
                new = T::Real::mul_add(simd, v, re, new);
                if T::IS_COMPLEX {
                    new = T::Real::mul_add(simd, turned, im, new);
                }
                // SAFETY: as above.
                unsafe { store(column, some, new) };
            }
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

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;

    /// With vectors and without them, on all tails.
    fn passes<T: Scalar>() {
        for (rows, count) in (0..40).flat_map(|rows| (1..=MOST).map(move |count| (rows, count))) {
            let entry = |i: usize, j: usize| {
                T::of_parts((7 * i + 3 * j) as f64 % 11.0 - 5.0, (5 * i + j) as f64 % 7.0 - 3.0)
            };
            let c = Mat::from_fn(rows + 2, count, entry);
            let by: [T; MOST] = std::array::from_fn(|i| T::of_parts(i as f64 - 3.0, 2.0));
            let j = rows % count;
            let [mut x, mut y] = [c.clone(), c.clone()];
            let part = |c: &mut Mat<T>| Columns::new(c.as_mut().subrows_mut(1, rows));
            let dots =
                [run(Dots { columns: part(&mut x), j }), Dots { columns: part(&mut y), j }.plain()];
            assert!(dots[0] == dots[1], "{} {rows} {count}: {dots:?}", T::DTYPE.name());
            run(AddMultiples { columns: part(&mut x), by: &by });
            AddMultiples { columns: part(&mut y), by: &by }.plain();
            assert!(x == y, "{} {rows} {count}", T::DTYPE.name());
        }
    }

    #[test]
    fn passes_with_vectors_are_the_plain_ones() {
        crate::scalar::for_all_scalars!(passes);
    }
}
