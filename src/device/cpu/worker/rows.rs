//! Reflectors applied to rows and to the triangle that takes them up, some columns at a time: their part
//! of the triangle and the products stay in the first-level cache.

use faer::reborrow::{Reborrow, ReborrowMut};
use faer::{MatMut, MatRef};

use super::CpuWorker;
use crate::device::cpu::blas;
use crate::device::cpu::product::{DEEPEST, Packed, Units, multiply_columns};
use crate::scalar::Scalar;

/// Columns at a time: R's part and its products stay in the first-level cache.
const COLUMNS: usize = 48;
/// Fewer columns are products with a few vectors, which need no packing.
const NARROWEST: usize = 8;

impl<T: Scalar> CpuWorker<'_, T> {
    /// V and T for `Factors::apply`, in this worker's scratch, if that is faster than products for `all`
    /// columns.
    pub(super) fn pack_factors(
        &self,
        v: MatRef<T>,
        t: MatRef<T>,
        all: usize,
    ) -> Option<Factors<'_, T>> {
        let (units, k) = (self.units?, t.ncols());
        // Few rows of V^H would be a part of a unit.
        let is_unit = 4 * k >= 3 * k.next_multiple_of(units.rows);
        let fits = Factors::<T>::elements(v.nrows(), k, units) <= self.packs.rows();
        let pays = is_unit && fits && all >= NARROWEST;
        pays.then(|| Factors::new(v, t, units, blas::column_mut(self.write(self.packs), 0)))
    }
}

/// V^H, T^H and V, packed.
pub(super) struct Factors<'a, T> {
    units: Units,
    /// Of some rows of V at a time.
    adjoints: Vec<Packed<'a, T>>,
    /// Some rows of T^H, up to its diagonal.
    triangle: Vec<Packed<'a, T>>,
    v: Packed<'a, T>,
    /// For columns that are no whole unit.
    rest: &'a mut [T],
}

impl<'a, T: Scalar> Factors<'a, T> {
    /// Elements of all, for V of rows x k.
    fn elements(rows: usize, k: usize, units: Units) -> usize {
        let lines = k.next_multiple_of(units.rows);
        let of_v = Packed::<T>::elements(units.rows, rows, k);
        lines * rows + lines * k + of_v + DEEPEST.max(k) * units.cols
    }

    fn new(v: MatRef<T>, t: MatRef<T>, units: Units, memory: &'a mut [T]) -> Self {
        let (rows, k) = v.shape();
        let lines = k.next_multiple_of(units.rows);
        let mut memory = memory;
        let mut take = |count: usize| {
            let (first, rest) = std::mem::take(&mut memory).split_at_mut(count);
            memory = rest;
            first
        };
        let starts = (0..rows).step_by(DEEPEST);
        let adjoints = starts.map(|first| {
            let part = v.subrows(first, DEEPEST.min(rows - first));
            Packed::new(part.transpose(), true, units.rows, take(lines * part.nrows()))
        });
        let adjoints = adjoints.collect();
        let triangle = (0..k).step_by(units.rows).map(|first| {
            let (count, depth) = (units.rows.min(k - first), (first + units.rows).min(k));
            let part = t.submatrix(0, first, depth, count).transpose();
            Packed::new(part, true, units.rows, take(units.rows * depth))
        });
        let triangle = triangle.collect();
        let v = Packed::new(v, false, units.rows, take(Packed::<T>::elements(units.rows, rows, k)));
        Factors { units, adjoints, triangle, v, rest: take(DEEPEST.max(k) * units.cols) }
    }

    /// `[R; C] <- (I - V T^H V^H) [R; C]`. `w` is for twice as many elements as some columns of R have.
    pub fn apply(&mut self, mut r: MatMut<T>, mut c: MatMut<T>, w: &mut [T]) {
        let (k, all) = r.shape();
        let most = COLUMNS.min(w.len() / (2 * k.max(1))).max(1);
        for first in (0..all).step_by(most) {
            let count = most.min(all - first);
            let r = r.rb_mut().subcols_mut(first, count);
            self.apply_some(r, c.rb_mut().subcols_mut(first, count), w);
        }
    }

    fn apply_some(&mut self, mut r: MatMut<T>, c: MatMut<T>, w: &mut [T]) {
        let ((k, count), unit) = (r.shape(), self.units.cols);
        let (x, y) = w.split_at_mut(k * count);
        let mut x = MatMut::from_column_major_slice_mut(x, k, count);
        let mut y = MatMut::from_column_major_slice_mut(&mut y[..k * count], k, count);
        blas::copy(r.rb(), x.rb_mut());
        let mut row = 0;
        for adjoint in &self.adjoints {
            let part = c.rb().subrows(row, adjoint.depth());
            multiply_columns(x.rb_mut(), false, adjoint, part, unit, self.rest);
            row += adjoint.depth();
        }
        y.fill(T::ZERO);
        let mut row = 0;
        for part in &self.triangle {
            let (y, x) =
                (y.rb_mut().subrows_mut(row, part.lines()), x.rb().subrows(0, part.depth()));
            multiply_columns(y, true, part, x, unit, self.rest);
            row += part.lines();
        }
        blas::add(r.rb_mut(), y.rb());
        multiply_columns(c, false, &self.v, y.rb(), unit, self.rest);
    }
}
