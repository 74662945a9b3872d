//! Norms of a column-distributed matrix in one pass over its memory, LAPACK's `lange` and `lanhe`.
//! One worker computes the sum of a column; all workers contribute to the sum of a row. Where A is
//! only read, workers share the contiguous lines instead.

use super::owned_from;
use crate::comm::Step;
use crate::device::{Backend, Moduli, Squares};
use crate::layout::TileColumn;
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;

/// One worker's part of the leading part of order `n`. It adds to `rows` (n x 1, initially zeros),
/// if given; with all workers these are the row sums.
pub fn of_all<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    rows: Option<Cells<f64>>,
) -> Step<Moduli> {
    let mut found = Moduli::default();
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let tile = a.columns().tile(t);
        let columns = n.saturating_sub(tile.global.get()).min(tile.width);
        found = found.and(worker.moduli(a.tile_column(t).sub(0, 0, n, columns), rows)?);
    }
    Ok(found)
}

/// One worker's part of the leading part of order `n` of a Hermitian matrix; it reads the lower
/// triangle. It adds to `sums` (n x 1, initially zeros); with all workers these are the column
/// sums.
pub fn of_lower_triangle<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    sums: Cells<f64>,
) {
    for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
        let tile = a.columns().tile(t);
        let first = tile.global.get().min(n);
        let columns = (n - first).min(tile.width);
        worker.hermitian_moduli(
            a.tile_column(t).sub(first, 0, n - first, columns),
            sums.rows_from(first),
        );
    }
}

/// (first row, first column, part of the matrix)
type Part<'a, T> = (usize, usize, Cells<'a, T>);

/// One worker's parts of the leading part of order `n` in the block distribution. A CPU worker has
/// some contiguous lines, columns or rows, of each shard. A worker that is a rank has its whole
/// shard.
fn parts<'a, T: Scalar, B: Backend<T>>(
    worker: &B,
    a: &'a Matrix<'a, T>,
    n: usize,
) -> impl Iterator<Item = Part<'a, T>> + use<'a, T, B> {
    let (index, workers, per_rank) = (worker.worker(), worker.workers(), a.columns().per_rank());
    let of_worker = move |lines: usize| match B::IS_RANK {
        true => (0, lines),
        false => (lines * index / workers, lines * (index + 1) / workers),
    };
    let shards =
        a.shards().iter().enumerate().filter(move |(rank, _)| !B::IS_RANK || *rank == index);
    shards.map(move |(rank, shard)| {
        let first = (rank * per_rank).min(n);
        let columns = per_rank.min(n - first);
        if shard.row_stride() == 1 {
            let (from, to) = of_worker(columns);
            (0, first + from, shard.sub(0, from, n, to - from))
        } else {
            let (from, to) = of_worker(n);
            (from, first, shard.sub(from, 0, to - from, columns))
        }
    })
}

/// One worker's part of the row sums of the leading part of order `n`, or of its column sums. It
/// adds to `sums` (n x 1, initially zeros); the sums are complete with all workers.
pub fn sums<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    of_columns: bool,
    sums: Cells<f64>,
) {
    for (row, column, part) in parts(worker, a, n) {
        let (first, part) = if of_columns { (column, part.transposed()) } else { (row, part) };
        worker.add_moduli(part, sums.sub(first, 0, part.rows(), 1));
    }
}

/// One worker's part of the squares of the leading part of order `n`.
pub fn squares<T: Scalar, B: Backend<T>>(worker: &mut B, a: &Matrix<T>, n: usize) -> Step<Squares> {
    let mut parts = parts(worker, a, n);
    parts.try_fold(Squares::default(), |all, (_, _, part)| Ok(all.and(worker.squares(part)?)))
}
