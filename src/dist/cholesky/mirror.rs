//! Gives a triangle from the other one, tile by tile and in place: `A_ij <- A_ji^H`. The given
//! triangle, but for the diagonal, is read only.

use crate::backend::{Backend, Step};
use crate::matrix::Matrix;
use crate::scalar::Scalar;

/// One lane's part of making the lower triangle from the upper one (or the `upper` from the lower);
/// afterwards all lanes have met.
pub fn mirror_triangle<T: Scalar, B: Backend<T>>(lane: &mut B, a: &Matrix<T>, upper: bool) -> Step {
    let count = a.columns.count();
    for j in (lane.lane()..count).step_by(lane.lanes()) {
        let tile = a.columns.tile(j);
        for i in j..count {
            let other = a.columns.tile(i);
            let above = a.tile_column(i).sub(tile.global, 0, tile.width, other.width);
            let below = a.tile_column(j).sub(other.global, 0, other.width, tile.width);
            if upper {
                lane.mirror(below.transposed(), above.transposed(), i == j);
            } else {
                lane.mirror(above, below, i == j);
            }
        }
    }
    lane.barrier()
}
