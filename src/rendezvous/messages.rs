//! Messages on devices that do not form a rendezvous.

use std::time::Duration;

use crate::error::{Error, Kind};

pub fn out_of_range(routine: &str, world: usize, rank: usize, device: i32) -> Error {
    Error::invalid(format!(
        "meshsolve.{routine}: operand `place` of device {device}: expected a rank below \
         world = {world}, got {}; pass lax.axis_index of the mesh axis",
        rank as i64
    ))
}

pub fn claimed_twice(
    routine: &str,
    world: usize,
    rank: usize,
    (other, device): (i32, i32),
) -> Error {
    Error::invalid(format!(
        "meshsolve.{routine}: operand `place`: devices {other} and {device} both claim rank {rank} of \
         {world}; pass lax.axis_index of the mesh axis, and its group if the mesh has more axes"
    ))
}

/// `present` has an entry for each rank.
pub fn missing<T>(routine: &str, present: &[Option<T>], waited: Duration) -> Error {
    let missing = present.iter().enumerate().filter(|(_, device)| device.is_none());
    let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
    Error::new(
        Kind::DeadlineExceeded,
        format!(
            "meshsolve.{routine}: rank {} of {} did not arrive within {:.3} s of the first; every \
             device of the mesh axis must make the call. If a device is merely late, raise the \
             limit with meshsolve.set_timeout(seconds) or MESHSOLVE_TIMEOUT",
            missing.join(", "),
            present.len(),
            waited.as_secs_f64(),
        ),
    )
}
