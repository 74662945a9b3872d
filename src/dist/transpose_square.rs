//! The whole matrix transposed in place, across the shards: `B <- B^T`, in the same layout.
//!
//! Tiles (I, J) and (J, I) change places, wherever they lie; each is read and written once, and there is
//! no scratch. Shards of rows of A are columns of B = A^T, so this is what gives the routines that must
//! factor A itself, not A^T, their columns of A.

use crate::backend::{Backend, Step};
use crate::matrix::Matrix;
use crate::scalar::Scalar;
use crate::transpose::Square;

/// One lane's part of transposing `a`, whose columns are in natural order; afterwards all lanes have
/// met.
pub fn transpose_square<T: Scalar, B: Backend<T>>(lane: &mut B, a: &Matrix<T>) -> Step {
    let square = Square::new(a.columns.n(), a.columns.ranks(), size_of::<T>());
    let (units, index, lanes) = (square.units(), lane.lane(), lane.lanes());
    let share = |lane: usize| (units as u128 * lane as u128 / lanes as u128) as usize;
    lane.transpose_square(&square, share(index)..share(index + 1), a);
    lane.barrier()
}
