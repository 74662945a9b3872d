//! `A^-1 = L^-H L^-1` in place of L and its mirror image, as LAPACK's `potri`. It makes X = L^-1 by
//! panels, then the lower triangle of M = X^H X, a tile row of X at a time:
//!
//! ```text
//! for k:  S = X_kj^H (j <= k)                                 all workers together
//!         M_ij += S_i X_kj     for all j <= i < k             by the owner of j
//!         M_kj = S_k X_kj      in place of X_kj
//! ```
//! Tile rows after k still hold X, so a step waits for S only, not for another step's result. S is
//! one tile column of scratch. The mirrored triangle makes the result Hermitian to the last bit.

use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::algorithms::owned_from;
use crate::algorithms::triangular_inverse::invert_triangle;
use crate::comm::Step;
use crate::device::{Backend, Op, Triangle};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// Rows of scratch that all tile columns of a worker use before it goes to the next rows.
const BLOCK_ROWS: usize = 512;

/// One worker's part. `a` holds L in its lower triangle. `panel` is scratch of n rows and as many
/// columns as the widest tile. Workers meet before and after.
pub fn inverse<T: Scalar, B: Backend<T>>(worker: &mut B, a: &Matrix<T>, panel: Block<T>) -> Step {
    worker.barrier()?;
    invert_triangle(worker, a, Triangle::Lower)?;
    worker.barrier()?;
    let count = a.columns.count();
    let owned = owned_from(worker, 0).take_while(move |&t| t < count);
    owned.clone().for_each(|t| worker.clear_outside(a.diagonal(t), Triangle::Lower));
    for k in 0..count {
        let width = a.columns.tile(k).width;
        let rows_of = |t: usize| {
            let tile = a.columns.tile(t);
            panel.sub(tile.global, 0, tile.width, width)
        };
        let mine = owned.clone().take_while(|&t| t <= k);
        mine.clone().for_each(|j| worker.mirror(a.tile(k, j), rows_of(j), false, true));
        worker.barrier()?;
        add_products(worker, a, k, mine.clone(), panel.sub(0, 0, panel.rows, width));
        mine.for_each(|j| worker.trmm(rows_of(k), Triangle::Upper, T::ONE, a.tile(k, j)));
        worker.barrier()?;
    }
    mirror_triangle(worker, a, Missing::Upper, true)
}

/// `M_ij += S_i X_kj` for j in `columns`, j <= i < k.
fn add_products<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    k: usize,
    columns: impl Iterator<Item = usize> + Clone,
    panel: Block<T>,
) {
    let all = a.columns.tile(k).global;
    for start in (0..all).step_by(BLOCK_ROWS) {
        let end = (start + BLOCK_ROWS).min(all);
        for j in columns.clone() {
            let top = a.columns.tile(j).global.max(start);
            if top >= end {
                break;
            }
            let rows = |m: Block<T>| m.sub(top, 0, end - top, m.cols);
            worker.gemm(rows(a.tile_column(j)), T::ONE, rows(panel), Op::None, a.tile(k, j));
        }
    }
}
