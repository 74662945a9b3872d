//! Passes over N columns at a time, by vectors. Their sums, and what all of them need, stay in registers.
//!
//! Everything here is inlined into functions with the instructions of `simd`.

use pulp::{Scalar256b, Simd, WithSimd};

use super::vectors::{length, load, store, with_vectors, zero};

use crate::scalar::{Lanes, Scalar, Vector};

/// Columns of a pass, where there are as many.
pub const GROUP: usize = 4;

/// Contiguous columns.
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    pub first: *mut T,
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
}

impl<T> Block<T> {
    /// Column j from row i on.
    #[inline(always)]
    pub fn column(&self, i: usize, j: usize) -> *mut T {
        debug_assert!(i <= self.rows && j < self.cols, "a column");
        self.first.wrapping_add(i + j * self.stride)
    }

    /// N columns from j on.
    #[inline(always)]
    pub fn columns<const N: usize>(&self, i: usize, j: usize) -> [*mut T; N] {
        let mut columns = [self.first; N];
        for (k, column) in columns.iter_mut().enumerate() {
            *column = self.column(i, j + k);
        }
        columns
    }
}

/// N elements from j on.
#[inline(always)]
pub fn part<T: Copy, const N: usize>(x: &[T], j: usize) -> [T; N] {
    x[j..j + N].try_into().expect("as many elements")
}

/// Does `work` with the vectors of this processor, or with what the compiler makes of small arrays.
pub fn vectorized<W: WithSimd>(work: W) -> W::Output {
    with_vectors(work).unwrap_or_else(|work| work.with_simd(Scalar256b))
}

#[derive(Clone, Copy)]
pub struct Wide<S>(pub S);

/// Runs a block for each vector of so many rows, and for a part of one that is left.
macro_rules! by_vectors {
    ($rows:expr, $full:expr, |$row:ident, $some:ident| $block:block) => {
        let whole = $rows / $full * $full;
        for $row in (0..whole).step_by($full) {
            let $some = $full;
            $block
        }
        if whole < $rows {
            let ($row, $some) = (whole, $rows - whole);
            $block
        }
    };
}

impl<S: Simd> Wide<S> {
    /// The parts of numbers, each in a vector of its own.
    #[inline(always)]
    fn parts<T: Scalar, const N: usize>(self, s: [T; N]) -> [[Vector<T, S>; 2]; N] {
        let mut parts = [[zero::<T, S>(self.0); 2]; N];
        for i in 0..N {
            parts[i][0] = T::Real::splat(self.0, T::real_part_impl(&s[i]));
            parts[i][1] = T::Real::splat(self.0, T::imag_part_impl(&s[i]));
        }
        parts
    }

    /// i x, for complex numbers.
    #[inline(always)]
    fn turned<T: Scalar>(self, x: Vector<T, S>) -> Vector<T, S> {
        if T::IS_COMPLEX { T::Real::turn(self.0, x) } else { x }
    }

    /// s x + y, with the parts of s, x and i x.
    #[inline(always)]
    fn multiply_add<T: Scalar>(
        self,
        s: [Vector<T, S>; 2],
        x: [Vector<T, S>; 2],
        y: Vector<T, S>,
    ) -> Vector<T, S> {
        let sum = T::Real::mul_add(self.0, x[0], s[0], y);
        if T::IS_COMPLEX { T::Real::mul_add(self.0, x[1], s[1], sum) } else { sum }
    }

    /// Adds the products of x^H y to sums of its parts. Im(x^H y) is Re((ix)^H y).
    #[inline(always)]
    fn add_dot<T: Scalar>(
        self,
        sums: &mut [Vector<T, S>; 2],
        x: [Vector<T, S>; 2],
        y: Vector<T, S>,
    ) {
        sums[0] = T::Real::mul_add(self.0, x[0], y, sums[0]);
        if T::IS_COMPLEX {
            sums[1] = T::Real::mul_add(self.0, x[1], y, sums[1]);
        }
    }

    /// The numbers with these parts, each the sum of a vector.
    #[inline(always)]
    fn numbers<T: Scalar, const N: usize>(self, sums: [[Vector<T, S>; 2]; N]) -> [T; N] {
        let mut numbers = [T::ZERO; N];
        for (number, [re, im]) in numbers.iter_mut().zip(sums) {
            *number = T::from_real_impl(&T::Real::sum(self.0, re));
            if T::IS_COMPLEX {
                let im = T::from_real_impl(&T::Real::sum(self.0, im));
                *number += T::of_parts(0.0, 1.0) * im;
            }
        }
        numbers
    }
}

impl<S: Simd> Wide<S> {
    /// `y <- y + sum of s_i x_i`
    ///
    /// # Safety
    /// The columns are as long as y, and nothing writes them.
    #[inline(always)]
    pub unsafe fn sum<T: Scalar, const N: usize>(self, y: &mut [T], s: [T; N], x: [*mut T; N]) {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let (rows, y) = (y.len(), y.as_mut_ptr());
        by_vectors!(rows, full, |row, some| {
            // SAFETY: these elements are there, and y is this thread's.
            unsafe {
                let mut sum = load(simd, y.wrapping_add(row), some);
                for i in 0..N {
                    let x = load(simd, x[i].wrapping_add(row), some);
                    sum = self.multiply_add::<T>(s[i], [x, self.turned::<T>(x)], sum);
                }
                store(simd, y.wrapping_add(row), some, sum);
            }
        });
    }

    /// `c_i <- c_i + s_i x`
    ///
    /// # Safety
    /// The columns are as long as x, and this thread's.
    #[inline(always)]
    pub unsafe fn spread<T: Scalar, const N: usize>(self, c: [*mut T; N], s: [T; N], x: &[T]) {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        by_vectors!(x.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let x = load(simd, x.as_ptr().wrapping_add(row), some);
                let x = [x, self.turned::<T>(x)];
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    store(simd, to, some, self.multiply_add::<T>(s[i], x, load(simd, to, some)));
                }
            }
        });
    }

    /// `c_i <- c_i + s_i x + t_i y`
    ///
    /// # Safety
    /// As for `spread`; y is as long as x.
    #[inline(always)]
    pub unsafe fn spread_two<T: Scalar, const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        x: &[T],
        t: [T; N],
        y: &[T],
    ) {
        let (simd, s, t, full) = (self.0, self.parts(s), self.parts(t), length::<T, S>());
        by_vectors!(x.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let x = load(simd, x.as_ptr().wrapping_add(row), some);
                let y = load(simd, y.as_ptr().wrapping_add(row), some);
                let (x, y) = ([x, self.turned::<T>(x)], [y, self.turned::<T>(y)]);
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    let sum = self.multiply_add::<T>(s[i], x, load(simd, to, some));
                    store(simd, to, some, self.multiply_add::<T>(t[i], y, sum));
                }
            }
        });
    }

    /// c_i^H v
    ///
    /// # Safety
    /// As for `sum`; the columns are as long as v.
    #[inline(always)]
    pub unsafe fn dots<T: Scalar, const N: usize>(self, c: [*mut T; N], v: &[T]) -> [T; N] {
        let (simd, full) = (self.0, length::<T, S>());
        let mut sums = [[zero::<T, S>(simd); 2]; N];
        by_vectors!(v.len(), full, |row, some| {
            // SAFETY: these elements are there.
            unsafe {
                let v = load(simd, v.as_ptr().wrapping_add(row), some);
                for i in 0..N {
                    let c = load(simd, c[i].wrapping_add(row), some);
                    self.add_dot::<T>(&mut sums[i], [c, self.turned::<T>(c)], v);
                }
            }
        });
        self.numbers(sums)
    }

    /// `w <- w + sum of s_i c_i`, and c_i^H v.
    ///
    /// # Safety
    /// As for `sum`; v is as long as w.
    #[inline(always)]
    pub unsafe fn sum_and_dots<T: Scalar, const N: usize>(
        self,
        w: &mut [T],
        s: [T; N],
        c: [*mut T; N],
        v: &[T],
    ) -> [T; N] {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let (rows, w) = (w.len(), w.as_mut_ptr());
        let mut sums = [[zero::<T, S>(simd); 2]; N];
        by_vectors!(rows, full, |row, some| {
            // SAFETY: these elements are there, and w is this thread's.
            unsafe {
                let v = load(simd, v.as_ptr().wrapping_add(row), some);
                let mut sum = load(simd, w.wrapping_add(row), some);
                for i in 0..N {
                    let c = load(simd, c[i].wrapping_add(row), some);
                    let c = [c, self.turned::<T>(c)];
                    sum = self.multiply_add::<T>(s[i], c, sum);
                    self.add_dot::<T>(&mut sums[i], c, v);
                }
                store(simd, w.wrapping_add(row), some, sum);
            }
        });
        self.numbers(sums)
    }

    /// `c_i <- c_i + s_i u`, and v^H c_i of the new c_i.
    ///
    /// # Safety
    /// As for `spread`; v is as long as u.
    #[inline(always)]
    pub unsafe fn spread_and_dots<T: Scalar, const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        u: &[T],
        v: &[T],
    ) -> [T; N] {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let mut sums = [[zero::<T, S>(simd); 2]; N];
        by_vectors!(u.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let u = load(simd, u.as_ptr().wrapping_add(row), some);
                let v = load(simd, v.as_ptr().wrapping_add(row), some);
                let (u, v) = ([u, self.turned::<T>(u)], [v, self.turned::<T>(v)]);
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    let new = self.multiply_add::<T>(s[i], u, load(simd, to, some));
                    store(simd, to, some, new);
                    self.add_dot::<T>(&mut sums[i], v, new);
                }
            }
        });
        self.numbers(sums)
    }

    /// Adds to w what N columns of a Hermitian D from j on, and the rows that they stand for, contribute to
    /// D v.
    ///
    /// # Safety
    /// The lower triangle of the block is there, and nothing writes it.
    #[inline(always)]
    pub unsafe fn multiply<T: Scalar, const N: usize>(
        self,
        d: &Block<T>,
        j: usize,
        v: &[T],
        w: &mut [T],
    ) {
        for a in j..j + N {
            // SAFETY: as promised.
            w[a] += T::of_parts(unsafe { d.column(a, a).read() }.parts().0, 0.0) * v[a];
            for b in a + 1..j + N {
                // SAFETY: as promised.
                let element = unsafe { d.column(b, a).read() };
                w[b] += element * v[a];
                w[a] += T::conj_impl(&element) * v[b];
            }
        }
        let (here, below) = w.split_at_mut(j + N);
        // SAFETY: as promised.
        let products = unsafe {
            self.sum_and_dots::<T, N>(below, part(v, j), d.columns(j + N, j), &v[j + N..])
        };
        for (w, product) in here[j..].iter_mut().zip(products) {
            *w += product;
        }
    }
}
