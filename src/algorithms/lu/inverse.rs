//! `A^-1 = U^-1 L^-1 P` in place of L and U, as LAPACK's `getri`. It makes U^-1 by panels, then X
//! from `X L = U^-1`, then interchanges columns. The second step runs from the last tile column to
//! the first:
//!
//! ```text
//! for j:  S = L_ij (i >= j),  L_ij becomes zero
//!         X_j = (W_j - sum_k>j X_k S_k) S_j^-1                W_j column j of U^-1
//! ```
//! Rows of X do not depend on each other. In this step and the interchange of columns, every worker
//! has its own rows of all tile columns. All workers need S, one tile column of scratch.

use std::ops::Range;

use crate::algorithms::triangular_inverse::invert_triangle;
use crate::comm::Step;
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;

/// Rows of a worker are multiples of this, except at the end.
const ROW_MULTIPLE: usize = 16;

/// Rows of a product. On CPU devices the kernels keep this many rows by a few hundred columns in
/// their own scratch.
const PRODUCT_ROWS: usize = 384;

/// One worker's part. `a` holds L and U. `panel` is scratch of n rows and as many columns as the
/// widest tile. Workers meet before and after.
pub fn inverse<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &Matrix<T>,
    pivots: Cells<i32>,
    panel: Cells<T>,
) -> Step {
    worker.barrier()?;
    invert_triangle(worker, a, Triangle::Upper)?;
    worker.barrier()?;
    let rows = rows_of(worker.worker(), worker.workers(), a.n());
    for j in a.columns().each().rev() {
        take_lower(worker, a, j, &rows, panel);
        worker.barrier()?;
        finish_column(worker, a, j, &rows, panel);
        worker.barrier()?;
    }
    let mut source = vec![0; a.n()];
    let order = worker.interchanged(pivots)?;
    order.into_iter().enumerate().for_each(|(from, to)| source[to] = from);
    interchange_columns(worker, a, &source, &rows, panel);
    worker.barrier()
}

fn rows_of(worker: usize, workers: usize, n: usize) -> Range<GlobalRow> {
    let start = |worker: usize| match worker == workers {
        true => n,
        false => n * worker / workers / ROW_MULTIPLE * ROW_MULTIPLE,
    };
    GlobalRow::new(start(worker))..GlobalRow::new(start(worker + 1))
}

/// Moves L's part of tile column `j` to `panel`, within `rows`, and sets its place to zero.
fn take_lower<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &Matrix<T>,
    j: TileColumn,
    rows: &Range<GlobalRow>,
    panel: Cells<T>,
) {
    let (tile, end) = (a.columns().tile(j), rows.end);
    let Range { start: diagonal, end: below } = tile.rows();
    let panel = panel.sub(0, 0, panel.rows(), tile.width);
    let top = rows.start.max(diagonal);
    if top < end {
        worker.copy(a.rows_of(j, top..end), panel.matrix_rows(top..end));
    }
    let bottom = end.min(below);
    if top < bottom {
        let (left, here) = (top - diagonal, a.rows_of(j, top..bottom));
        worker.fill(here.sub(0, 0, here.rows(), left), T::ZERO);
        worker.clear_outside(here.sub(0, left, here.rows(), here.rows()), Triangle::Upper);
    }
    let top = top.max(below);
    if top < end {
        worker.fill(a.rows_of(j, top..end), T::ZERO);
    }
}

/// `X_j` within `rows`, where `panel` holds L's part of tile column `j`.
fn finish_column<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &Matrix<T>,
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
    a: &Matrix<T>,
    source: &[usize],
    rows: &Range<GlobalRow>,
    panel: Cells<T>,
) {
    let position = a.columns().destination();
    let column = |c: usize| a.column_at(0, position[c]).matrix_rows(rows.clone());
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
