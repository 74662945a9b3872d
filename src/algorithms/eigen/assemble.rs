//! A function of a Hermitian matrix from its eigenvectors, by products as in Cholesky's updates:
//!
//! ```text
//! X = -s I
//! for k:  X_ij -= L_ik L_jk^H  for i >= j     by the owner of j
//! X = -X, unless it is -L L^H;  X_ij = X_ji^H for i < j
//! ```

use super::{Leading, Weights};
use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::algorithms::{owned_from, subtract};
use crate::comm::Step;
use crate::device::{Update, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Cells, DistMatrix};
use crate::scalar::Scalar;

/// One worker's part: the leading part of order n of `x`, the rest of which becomes zero. `l` has the
/// columns of L. `room` is for a tile. Workers meet before and after.
pub fn assemble<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    x: &DistMatrix<T>,
    l: &DistMatrix<T>,
    n: usize,
    weights: &Weights,
    room: Cells<T>,
) -> Step {
    let (leading, first) = (Leading::new(x, n), TileColumn::new(0));
    let own = owned_from(worker, x.columns(), first);
    own.clone().for_each(|t| worker.clear(x.tile_column(t)));
    if weights.shift != 0.0 {
        for t in leading.owned(worker, first) {
            let column = leading.lower(t);
            let diagonal = column.row_range(0..column.cols()).diagonal();
            worker.put(&vec![T::from_f64_impl(-weights.shift); column.cols()], diagonal);
        }
    }
    let factors = Leading::new(l, n);
    for k in factors.tiles() {
        let panel = worker.broadcast(l, k, l.all_rows())?;
        subtract(worker, x, &panel, own.clone(), Update::Cholesky, x.all_rows());
        worker.progress((k.get() + 1) as f64 / l.columns().count() as f64);
    }
    if !weights.is_negative {
        leading.scale(worker, -1.0, room);
        // Zeros are not negative.
        worker.clear(room);
        for tile in leading.pieces(worker, room.rows()) {
            worker.add(tile, room.sub(0, 0, tile.rows(), tile.cols()));
        }
    }
    worker.barrier()?;
    mirror_triangle(worker, x, Missing::Upper, true)
}
