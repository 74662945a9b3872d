//! Makes a triangle from the other one, tile by tile and in place: `A_ij <- A_ji^H`, or `A_ji^T`. Of
//! a matrix with m != n that is its leading square, whose tiles on the diagonal must be square.
//! It only reads the given triangle, except that it makes a Hermitian diagonal real.

use super::owned_from;
use crate::comm::Step;
use crate::device::Worker;
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
pub fn mirror_triangle<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &Matrix<T>,
    missing: Missing,
    conjugated: bool,
) -> Step {
    assert!(a.distribution().is_square_on_diagonal(), "square tiles on the diagonal");
    let end = TileColumn::new(a.rows().count().min(a.columns().count()));
    for j in owned_from(worker, a.columns(), TileColumn::new(0)).take_while(|&j| j < end) {
        for i in TileColumn::each(j..end) {
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
