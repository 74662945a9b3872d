//! 1-norms of a column-distributed matrix in one pass over its memory, LAPACK's `lange` and `lanhe`.
//! The sum of a column is one lane's; to the sum of a row all lanes contribute.

use super::owned_from;
use crate::backend::{Backend, Moduli, Step};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// One lane's part of the leading part of order `n`. If there are `rows` (n x 1, zeros before), the
/// row sums are those of all lanes.
pub fn of_all<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    n: usize,
    rows: Option<Block<f64>>,
) -> Step<Moduli> {
    let mut found = Moduli::default();
    for t in owned_from(lane, 0).take_while(|&t| t < a.columns.count()) {
        let tile = a.columns.tile(t);
        let columns = n.saturating_sub(tile.global).min(tile.width);
        found = found.and(lane.moduli(a.tile_column(t).sub(0, 0, n, columns), rows)?);
    }
    Ok(found)
}

/// One lane's part of the leading part of order `n` of a Hermitian matrix, of which the lower
/// triangle is read. Its column sums are those of the `sums` (n x 1, zeros before) of all lanes.
pub fn of_lower_triangle<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    n: usize,
    sums: Block<f64>,
) {
    for t in owned_from(lane, 0).take_while(|&t| t < a.columns.count()) {
        let tile = a.columns.tile(t);
        let first = tile.global.min(n);
        let columns = (n - first).min(tile.width);
        lane.hermitian_moduli(
            a.tile_column(t).sub(first, 0, n - first, columns),
            sums.rows_from(first),
        );
    }
}
