//! Reflectors applied to tile columns, with both factors of all products packed.
//!
//! V is packed twice for all targets together, a block of rows at a time: its adjoint for the
//! products V^H C, which are sums over rows, and V itself for the update. A target is read once for
//! each. V^H has few rows, so that packing C would take longer than it saves.

use super::CpuWorker;
use crate::device::cpu::blas;
use crate::device::cpu::product::{DEEPEST, Packed, Units, multiply, multiply_columns};
use crate::device::cpu::reflect::by_triangle;
use crate::device::cpu::sizes::tile_elements;
use crate::device::{Op, Reflectors, Target, reflectors};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// Fewer columns than this are products with a few vectors, which need no packing.
const NARROWEST: usize = 8;

impl<'a, T: Scalar> CpuWorker<'a, T> {
    /// `Device::reflect`.
    pub(super) fn reflect_all(
        &mut self,
        by: Reflectors<T>,
        op: Op,
        targets: &[Target<T>],
        room: Cells<T>,
    ) {
        let (k, widest) = (by.count(), self.widest);
        // At most as wide as a tile, for which packed tiles have room.
        let pieces = targets.iter().flat_map(|target| {
            let (c, starts) = (target.cells, (0..target.cells.cols()).step_by(widest.max(1)));
            let piece = move |j: usize| c.sub(0, j, c.rows(), widest.min(c.cols() - j));
            starts.map(move |j| Target { cells: piece(j), ..*target })
        });
        let pieces: Vec<_> = pieces.collect();
        let is_fast = |c: &Target<T>| c.cells.row_stride() == 1 && c.cells.cols() >= NARROWEST;
        if pieces.is_empty() || k == 0 {
            return;
        }
        let at_a_time = self.tiles.rows() / tile_elements::<T>(widest);
        let fits = at_a_time > 0 && room.rows() >= k * widest;
        match self.units.filter(|_| fits && pieces.iter().all(is_fast)) {
            None => pieces.into_iter().for_each(|c| reflectors::apply(self, by, op, c, room)),
            Some(units) => {
                for some in pieces.chunks(at_a_time) {
                    if self.comm.is_stopped() {
                        return;
                    }
                    self.reflect_some(by, op, some, room, units);
                }
            }
        }
    }

    fn reflect_some(
        &mut self,
        by: Reflectors<T>,
        op: Op,
        targets: &[Target<T>],
        room: Cells<T>,
        units: Units,
    ) {
        let (k, size) = (by.count(), tile_elements::<T>(self.widest));
        // Its product with T is packed in the memory of V^H C.
        let product =
            |i: usize| self.tiles.rows_from(i * size).by_columns(k, targets[i].cells.cols(), k);
        self.multiply_adjoint(by, targets, product, room, units);
        let factors = targets.iter().enumerate().map(|(i, c)| {
            let y = room.by_columns(k, c.cells.cols(), k);
            by_triangle(self.write(y), self.read(by.t), op, self.read(product(i)));
            let memory = blas::column_mut(self.write(self.tiles.sub(i * size, 0, size, 1)), 0);
            Packed::new(self.read(y.transposed()), false, units.cols, memory)
        });
        let factors: Vec<_> = factors.collect();
        let memory = blas::column_mut(self.write(self.pack), 0);
        let high = units.rows_in_cache::<T>(k).min(memory.len() / k / units.rows * units.rows);
        for (v, first) in blocks(by, high) {
            let v = Packed::new(self.read(v), false, units.rows, memory);
            for (c, factor) in targets.iter().zip(&factors) {
                let c = c.cells.sub(first, 0, v.lines(), c.cells.cols());
                multiply(self.write(c), false, &v, 0, factor);
            }
        }
    }

    /// V^H C for each target. `room` is for a few of its columns.
    fn multiply_adjoint<'r>(
        &self,
        by: Reflectors<T>,
        targets: &[Target<T>],
        product: impl Fn(usize) -> Cells<'r, T>,
        room: Cells<T>,
        units: Units,
    ) where
        T: 'r,
    {
        let [of_v, of_c] = [self.pack, room].map(|memory| blas::column_mut(self.write(memory), 0));
        let lines = by.count().next_multiple_of(units.rows);
        let deep = DEEPEST.min(of_v.len() / lines).min(of_c.len() / units.cols);
        for i in 0..targets.len() {
            self.write(product(i)).fill(T::ZERO);
        }
        for (v, first) in blocks(by, deep) {
            let rows = v.rows();
            let v = Packed::new(self.read(v.transposed()), true, units.rows, of_v);
            let is_top = first < by.top.rows();
            for (i, c) in targets.iter().enumerate().filter(|(_, c)| c.counts(is_top)) {
                let c = self.read(c.cells.sub(first, 0, rows, c.cells.cols()));
                multiply_columns(self.write(product(i)), false, &v, c, units.cols, of_c);
            }
        }
    }
}

/// Blocks of at most so many rows of V, and the first row of each.
fn blocks<'c, T: Scalar>(
    by: Reflectors<'c, T>,
    most: usize,
) -> impl Iterator<Item = (Cells<'c, T>, usize)> {
    let of = move |part: Cells<'c, T>, top: usize| {
        let starts = (0..part.rows()).step_by(most);
        starts
            .map(move |row| (part.sub(row, 0, most.min(part.rows() - row), part.cols()), top + row))
    };
    of(by.top, 0).chain(of(by.below, by.top.rows()))
}
