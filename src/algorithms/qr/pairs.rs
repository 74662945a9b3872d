//! The order in which triangles are joined: in pairs, to the first one.

use crate::comm::{Step, Stopped};
use crate::device::Worker;
use crate::scalar::Scalar;

/// The number of joins of so many triangles, each of which takes part in a join at most once.
pub fn joins(count: usize) -> usize {
    count.next_power_of_two().ilog2() as usize
}

/// Whose triangle number `me` of so many joins to its own.
pub fn follower(me: usize, count: usize, join: usize) -> Option<usize> {
    let distance = 1 << join;
    let leads = me.is_multiple_of(2 * distance) && me + distance < count;
    leads.then_some(me + distance)
}

/// Who joins the triangle of number `me` to its own.
pub fn leader(me: usize, join: usize) -> Option<usize> {
    let distance = 1 << join;
    (me % (2 * distance) == distance).then(|| me - distance)
}

/// Many rows take a second, and the next wait may be far.
pub fn expect_running<T: Scalar>(worker: &impl Worker<T>) -> Step {
    if worker.communicator().is_stopped() { Err(Stopped) } else { Ok(()) }
}
