//! `C <- C - ((C conj(V)) T^T) V^T`, with as many columns of V as a unit has: C conj(V) stays in registers.
//!
//! V has a unit of numbers for each column of C. So a few reflectors have the speed of a product with a long
//! inner dimension, while C comes from a cache.

use bytemuck::Zeroable;
use pulp::Simd;

use super::right::{Conjugated, Unit};
use super::tile::{Sums, Work, dispatch, multiply_numbers};
use super::{Packed, Units};
use crate::scalar::{Lanes, Scalar, Vector};

/// Packed reflectors: the lines of V^T as a right factor, then those of -T, as many as a unit has. T is
/// upper triangular.
pub struct Reflectors<'a, T> {
    v: Packed<'a, T>,
    t: Packed<'a, T>,
}

impl<'a, T: Scalar> Reflectors<'a, T> {
    /// `count` reflectors of so many rows, which are the first elements of `memory`.
    pub fn of(memory: &'a [T], units: Units, count: usize, rows: usize) -> Self {
        assert!(count <= units.cols, "at most a unit of reflectors");
        let (v, rest) = memory.split_at(units.cols * rows);
        let t = Packed::of(rest, units.cols, units.cols, units.cols);
        Reflectors { v: Packed::of(v, units.cols, count, rows), t }
    }

    /// Applies them to packed rows, one unit of them: `c` has them column by column.
    pub fn apply(&self, c: &mut [T]) {
        dispatch(Apply { reflectors: self, c });
    }
}

/// Packed reflectors and what they are applied to.
pub struct Apply<'a, T> {
    pub reflectors: &'a Reflectors<'a, T>,
    pub c: &'a mut [T],
}

impl<T: Scalar> Work for Apply<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const V: usize, const N: usize>(self, simd: S) {
        let Reflectors { v, t } = self.reflectors;
        let vector = size_of::<Vector<T, S>>() / size_of::<T>();
        let columns = N * size_of::<T::Real>() / size_of::<T>();
        let height = V * vector;
        assert_eq!(v.unit(), columns, "units of the kernel");
        assert_eq!(self.c.len(), height * v.depth(), "a step for each column");
        assert_eq!((t.unit(), t.depth()), (columns, columns), "a triangle of so many columns");
        let of_v = Unit::<T::Real, N>::of(v.all());
        // SAFETY: V vectors of C for each step of V.
        let sums = unsafe { multiply_numbers::<T, S, V, N, _>(simd, self.c, Conjugated(of_v)) };
        // SAFETY: N real numbers for each step of T.
        let by = unsafe { times_triangle::<T, S, V, N>(simd, sums, t.all().as_ptr().cast()) };
        let by = if T::IS_COMPLEX { with_turned::<T, S, V, N>(simd, by) } else { by };
        let (numbers, at) =
            (v.all().as_ptr().cast::<T::Real>(), self.c.as_mut_ptr().cast::<Vector<T, S>>());
        for column in 0..v.depth() {
            let mut c = [T::Real::splat(simd, Zeroable::zeroed()); V];
            // SAFETY: V vectors of C, and N numbers of the unit, for each column.
            unsafe {
                let (at, numbers) = (at.add(column * V), numbers.add(column * N));
                for (i, c) in c.iter_mut().enumerate() {
                    *c = at.add(i).read_unaligned();
                }
                for (j, by) in by.iter().enumerate() {
                    let number = T::Real::splat(simd, numbers.add(j).read());
                    for (c, by) in c.iter_mut().zip(*by) {
                        *c = T::Real::mul_add(simd, by, number, *c);
                    }
                }
                for (i, c) in c.iter().enumerate() {
                    at.add(i).write_unaligned(*c);
                }
            }
        }
    }
}

/// W T^T, T upper triangular. All of it stays in registers.
///
/// # Safety
/// N real numbers of each column of T are at `t`.
#[inline(always)]
unsafe fn times_triangle<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    w: Sums<T, S, V, N>,
    t: *const T::Real,
) -> Sums<T, S, V, N> {
    const { assert!(N <= 8, "a line for each column") };
    // SAFETY: the caller's promise. None needs columns of W before its own.
    unsafe {
        let w = triangle_column::<T, S, V, N, 0>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 1>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 2>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 3>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 4>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 5>(simd, w, t);
        let w = triangle_column::<T, S, V, N, 6>(simd, w, t);
        triangle_column::<T, S, V, N, 7>(simd, w, t)
    }
}

/// The same for column J alone. As J is a constant, the compiler unrolls the loop.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn triangle_column<T: Scalar, S: Simd, const V: usize, const N: usize, const J: usize>(
    simd: S,
    mut w: Sums<T, S, V, N>,
    t: *const T::Real,
) -> Sums<T, S, V, N> {
    let reals = size_of::<T>() / size_of::<T::Real>();
    if J >= N / reals {
        return w;
    }
    // Of real parts of T, and of imaginary ones.
    let mut sums = [[T::Real::splat(simd, Zeroable::zeroed()); V]; 2];
    for (k, w) in w.iter().enumerate() {
        if k < J || k >= N / reals {
            continue;
        }
        for (part, sums) in sums.iter_mut().enumerate().take(reals) {
            // SAFETY: the caller's promise.
            let number = T::Real::splat(simd, unsafe { t.add(k * N + J * reals + part).read() });
            for (sum, w) in sums.iter_mut().zip(*w) {
                *sum = T::Real::mul_add(simd, w, number, *sum);
            }
        }
    }
    let [of_re, of_im] = sums;
    w[J] = of_re;
    if T::IS_COMPLEX {
        let one = T::Real::splat(simd, T::Real::sign(false));
        for (sum, of_im) in w[J].iter_mut().zip(of_im) {
            *sum = T::Real::mul_add(simd, T::Real::turn(simd, of_im), one, *sum);
        }
    }
    w
}

/// Complex columns, each followed by i times itself: what real numbers multiply.
#[inline(always)]
fn with_turned<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    columns: Sums<T, S, V, N>,
) -> Sums<T, S, V, N> {
    let mut all = columns;
    for j in (0..N / 2).rev() {
        let mut turned = columns[j];
        for x in &mut turned {
            *x = T::Real::turn(simd, *x);
        }
        (all[2 * j], all[2 * j + 1]) = (columns[j], turned);
    }
    all
}
