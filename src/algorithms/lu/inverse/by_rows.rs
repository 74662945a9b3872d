//! The last two steps where workers share memory: every worker has its own rows of all tile columns.
//! All workers need S, one tile column of scratch.

use std::ops::Range;

use super::take_lower;
use crate::comm::Step;
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix};
use crate::scalar::Scalar;

/// Rows of a worker are multiples of this, except at the end.
const ROW_MULTIPLE: usize = 16;

/// Rows of a product. On CPU devices the kernels keep this many rows by a few hundred columns in
/// their own scratch.
const PRODUCT_ROWS: usize = 384;

/// One worker's part, after all have met. `panel` is one for all workers.
pub(super) fn finish<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    source: &[usize],
    panel: Cells<T>,
) -> Step {
    let rows = rows_of(worker.worker(), worker.workers(), a.n());
    for j in a.columns().each().rev() {
        worker.span("copy", Some(j), |w| take_lower(w, a, j, &rows, panel));
        worker.barrier()?;
        worker.span("gemm", Some(j), |w| finish_column(w, a, j, &rows, panel));
        worker.barrier()?;
    }
    worker.span("copy", None, |w| interchange_columns(w, a, source, &rows, panel));
    worker.barrier()
}

fn rows_of(worker: usize, workers: usize, n: usize) -> Range<GlobalRow> {
    let start = |worker: usize| match worker == workers {
        true => n,
        false => n * worker / workers / ROW_MULTIPLE * ROW_MULTIPLE,
    };
    GlobalRow::new(start(worker))..GlobalRow::new(start(worker + 1))
}

/// `X_j` within `rows`, where `panel` holds L's part of tile column `j`.
fn finish_column<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    j: TileColumn,
    rows: &Range<GlobalRow>,
    panel: Cells<T>,
) {
    let tile = a.columns().tile(j);
    let x = a.rows_of(j, rows.clone());
    let lower = panel.sub(0, 0, panel.rows(), tile.width);
    // Adjacent tile columns are one factor.
    for (k, solved) in a.adjacent(TileColumn::each(j + 1..a.columns().end()), usize::MAX) {
        let first = a.columns().tile(k).rows().start;
        let factor = lower.matrix_rows(first..first + solved.cols());
        let solved = solved.matrix_rows(rows.clone());
        for top in (0..x.rows()).step_by(PRODUCT_ROWS) {
            let part = top..x.rows().min(top + PRODUCT_ROWS);
            let solved = solved.row_range(part.clone());
            worker.gemm(x.row_range(part), -T::ONE, solved, Op::None, factor);
        }
    }
    let diagonal = lower.matrix_rows(tile.rows());
    worker.trsm(Side::Right, diagonal, Triangle::UnitLower, Op::None, x);
}

/// `X <- X P` within `rows`: column c becomes the old column `source[c]`, cycle by cycle.
fn interchange_columns<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    source: &[usize],
    rows: &Range<GlobalRow>,
    panel: Cells<T>,
) {
    let position = a.columns().destination();
    let column = |c: usize| a.column(position[c]).matrix_rows(rows.clone());
    let mut moved = vec![false; source.len()];
    for start in 0..source.len() {
        if moved[start] || source[start] == start {
            continue;
        }
        let saved = panel.column(0).matrix_rows(rows.clone());
        worker.copy(column(start), saved);
        let mut to = start;
        while source[to] != start {
            worker.copy(column(source[to]), column(to));
            moved[to] = true;
            to = source[to];
        }
        worker.copy(saved, column(to));
        moved[to] = true;
    }
}
