//! The update of a Hermitian matrix by a pair of factors, with both packed as in `update.rs`.

use super::CpuWorker;
use crate::device::cpu::blas;
use crate::device::cpu::product::{Packed, Units, multiply};
use crate::device::cpu::sizes::tile_elements;
use crate::device::pair;
use crate::matrix::Cells;
use crate::scalar::Scalar;

impl<T: Scalar> CpuWorker<'_, T> {
    /// `Device::subtract_pair`.
    pub(super) fn subtract_all(
        &mut self,
        [v, x]: [Cells<T>; 2],
        targets: &[(usize, Cells<T>)],
        room: Cells<T>,
    ) {
        // Each target has a packed tile of both.
        let at_a_time = self.tiles.rows() / (2 * tile_elements::<T>(self.widest)).max(1);
        match self.units.filter(|_| at_a_time > 0) {
            Some(units) => {
                for some in targets.chunks(at_a_time) {
                    self.subtract_some([v, x], some, units);
                }
            }
            None => pair::subtract(self, [v, x], targets, room),
        }
    }

    fn subtract_some(&mut self, pair: [Cells<T>; 2], targets: &[(usize, Cells<T>)], units: Units) {
        let Some(&(first, _)) = targets.first() else { return };
        let (rows, depth) = (pair[0].rows(), 2 * pair[0].cols());
        let slots = blas::column_mut(self.write(self.tiles), 0);
        let mut slots = slots.chunks_mut(2 * tile_elements::<T>(self.widest));
        // X and V in the place of V and X: one product has both. So the diagonal of C may get imaginary
        // parts, of the size of rounding errors.
        let factors = targets.iter().map(|&(first, c)| {
            let slot = slots.next().expect("a slot for each target");
            let [v, x] = pair.map(|side| self.read(side.row_range(first..first + c.cols())));
            Packed::of_parts([x, v], true, units.cols, slot)
        });
        let factors: Vec<_> = factors.collect();
        let memory = blas::column_mut(self.write(self.pack), 0);
        let fit = memory.len() / depth.max(1) / units.rows * units.rows;
        let high = units.rows_in_cache::<T>(depth).min(fit);
        for top in (first..rows).step_by(high) {
            // The next wait would notice, but an update of a large matrix takes a second.
            if self.comm.is_stopped() {
                return;
            }
            let end = (top + high).min(rows);
            let sides = pair.map(|side| self.read(side.row_range(top..end)));
            let left = Packed::of_parts(sides, false, units.rows, memory);
            for (&(first, c), right) in targets.iter().zip(&factors) {
                let from = first.max(top);
                if from >= end {
                    break;
                }
                let c = c.row_range(from - first..end - first);
                multiply(self.write(c), true, &left, from - top, right);
            }
        }
    }
}
