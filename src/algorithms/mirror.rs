//! Makes a triangle from the other one, tile by tile and in place: `A_ij <- A_ji^H`, or `A_ji^T`. Of
//! a matrix with m != n that is its leading square, whose tiles on the diagonal must be square.
//! It only reads the given triangle, except that it makes a Hermitian diagonal real.

use crate::comm::Step;
use crate::device::Worker;
use crate::layout::TileColumn;
use crate::matrix::DistMatrix;
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
    a: &DistMatrix<T>,
    missing: Missing,
    conjugated: bool,
) -> Step {
    assert!(a.distribution().is_square_on_diagonal(), "square tiles on the diagonal");
    let end = TileColumn::new(a.rows().count().min(a.columns().count()));
    for j in TileColumn::each(TileColumn::new(0)..end) {
        for i in TileColumn::each(j..end) {
            let (above, below) = (a.remote_tile(j.row(), i), a.remote_tile(i.row(), j));
            let made = if missing == Missing::Upper { above } else { below };
            let owner = if W::IS_RANK { made.rank() } else { worker.owner(a.columns(), j) };
            if owner != worker.worker() {
                continue;
            }
            let (from, to) = match missing {
                Missing::Upper => {
                    (worker.fetch(below)?.transposed(), a.tile(j.row(), i).transposed())
                }
                Missing::Lower => (worker.fetch(above)?, a.tile(i.row(), j)),
            };
            worker.span("mirror", None, |w| w.mirror(from, to, i == j, conjugated));
        }
    }
    worker.barrier()
}
