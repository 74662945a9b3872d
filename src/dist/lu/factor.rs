//! `P A = L U` of a column-distributed matrix with partial pivoting, right-looking with lookahead 1.
//! Tile columns A_k are dealt to lanes; L and U overwrite A.
//!
//! ```text
//! for k:  P_k A_k = L_k U_kk                                  panel k, by its owner
//!         A_j <- P_k A_j,  U_kj = L_kk^-1 A_kj,
//!         A_ij -= L_ik U_kj   for all i > k, j > k            by the owner of j, k+1 first
//! then    A_k <- P_count .. P_k+1 A_k                         the rows of L, by the owner of k
//! ```
//! A panel is whole columns, so the search for a pivot stays on one lane. The owner of panel k+1
//! updates and factors it before the rest of its columns. There is no barrier but the one before L's
//! rows are interchanged, because others still read L until then.

use crate::backend::{Backend, Op, Signal, Step, Triangle, Update};
use crate::dist::owned_from;
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// One lane's part; `pivots` has n rows. Zero pivots are reported, and the factorisation goes on.
/// Afterwards all lanes have met.
pub fn factor<T: Scalar, B: Backend<T>>(lane: &mut B, a: &Matrix<T>, pivots: Block<i32>) -> Step {
    let count = a.columns.count();
    if count > 0 && lane.owns(0) {
        factor_panel(lane, a, pivots, 0);
    }
    for k in 0..count {
        lane.wait(Signal::Panels, k + 1)?;
        let next = k + 1;
        if next < count && lane.owns(next) {
            finish_row(lane, a, pivots, k, next);
            lane.update(a, k, std::iter::once(next), Update::Lu);
            factor_panel(lane, a, pivots, next);
        }
        let others = owned_from(lane, next).take_while(|&t| t < count).filter(|&t| t != next);
        others.clone().for_each(|t| finish_row(lane, a, pivots, k, t));
        lane.update(a, k, others, Update::Lu);
        lane.progress(next, count);
    }
    lane.barrier()?;
    for t in owned_from(lane, 0).take_while(|&t| t < count) {
        let next = a.columns.tile(t).global + a.columns.tile(t).width;
        lane.swap_rows(a.tile_column(t), next, pivots.rows_from(next), false);
    }
    lane.barrier()
}

/// Interchanges rows of tile column `t` as panel `k` says and makes its part of U.
fn finish_row<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    pivots: Block<i32>,
    k: usize,
    t: usize,
) {
    let (panel, column) = (a.columns.tile(k), a.tile_column(t));
    lane.swap_rows(column, panel.global, pivots.sub(panel.global, 0, panel.width, 1), false);
    let row = column.sub(panel.global, 0, panel.width, column.cols);
    lane.trsm(a.diagonal(k), Triangle::UnitLower, Op::None, row);
}

fn factor_panel<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    pivots: Block<i32>,
    k: usize,
) {
    let tile = a.columns.tile(k);
    let panel = a.tile_column(k).rows_from(tile.global);
    let pivots = pivots.sub(tile.global, 0, tile.width, 1);
    if let Some(column) = lane.getrf(panel, tile.global, pivots) {
        lane.report(tile.global + column + 1);
    }
    lane.announce(Signal::Panels, k + 1);
}
