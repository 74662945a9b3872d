//! Distributed algorithms, written once, generic over backend and scalar.

pub mod cholesky;
pub mod condition;
pub mod lu;
pub mod mirror;
pub mod norm;
pub mod redistribute;
pub mod residual;
pub mod triangular;
mod triangular_inverse;

use crate::backend::Backend;
use crate::scalar::Scalar;

/// The tile columns of a lane from `from` on, without end.
fn owned_from<T: Scalar, B: Backend<T>>(
    lane: &B,
    from: usize,
) -> impl Iterator<Item = usize> + Clone + use<T, B> {
    let (index, lanes) = (lane.lane(), lane.lanes());
    (from + (index + lanes - from % lanes) % lanes..).step_by(lanes)
}
