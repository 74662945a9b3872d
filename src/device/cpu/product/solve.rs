//! Triangular solves of many lines: `x_p <- (x_p - sum of M_pq x_q over q < p) / M_pp`, p ascending, for
//! the elements x of each line and a lower triangle M.
//!
//! Lines are packed like the rows of a product. For some elements of a unit of lines the product
//! kernel makes the sum over all solved ones before them. The rest is in registers, too: few
//! elements depend on each other there. A unit of lines stays in the first-level cache, M in the
//! second.

use faer::reborrow::ReborrowMut;
use faer::{MatMut, MatRef};
use pulp::Simd;

use super::pack::{Packed, unpack};
use super::tile::{Work, dispatch, multiply_units};
use super::{ROW_BYTES, Units};
use crate::device::cpu::float_mode::FloatMode;
use crate::scalar::{Lanes, Scalar, Vector};

/// With fewer lines, packing M takes longer than the kernel saves.
const LEAST_LINES: usize = 48;

/// M in units of rows, with the reciprocals of its diagonal in the place of the diagonal.
pub struct Coefficients<'a, T> {
    rows: Packed<'a, T>,
    has_ones: bool,
}

impl<'a, T: Scalar> Coefficients<'a, T> {
    /// The lower triangle of `m` or its conjugate, for solves of `lines` lines. `None` where faer is
    /// faster, or where a number on the diagonal has no normal reciprocal.
    pub fn new(
        m: MatRef<T>,
        conjugated: bool,
        has_ones: bool,
        lines: usize,
        units: Units,
        memory: &'a mut [T],
    ) -> Option<Self> {
        let depth = m.nrows();
        let size = Packed::<T>::elements(units.cols, depth, depth);
        let pays = lines >= LEAST_LINES && depth >= units.cols;
        if !pays || memory.len() < size {
            return None;
        }
        let rows = Self::pack(m, conjugated, has_ones, units.cols, memory)?;
        Some(Coefficients { rows, has_ones })
    }

    pub fn pack(
        m: MatRef<T>,
        conjugated: bool,
        has_ones: bool,
        unit: usize,
        memory: &'a mut [T],
    ) -> Option<Packed<'a, T>> {
        let depth = m.nrows();
        Packed::new(m, conjugated, unit, memory);
        // The computation of a complex reciprocal has subnormal numbers on the way.
        let mode = FloatMode::current();
        FloatMode::IEEE.enter();
        let invert = |p: usize, memory: &mut [T]| {
            let at = (p / unit * depth + p) * unit + p % unit;
            memory[at].safe_reciprocal().map(|reciprocal| memory[at] = reciprocal)
        };
        let own = if has_ones { 0..0 } else { 0..depth };
        let all = own.into_iter().try_for_each(|p| invert(p, memory));
        mode.enter();
        all.map(|()| Packed::of(memory, unit, depth, depth))
    }

    /// Solves for all lines. They are the rows of `x`, whose columns are their elements. `memory` is
    /// for packed lines.
    pub fn solve(&self, mut x: MatMut<T>, units: Units, memory: &mut [T]) {
        let depth = self.rows.depth();
        let fit = memory.len().min(ROW_BYTES / size_of::<T>());
        let high = (fit / depth / units.rows).max(1) * units.rows;
        for row in (0..x.nrows()).step_by(high) {
            let count = high.min(x.nrows() - row);
            let part = x.rb_mut().subrows_mut(row, count);
            Packed::new(part.as_ref(), false, units.rows, memory);
            let lines = &mut memory[..Packed::<T>::elements(units.rows, count, depth)];
            dispatch(Solve { rows: &self.rows, has_ones: self.has_ones, lines });
            unpack(lines, units.rows, part);
        }
    }
}

/// A solve to do, with packed lines.
pub struct Solve<'a, T> {
    pub rows: &'a Packed<'a, T>,
    /// Whether the diagonal is ones, and not in `rows`.
    pub has_ones: bool,
    pub lines: &'a mut [T],
}

impl<T: Scalar> Work for Solve<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const V: usize, const N: usize>(self, simd: S) {
        let (unit, depth) = (V * size_of::<Vector<T, S>>() / size_of::<T>(), self.rows.depth());
        let columns = N * size_of::<T::Real>() / size_of::<T>();
        assert_eq!(self.rows.unit(), columns, "units of the kernel");
        for unit in self.lines.chunks_exact_mut(unit * depth) {
            for (block, rows) in self.rows.units().enumerate() {
                // SAFETY: both have whole units.
                unsafe {
                    solve_block::<T, S, V, N>(simd, block * columns, rows, self.has_ones, unit)
                };
            }
        }
    }
}

/// Solves for the elements of a unit of lines from `first` on that a unit of rows determines.
///
/// # Safety
/// `rows` are whole units of N real numbers, and `lines` of V vectors.
#[inline(always)]
unsafe fn solve_block<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    first: usize,
    rows: &[T],
    has_ones: bool,
    lines: &mut [T],
) {
    let unit = V * size_of::<Vector<T, S>>() / size_of::<T>();
    let columns = N * size_of::<T::Real>() / size_of::<T>();
    let (solved, rest) = lines.split_at_mut(first * unit);
    // SAFETY: as the caller promises; both have `first` steps.
    let mut sums = unsafe { multiply_units::<T, S, V, N>(simd, solved, &rows[..first * columns]) };
    let minus = T::Real::splat(simd, T::Real::sign(true));
    let zero = T::Real::splat(simd, bytemuck::Zeroable::zeroed());
    // M_pq for the elements of this block, q first.
    let own = &rows[first * columns..];
    for j in 0..columns.min(rest.len() / unit) {
        let (solved, later) = sums.split_at_mut(j + 1);
        let line = rest[j * unit..].as_mut_ptr().cast::<Vector<T, S>>();
        let of_line = &own[j * columns..(j + 1) * columns];
        for (i, sum) in solved[j].iter().enumerate() {
            // SAFETY: the line of a unit has V vectors.
            let before = unsafe { line.add(i).read_unaligned() };
            let difference = T::Real::mul_add(simd, *sum, minus, before);
            // A product with 1 would make NaN of infinite complex numbers.
            let x = match has_ones {
                true => difference,
                false => add_multiple::<T, S>(simd, difference, of_line[j], zero),
            };
            // SAFETY: as above.
            unsafe { line.add(i).write_unaligned(x) };
            for (sums, &m) in later.iter_mut().zip(&of_line[j + 1..]) {
                sums[i] = add_multiple::<T, S>(simd, x, m, sums[i]);
            }
        }
    }
}

/// `c x + sum` for the elements of a vector.
#[inline(always)]
fn add_multiple<T: Scalar, S: Simd>(
    simd: S,
    x: Vector<T, S>,
    c: T,
    sum: Vector<T, S>,
) -> Vector<T, S> {
    let sum = T::Real::mul_add(simd, x, T::Real::splat(simd, T::real_part_impl(&c)), sum);
    if !T::IS_COMPLEX {
        return sum;
    }
    let im = T::Real::splat(simd, T::imag_part_impl(&c));
    T::Real::mul_add(simd, T::Real::turn(simd, x), im, sum)
}
