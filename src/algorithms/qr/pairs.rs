//! The order in which workers join their triangles: in pairs, to that of worker 0.

use crate::comm::{Step, Stopped};
use crate::device::Worker;
use crate::scalar::Scalar;

/// The number of joins, in each of which every worker takes part at most once.
pub fn joins(workers: usize) -> usize {
    workers.next_power_of_two().ilog2() as usize
}

/// The worker whose triangle this one joins to its own.
pub fn follower<T: Scalar>(worker: &impl Worker<T>, join: usize) -> Option<usize> {
    let (me, distance) = (worker.worker(), 1 << join);
    let leads = me.is_multiple_of(2 * distance) && me + distance < worker.workers();
    leads.then_some(me + distance)
}

/// The worker that joins this one's triangle to its own.
pub fn leader<T: Scalar>(worker: &impl Worker<T>, join: usize) -> Option<usize> {
    let (me, distance) = (worker.worker(), 1 << join);
    (me % (2 * distance) == distance).then(|| me - distance)
}

/// Many rows take a second, and the next wait may be far.
pub fn expect_running<T: Scalar>(worker: &impl Worker<T>) -> Step {
    if worker.communicator().is_stopped() { Err(Stopped) } else { Ok(()) }
}
