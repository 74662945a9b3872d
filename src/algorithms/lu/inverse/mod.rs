//! `A^-1 = U^-1 L^-1 P` in place of L and U, as LAPACK's `getri`. It makes U^-1 by panels, then X
//! from `X L = U^-1`, then interchanges columns. The second step runs from the last tile column to
//! the first:
//!
//! ```text
//! for j:  S = L_ij (i >= j),  L_ij becomes zero
//!         X_j = (W_j - sum_k>j X_k S_k) S_j^-1                W_j column j of U^-1
//! ```
//! Rows of X do not depend on each other, so workers that share memory have rows each
//! (`by_rows.rs`). Ranks have columns (`by_columns.rs`).

mod by_columns;
mod by_rows;

use std::ops::Range;

use crate::algorithms::triangular_inverse::invert_triangle;
use crate::comm::Step;
use crate::device::{Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Blocks, Cells, DistMatrix};
use crate::scalar::Scalar;

pub use by_columns::more_elements;

/// One worker's part. `a` holds L and U. `panels` are scratch of n rows and as many columns as the
/// widest tile. Ranks have `more` scratch, of [`more_elements`]. Workers meet before and after.
pub fn inverse<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    pivots: Cells<i32>,
    panels: &Blocks<T>,
    more: &Blocks<T>,
) -> Step {
    worker.barrier()?;
    invert_triangle(worker, a, Triangle::Upper, 0.25)?;
    worker.barrier()?;
    let mut rows = vec![0i32; a.n()];
    worker.get(pivots, &mut rows)?;
    // Column c of A^-1 is column `source[c]` of X.
    let (mut order, mut source) = ((0..a.n()).collect::<Vec<_>>(), vec![0; a.n()]);
    rows.iter().enumerate().for_each(|(i, &p)| order.swap(i, p as usize));
    order.into_iter().enumerate().for_each(|(from, to)| source[to] = from);
    match W::IS_RANK {
        false => by_rows::finish(worker, a, &source, panels.own()),
        true => by_columns::finish(worker, a, &source, panels, more),
    }
}

/// Moves L's part of tile column `j` to `panel`, within `rows`, and sets its place to zero.
fn take_lower<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
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
        worker.clear(here.sub(0, 0, here.rows(), left));
        worker.clear_outside(here.sub(0, left, here.rows(), here.rows()), Triangle::Upper);
    }
    let top = top.max(below);
    if top < end {
        worker.clear(a.rows_of(j, top..end));
    }
}
