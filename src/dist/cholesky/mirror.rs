//! Brings a matrix whose upper triangle is given to the form with the lower one: `A_ij <- A_ji^H`
//! for i >= j, tile by tile and in place. The given triangle is read only.

use crate::backend::{Backend, Step};
use crate::matrix::Matrix;
use crate::scalar::Scalar;

/// One lane's part; afterwards all lanes have met.
pub fn mirror_triangle<T: Scalar, B: Backend<T>>(lane: &mut B, a: &Matrix<T>) -> Step {
    let count = a.columns.count();
    for j in (lane.lane()..count).step_by(lane.lanes()) {
        let tile = a.columns.tile(j);
        for i in j..count {
            let other = a.columns.tile(i);
            let from = a.tile_column(i).sub(tile.global, 0, tile.width, other.width);
            let to = a.tile_column(j).sub(other.global, 0, other.width, tile.width);
            lane.mirror(from, to, i == j);
        }
    }
    lane.barrier()
}
