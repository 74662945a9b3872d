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

use crate::comm::Step;
use crate::device::Backend;
use crate::scalar::Scalar;

/// What leads to panel `next`, if it is the worker's, and the rest of a step, which it does not depend on. A worker
/// of the host does what others wait for first. A device is given the rest first: giving it a panel may hold
/// the host, and the device would have nothing to do.
fn with_lookahead<T: Scalar, B: Backend<T>>(
    worker: &mut B,
    next: usize,
    panel: impl FnOnce(&mut B) -> Step,
    rest: impl FnOnce(&mut B),
) -> Step {
    if !worker.owns(next) {
        rest(worker);
        return Ok(());
    }
    if !B::IS_RANK {
        panel(worker)?;
        rest(worker);
        return Ok(());
    }
    worker.fork();
    rest(worker);
    worker.ahead(true);
    panel(worker)?;
    worker.ahead(false);
    Ok(())
}

/// The tile columns of a worker from `from` on, without end.
fn owned_from<T: Scalar, B: Backend<T>>(
    worker: &B,
    from: usize,
) -> impl Iterator<Item = usize> + Clone + use<T, B> {
    let (index, workers) = (worker.worker(), worker.workers());
    (from + (index + workers - from % workers) % workers..).step_by(workers)
}
