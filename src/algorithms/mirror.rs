//! Makes a triangle from the other one, tile by tile and in place: `A_ij <- A_ji^H`, or `A_ji^T`.
//! It only reads the given triangle, except that it makes a Hermitian diagonal real.

use super::owned_from;
use crate::comm::Step;
use crate::device::Backend;
use crate::layout::TileColumn;
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
    let columns = a.columns();
    for j in owned_from(worker, columns, TileColumn::new(0)) {
        for i in TileColumn::each(j..columns.end()) {
            let (above, below) = (a.tile(j.row(), i), a.tile(i.row(), j));
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
