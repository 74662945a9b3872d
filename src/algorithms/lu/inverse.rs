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
use crate::device::{Backend, Op, Triangle};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// Rows of a worker are multiples of this, except at the end.
const ROW_MULTIPLE: usize = 16;

/// Rows of a product. On CPU devices the kernels keep this many rows by a few hundred columns in
/// their own scratch.
const PRODUCT_ROWS: usize = 384;

/// One worker's part. `a` holds L and U. `panel` is scratch of n rows and as many columns as the
/// widest tile. Workers meet before and after.
pub fn inverse<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    pivots: Block<i32>,
    panel: Block<T>,
) -> Step {
    worker.barrier()?;
    invert_triangle(worker, a, Triangle::Upper)?;
    worker.barrier()?;
    let rows = rows_of(worker.worker(), worker.workers(), a.columns.n());
    for j in (0..a.columns.count()).rev() {
        take_lower(worker, a, j, &rows, panel);
        worker.barrier()?;
        finish_column(worker, a, j, &rows, panel);
        worker.barrier()?;
    }
    let mut source = vec![0; a.columns.n()];
    let order = worker.interchanged(pivots)?;
    order.into_iter().enumerate().for_each(|(from, to)| source[to] = from);
    interchange_columns(worker, a, &source, &rows, panel);
    worker.barrier()
}

fn rows_of(worker: usize, workers: usize, n: usize) -> Range<usize> {
    let start = |worker: usize| match worker == workers {
        true => n,
        false => n * worker / workers / ROW_MULTIPLE * ROW_MULTIPLE,
    };
    start(worker)..start(worker + 1)
}

/// Moves L's part of tile column `j` to `panel`, within `rows`, and sets its place to zero.
fn take_lower<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    j: usize,
    rows: &Range<usize>,
    panel: Block<T>,
) {
    let (tile, column) = (a.columns.tile(j), a.tile_column(j));
    let (below, end) = (tile.global + tile.width, rows.end);
    let part = |m: Block<T>, from: usize, end: usize| m.sub(from, 0, end - from, tile.width);
    let top = rows.start.max(tile.global);
    if top < end {
        worker.copy(part(column, top, end), part(panel, top, end));
    }
    let bottom = end.min(below);
    if top < bottom {
        let (left, here) = (top - tile.global, part(column, top, bottom));
        worker.fill(here.sub(0, 0, here.rows, left), T::ZERO);
        worker.clear_outside(here.sub(0, left, here.rows, here.rows), Triangle::Upper);
    }
    let top = top.max(below);
    if top < end {
        worker.fill(part(column, top, end), T::ZERO);
    }
}

/// `X_j` within `rows`, where `panel` holds L's part of tile column `j`.
fn finish_column<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    j: usize,
    rows: &Range<usize>,
    panel: Block<T>,
) {
    let tile = a.columns.tile(j);
    let x = a.tile_column(j).sub(rows.start, 0, rows.len(), tile.width);
    let lower = panel.sub(0, 0, panel.rows, tile.width);
    let mut k = j + 1;
    while k < a.columns.count() {
        // Adjacent tile columns are one factor.
        let first = a.columns.tile(k);
        let mut width = 0;
        while k < a.columns.count() {
            let next = a.columns.tile(k);
            if (next.rank, next.local) != (first.rank, first.local + width) {
                break;
            }
            (width, k) = (width + next.width, k + 1);
        }
        let solved = a.shards[first.rank].sub(rows.start, first.local, rows.len(), width);
        let factor = lower.sub(first.global, 0, width, tile.width);
        for top in (0..rows.len()).step_by(PRODUCT_ROWS) {
            let part = |m: Block<T>| m.sub(top, 0, PRODUCT_ROWS.min(m.rows - top), m.cols);
            worker.gemm(part(x), -T::ONE, part(solved), Op::None, factor);
        }
    }
    let diagonal = lower.sub(tile.global, 0, tile.width, tile.width);
    worker.trsm_right(diagonal, Triangle::UnitLower, x);
}

/// `X <- X P` within `rows`: column c becomes the old column `source[c]`, cycle by cycle.
fn interchange_columns<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    source: &[usize],
    rows: &Range<usize>,
    panel: Block<T>,
) {
    let position = a.columns.destination();
    let column = |c: usize| a.column_at(position[c]).sub(rows.start, 0, rows.len(), 1);
    let mut moved = vec![false; source.len()];
    for start in 0..source.len() {
        if moved[start] || source[start] == start {
            continue;
        }
        let saved = panel.sub(rows.start, 0, rows.len(), 1);
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
