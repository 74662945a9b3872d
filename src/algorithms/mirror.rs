//! Makes a triangle from the other one, tile by tile and in place: `A_ij <- A_ji^H`, or `A_ji^T`.
//! It only reads the given triangle, except that it makes a Hermitian diagonal real.

use crate::comm::Step;
use crate::device::Backend;
use crate::matrix::Matrix;
use crate::scalar::Scalar;

/// The triangle that is made from the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Lower,
    Upper,
}

/// One worker's part; all workers meet at its end. `conjugated`: A is Hermitian, not symmetric.
pub fn mirror_triangle<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &Matrix<T>,
    missing: Missing,
    conjugated: bool,
) -> Step {
    let count = a.columns.count();
    for j in (worker.worker()..count).step_by(worker.workers()) {
        let tile = a.columns.tile(j);
        for i in j..count {
            let other = a.columns.tile(i);
            let above = a.tile_column(i).sub(tile.global, 0, tile.width, other.width);
            let below = a.tile_column(j).sub(other.global, 0, other.width, tile.width);
            match missing {
                Missing::Upper => {
                    worker.mirror(below.transposed(), above.transposed(), i == j, conjugated);
                }
                Missing::Lower => worker.mirror(above, below, i == j, conjugated),
            }
        }
    }
    worker.barrier()
}
