//! The trailing update. It packs both factors of its products.
//!
//! First it packs the tiles that multiply the panel, for as many of the worker's tile columns as fit.
//! Then it packs the panel, a block of rows at a time. That block stays in the second-level cache and
//! serves all tiles. Packing matters because columns are n elements apart; with n a power of two
//! they all map to the same few cache sets.

use std::ops::Range;

use super::CpuWorker;
use crate::device::cpu::blas;
use crate::device::cpu::product::{Packed, Units, multiply};
use crate::device::cpu::sizes::tile_elements;
use crate::device::{Device, Op, Update};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// An update of some tile columns, and the rows that it changes.
struct Work<'w, 'c, T> {
    a: &'w DistMatrix<'c, T>,
    panel: &'w Panel<'c, T>,
    targets: &'w [TileColumn],
    update: Update,
    rows: Range<GlobalRow>,
}

impl<'c, T: Scalar> Work<'_, 'c, T> {
    /// The first row at or below `top` that the update of a target changes.
    fn from(&self, target: TileColumn, top: GlobalRow) -> GlobalRow {
        match self.update {
            Update::Cholesky => top.max(self.a.columns().tile(target).rows().start),
            Update::Lu | Update::Above => top,
        }
    }

    /// The tile of U that multiplies the panel.
    fn factor(&self, target: TileColumn) -> Cells<'c, T> {
        self.a.tile(self.panel.tile().row(), target)
    }

    /// The tile of L whose adjoint multiplies the panel.
    fn mirrored_factor(&self, target: TileColumn) -> Cells<'c, T> {
        self.panel.rows(self.a.columns().tile(target).rows())
    }

    fn depth(&self) -> usize {
        let rows = self.panel.diagonal_rows();
        rows.end - rows.start
    }
}

impl<T: Scalar> CpuWorker<'_, T> {
    /// `Device::update` for at most as many targets as packed tiles fit.
    pub(super) fn update_some(
        &mut self,
        a: &DistMatrix<T>,
        panel: &Panel<T>,
        targets: &[TileColumn],
        update: Update,
        within: &Range<GlobalRow>,
    ) {
        let (columns, of_panel) = (a.columns(), panel.diagonal_rows());
        let rows = match update {
            Update::Cholesky => columns.tile(targets[0]).rows().start..a.all_rows().end,
            Update::Lu => of_panel.end..a.all_rows().end,
            Update::Above => a.all_rows().start..of_panel.start,
        };
        let rows = rows.start.max(within.start)..rows.end.min(within.end);
        let work = Work { a, panel, targets, update, rows };
        match self.units {
            _ if work.rows.start >= work.rows.end => {}
            Some(units) => self.update_packed(&work, units),
            None => self.update_by_faer(&work),
        }
    }

    fn update_packed(&mut self, work: &Work<T>, units: Units) {
        let (depth, end_row) = (work.depth(), work.rows.end);
        let tiles = blas::column_mut(self.write(self.tiles), 0);
        let tiles = tiles.chunks_mut(tile_elements::<T>(self.widest));
        let factor = |(&j, memory)| match work.update {
            Update::Cholesky => {
                Packed::new(self.read(work.mirrored_factor(j)), true, units.cols, memory)
            }
            Update::Lu | Update::Above => {
                Packed::new(self.read(work.factor(j)).transpose(), false, units.cols, memory)
            }
        };
        let factors: Vec<_> = work.targets.iter().zip(tiles).map(factor).collect();
        let fit = self.pack.rows() / depth.max(1) / units.rows * units.rows;
        let high = units.rows_in_cache::<T>(depth).min(fit);
        for top in (work.rows.start.get()..end_row.get()).step_by(high).map(GlobalRow::new) {
            // The next wait would notice, but an update of a large matrix takes a second.
            if self.comm.is_stopped() {
                return;
            }
            let end = (top + high).min(end_row);
            let memory = blas::column_mut(self.write(self.pack), 0);
            let rows = Packed::new(self.read(work.panel.rows(top..end)), false, units.rows, memory);
            for (&j, factor) in work.targets.iter().zip(&factors) {
                let from = work.from(j, top);
                if from >= end {
                    break;
                }
                let c = self.write(work.a.rows_of(j, from..end));
                multiply(c, true, &rows, from - top, factor);
            }
        }
    }

    /// The same for processors without a kernel. faer packs again, but from contiguous columns.
    fn update_by_faer(&mut self, work: &Work<T>) {
        let (columns, size) = (work.a.columns(), tile_elements::<T>(self.widest));
        let tiles = self.tiles;
        let other = |index: usize, j: TileColumn| {
            let (rows, width) = (work.depth(), columns.tile(j).width);
            tiles.rows_from(index * size).by_columns(rows, width, rows)
        };
        for (index, &j) in work.targets.iter().enumerate() {
            match work.update {
                Update::Cholesky => {
                    self.mirror(work.mirrored_factor(j), other(index, j), false, true);
                }
                Update::Lu | Update::Above => self.copy(work.factor(j), other(index, j)),
            }
        }
        // Blocks of rows start at multiples of their height for every target. So the arithmetic
        // does not depend on which worker does it.
        let (first_row, end_row) = (work.rows.start, work.rows.end);
        let aligned = first_row.get() / self.pack_rows * self.pack_rows;
        for start in (aligned..end_row.get()).step_by(self.pack_rows).map(GlobalRow::new) {
            if self.comm.is_stopped() {
                return;
            }
            let (top, end) = (start.max(first_row), (start + self.pack_rows).min(end_row));
            let rows = work.panel.rows(top..end);
            // For a single product the copy costs more than it saves.
            let rows = if work.targets.len() > 1 { self.packed(rows) } else { rows };
            for (index, &j) in work.targets.iter().enumerate() {
                let from = work.from(j, top);
                if from >= end {
                    break;
                }
                let (c, rows) = (work.a.rows_of(j, from..end), rows.rows_from(from - top));
                self.gemm(c, -T::ONE, rows, Op::None, other(index, j));
            }
        }
    }
}
