//! `A^-1 = L^-H L^-1` in place of L and its mirror image, as LAPACK's `potri`. It makes X = L^-1 by
//! panels, then the lower triangle of M = X^H X, a tile row of X at a time:
//!
//! ```text
//! for k:  S = X_kj^H (j <= k)                                 all workers together
//!         M_ij += S_i X_kj     for all j <= i < k             by the owner of j
//!         M_kj = S_k X_kj      in place of X_kj
//! ```
//! Tile rows after k still hold X, so a step waits for S only, not for another step's result. S is
//! one tile column of scratch, gathered from all workers. The mirrored triangle makes the result Hermitian to the last bit.

use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::algorithms::owned_from;
use crate::algorithms::triangular_inverse::invert_triangle;
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Blocks, Cells, DistMatrix};
use crate::scalar::Scalar;

/// Rows of scratch that all tile columns of a worker use before it goes to the next rows.
const BLOCK_ROWS: usize = 512;

/// One worker's part. `a` holds L in its lower triangle. `panels` are scratch of n rows and as many
/// columns as the widest tile. Workers meet before and after.
pub fn inverse<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    panels: &Blocks<T>,
) -> Step {
    worker.barrier()?;
    invert_triangle(worker, a, Triangle::Lower, 0.5)?;
    worker.barrier()?;
    let columns = a.columns();
    let owned = owned_from(worker, columns, TileColumn::new(0));
    owned.clone().for_each(|t| worker.clear_outside(a.diagonal(t), Triangle::Lower));
    for k in columns.each() {
        let panels = panels.part(|panel| panel.sub(0, 0, panel.rows(), columns.tile(k).width));
        let rows_of = |t: TileColumn| panels.own().matrix_rows(columns.tile(t).rows());
        let mine = owned.clone().take_while(|&t| t <= k);
        worker.span("mirror", Some(k), |w| {
            mine.clone().for_each(|j| w.mirror(a.tile(k.row(), j), rows_of(j), false, true));
        });
        worker.all_gather(&panels, columns, columns.each().take_while(|&j| j <= k))?;
        worker.span("gemm", Some(k), |w| add_products(w, a, k, mine.clone(), panels.own()));
        worker.span("trmm", Some(k), |w| {
            mine.for_each(|j| w.trmm(rows_of(k), Triangle::Upper, T::ONE, a.tile(k.row(), j)));
        });
        worker.barrier()?;
    }
    mirror_triangle(worker, a, Missing::Upper, true)
}

/// `M_ij += S_i X_kj` for j in `columns`, j <= i < k.
fn add_products<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    k: TileColumn,
    columns: impl Iterator<Item = TileColumn> + Clone,
    panel: Cells<T>,
) {
    let all = a.columns().tile(k).rows().start;
    for start in (0..all.get()).step_by(BLOCK_ROWS).map(GlobalRow::new) {
        let end = (start + BLOCK_ROWS).min(all);
        for j in columns.clone() {
            let top = a.columns().tile(j).rows().start.max(start);
            if top >= end {
                break;
            }
            let s = panel.matrix_rows(top..end);
            worker.gemm(a.rows_of(j, top..end), T::ONE, s, Op::None, a.tile(k.row(), j));
        }
    }
}
