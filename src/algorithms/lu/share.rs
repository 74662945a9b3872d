//! Steps of LU that several workers share, where the others would wait for the owner of a panel.
//!
//! In such a step a worker has rows instead of columns, of the next panel and of all columns right
//! of the finished one. All workers have the same amount of work, however few columns are left. In
//! return they wait for each other in every column of the panel.

use super::panel::{factor_panel, finish_row};
use crate::algorithms::subtract;
use crate::comm::{Group, Phase, Step};
use crate::device::{Update, Worker};
use crate::layout::{GlobalColumn, TileColumn};
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// The time of factoring a panel, in units of its product with a tile.
const PANEL: f64 = 0.8;
/// Barriers for each column of a panel.
const BARRIERS: f64 = 1.3;
/// Workers share if the time falls below this fraction.
const GAIN: f64 = 0.75;

/// The workers that make panel `t`, the owner first. If they are several, they also share the whole
/// step before.
pub fn group<T: Scalar, W: Worker<T>>(worker: &mut W, a: &DistMatrix<T>, t: TileColumn) -> Group {
    let (tile, workers) = (a.columns().tile(t), worker.workers());
    let rows = a.all_rows().end - tile.rows().start;
    let sharers = worker.sharers(rows);
    // No step comes before the first panel.
    let columns = if t.get() == 0 { 0 } else { a.columns().end() - t };
    let pays =
        pays(columns, workers, sharers, barriers(rows, tile.width, worker.group_barrier_cost()));
    worker.group(worker.owner(a.columns(), t), if pays { sharers } else { 1 })
}

/// The time of the barriers for a panel, each as long as `barrier` multiplications.
pub fn barriers(rows: usize, width: usize, barrier: f64) -> f64 {
    BARRIERS * barrier / (rows * width) as f64
}

/// Whether `sharers` workers share a panel and the step before it, which updates `columns` tile
/// columns including the panel's.
pub fn pays(columns: usize, workers: usize, sharers: usize, barriers: f64) -> bool {
    let [alone, together] = times(columns, workers, sharers, barriers);
    sharers > 1 && together < GAIN * alone
}

/// Times of a step, by the owner of the panel with lookahead, and by `sharers` together. `barriers`
/// is the time of all barriers. The unit is the time of the product of a panel and a tile.
pub fn times(columns: usize, workers: usize, sharers: usize, barriers: f64) -> [f64; 2] {
    let work = columns as f64 + PANEL;
    let critical = columns.min(1) as f64 + PANEL;
    [critical.max(work / workers as f64), work / sharers as f64 + barriers]
}

/// This worker's part of a step: applies a panel to all columns to its right and makes the next one.
pub fn step<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    pivots: Cells<i32>,
    panel: &Panel<T>,
    mut group: Group,
    panels: &Phase,
) -> Step {
    let Some(index) = group.index_of(worker.worker(), worker.workers()) else { return Ok(()) };
    let (next, m, n) = (panel.tile() + 1, a.m(), a.n());
    let (first, later) = (a.columns().tile(next).global, TileColumn::each(next..a.columns().end()));
    // Interchanges and U involve rows of all workers, so workers split columns here.
    let mine = group.columns(index, first.get()..n);
    for t in later.clone() {
        let columns = a.columns().tile(t).columns();
        let start = columns.start.max(GlobalColumn::new(mine.start));
        let end = columns.end.min(GlobalColumn::new(mine.end));
        if start < end {
            let part = a.tile_column(t).sub(0, start - columns.start, m, end - start);
            finish_row(worker, pivots, panel, part);
        }
    }
    worker.group_barrier(&mut group)?;
    let rows = group.rows(index, first.get(), m - first.get());
    let rows = first.row() + rows.start..first.row() + rows.end;
    subtract(worker, a, panel, later, Update::Lu, rows);
    factor_panel(worker, a, pivots, next, group, panels)
}
