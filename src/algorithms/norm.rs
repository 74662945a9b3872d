//! Norms of a distributed matrix in one pass over its memory, LAPACK's `lange` and `lanhe`. Before a
//! factorisation, one worker computes the sum of a column; all workers contribute to the sum of a
//! row. Where A is only read, in any distribution, workers share the contiguous lines instead.

use super::owned_from;
use crate::comm::Step;
use crate::device::{Moduli, Squares, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Cells, DistMatrix, Run};
use crate::scalar::Scalar;

/// One worker's part of the leading part of order `n`. It adds to `rows` (n x 1, initially zeros),
/// if given; with all workers these are the row sums.
pub fn of_all<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    n: usize,
    rows: Option<Cells<f64>>,
) -> Step<Moduli> {
    let mut found = Moduli::default();
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let tile = a.columns().tile(t);
        let columns = n.saturating_sub(tile.global.get()).min(tile.width);
        let part = a.tile_column(t).sub(0, 0, n, columns);
        found = found.and(worker.span("norms", None, |w| w.moduli(part, rows))?);
    }
    Ok(found)
}

/// One worker's part of the leading part of order `n` of a Hermitian matrix; it reads the lower
/// triangle. It adds to `sums` (n x 1, initially zeros); with all workers these are the column
/// sums.
pub fn of_lower_triangle<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    n: usize,
    sums: Cells<f64>,
) {
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let tile = a.columns().tile(t);
        let first = tile.global.get().min(n);
        let columns = (n - first).min(tile.width);
        let part = a.tile_column(t).sub(first, 0, n - first, columns);
        worker.span("norms", None, |w| w.hermitian_moduli(part, sums.rows_from(first)));
    }
}

/// A worker's share of a run: its first row and column in the matrix, and its elements.
type Part<'a, T> = (usize, usize, Cells<'a, T>);

/// A worker's parts of the leading `m x n` elements. On devices where a worker is a rank, these are
/// its shard. Otherwise the workers share the contiguous lines of all shards.
fn parts<'a, T: Scalar, W: Worker<T>>(
    worker: &W,
    a: &'a DistMatrix<'a, T>,
    (m, n): (usize, usize),
) -> impl Iterator<Item = Part<'a, T>> + use<'a, T, W> {
    let (index, workers) = (worker.worker(), worker.workers());
    let of_worker = move |lines: usize| match W::IS_RANK {
        true => (0, lines),
        false => (lines * index / workers, lines * (index + 1) / workers),
    };
    let ranks = if W::IS_RANK { index..index + 1 } else { 0..a.distribution().ranks() };
    ranks.flat_map(move |rank| a.runs(rank)).map(move |Run { rows, columns, cells }| {
        let (row, column) = (rows.global.get().min(m), columns.global.get().min(n));
        let (height, width) = (rows.width.min(m - row), columns.width.min(n - column));
        if cells.row_stride() == 1 {
            let (from, to) = of_worker(width);
            (row, column + from, cells.sub(0, from, height, to - from))
        } else {
            let (from, to) = of_worker(height);
            (row + from, column, cells.sub(from, 0, to - from, width))
        }
    })
}

/// One worker's part of the row sums of the leading `m x n` elements, or of their column sums. It
/// adds to `sums` (m x 1 or n x 1, initially zeros); the sums are complete with all workers.
pub fn sums<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    leading: (usize, usize),
    of_columns: bool,
    sums: Cells<f64>,
) {
    for (row, column, part) in parts(worker, a, leading) {
        let (first, part) = if of_columns { (column, part.transposed()) } else { (row, part) };
        let sums = sums.sub(first, 0, part.rows(), 1);
        worker.span("norms", None, |w| w.add_moduli(part, sums));
    }
}

/// One worker's part of the squares of the leading `m x n` elements.
pub fn squares<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    leading: (usize, usize),
) -> Step<Squares> {
    let mut parts = parts(worker, a, leading);
    parts.try_fold(Squares::default(), |all, (_, _, part)| {
        Ok(all.and(worker.span("norms", None, |w| w.squares(part))?))
    })
}
