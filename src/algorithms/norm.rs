//! Norms of a column-distributed matrix in one pass over its memory, LAPACK's `lange` and `lanhe`. The
//! sum of a column is one worker's; to the sum of a row all workers contribute. Where A is only read, workers share
//! the lines that are contiguous instead.

use super::owned_from;
use crate::comm::Step;
use crate::device::{Backend, Moduli, Squares};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// One worker's part of the leading part of order `n`. If there are `rows` (n x 1, zeros before), the
/// row sums are those of all workers.
pub fn of_all<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    rows: Option<Block<f64>>,
) -> Step<Moduli> {
    let mut found = Moduli::default();
    for t in owned_from(worker, 0).take_while(|&t| t < a.columns.count()) {
        let tile = a.columns.tile(t);
        let columns = n.saturating_sub(tile.global).min(tile.width);
        found = found.and(worker.moduli(a.tile_column(t).sub(0, 0, n, columns), rows)?);
    }
    Ok(found)
}

/// One worker's part of the leading part of order `n` of a Hermitian matrix, of which the lower
/// triangle is read. Its column sums are those of the `sums` (n x 1, zeros before) of all workers.
pub fn of_lower_triangle<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    sums: Block<f64>,
) {
    for t in owned_from(worker, 0).take_while(|&t| t < a.columns.count()) {
        let tile = a.columns.tile(t);
        let first = tile.global.min(n);
        let columns = (n - first).min(tile.width);
        worker.hermitian_moduli(
            a.tile_column(t).sub(first, 0, n - first, columns),
            sums.rows_from(first),
        );
    }
}

/// A part of the matrix, and its first row and column.
type Part<T> = (usize, usize, Block<T>);

/// One worker's parts of the leading part of order `n`, distributed by blocks: of each shard some
/// of the lines that are contiguous, be they columns or rows; of its own
/// shard all, where a worker is a rank.
fn parts<'a, T: Scalar, B: Backend<T>>(
    worker: &B,
    a: &'a Matrix<T>,
    n: usize,
) -> impl Iterator<Item = Part<T>> + use<'a, T, B> {
    let (index, workers, per_rank) = (worker.worker(), worker.workers(), a.columns.per_rank());
    let of_worker = move |lines: usize| match B::IS_RANK {
        true => (0, lines),
        false => (lines * index / workers, lines * (index + 1) / workers),
    };
    let shards = a.shards.iter().enumerate().filter(move |(rank, _)| !B::IS_RANK || *rank == index);
    shards.map(move |(rank, shard)| {
        let first = (rank * per_rank).min(n);
        let columns = per_rank.min(n - first);
        if shard.row_stride == 1 {
            let (from, to) = of_worker(columns);
            (0, first + from, shard.sub(0, from, n, to - from))
        } else {
            let (from, to) = of_worker(n);
            (from, first, shard.sub(from, 0, to - from, columns))
        }
    })
}

/// One worker's part of the row sums of the leading part of order `n`, or of its column sums, which are
/// those of the `sums` (n x 1, zeros before) of all workers.
pub fn sums<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    n: usize,
    of_columns: bool,
    sums: Block<f64>,
) {
    for (row, column, part) in parts(worker, a, n) {
        let (first, part) = if of_columns { (column, part.transposed()) } else { (row, part) };
        worker.add_moduli(part, sums.sub(first, 0, part.rows, 1));
    }
}

/// One worker's part of the squares of the leading part of order `n`.
pub fn squares<T: Scalar, B: Backend<T>>(worker: &mut B, a: &Matrix<T>, n: usize) -> Step<Squares> {
    let mut parts = parts(worker, a, n);
    parts.try_fold(Squares::default(), |all, (_, _, part)| Ok(all.and(worker.squares(part)?)))
}
