//! The parts of a step of LU that the owner of a panel and workers that share it have in common.

use crate::comm::{Group, Phase, Step};
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// Applies the row interchanges of a panel to `columns` of a tile column and makes their part of U.
pub fn finish_row<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    pivots: Cells<i32>,
    panel: &Panel<T>,
    columns: Cells<T>,
) {
    let rows = panel.diagonal_rows();
    let (pivots, u) = (pivots.matrix_rows(rows.clone()), columns.matrix_rows(rows.clone()));
    let k = Some(panel.tile());
    worker.span("swap rows", k, |w| w.swap_rows(columns, rows.start, pivots, false));
    worker.span("trsm", k, |w| {
        w.trsm(Side::Left, panel.diagonal(), Triangle::UnitLower, Op::None, u);
    });
}

/// This worker's part of panel `t`, if it is in the group.
pub(super) fn factor_panel<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    pivots: Cells<i32>,
    t: TileColumn,
    mut group: Group,
    panels: &Phase,
) -> Step {
    let Some(index) = group.index_of(worker.worker(), worker.workers()) else { return Ok(()) };
    let rows = a.columns().tile(t).rows();
    let panel = a.rows_of(t, rows.start..a.all_rows().end);
    worker.span("getrf panel", Some(t), |w| {
        w.getrf(panel, rows.start, pivots.matrix_rows(rows), &mut group)
    })?;
    if index == 0 {
        worker.announce(panels, t.get() + 1);
    }
    Ok(())
}
