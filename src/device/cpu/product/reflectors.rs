//! `C <- C - ((C conj(V)) T^T) V^T`, with as many columns of V as a unit has: C conj(V) stays in registers.
//!
//! V has a unit of numbers for each column of C. So a few reflectors have the speed of a product with a long
//! inner dimension, while C comes from a cache.

use bytemuck::Zeroable;
use pulp::Simd;

use super::right::{Conjugated, Prefetching, Unit};
use super::tile::{Sums, Work, dispatch, multiply_numbers};
use super::{Packed, Units};
use crate::scalar::{Lanes, Scalar, Vector};

/// Packed reflectors: the lines of V^T as a right factor, then those of -T, as many as a unit has.
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

    /// Applies them to packed rows, one unit of them: `c` has them column by column. The unit that
    /// comes next is `apart` elements later.
    pub fn apply(&self, c: &mut [T], apart: usize) {
        dispatch(Apply { reflectors: self, c, apart });
    }
}

/// Packed reflectors and what they are applied to.
pub struct Apply<'a, T> {
    pub reflectors: &'a Reflectors<'a, T>,
    pub c: &'a mut [T],
    pub apart: usize,
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
        let [of_v, of_t] = [v, t].map(|packed| Unit::<T::Real, N>::of(packed.all()));
        let later = self.c.as_ptr().wrapping_add(self.apart).cast();
        let of_v = Prefetching { of: of_v, later, bytes: V * size_of::<Vector<T, S>>() };
        // SAFETY: V vectors of C for each step of V.
        let sums = unsafe { multiply_numbers::<T, S, V, N, _>(simd, self.c, Conjugated(of_v)) };
        // A copy, as sums with an address would not stay in registers.
        let mut w = [[T::Real::splat(simd, Zeroable::zeroed()); V]; N];
        for (w, sums) in w.iter_mut().zip(sums) {
            for (w, sum) in w.iter_mut().zip(sums) {
                *w = sum;
            }
        }
        // SAFETY: V vectors of W for each step of T.
        let by = unsafe {
            let w = std::slice::from_raw_parts(w.as_ptr().cast::<T>(), height * columns);
            multiply_numbers::<T, S, V, N, _>(simd, w, of_t)
        };
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
