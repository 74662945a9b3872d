//! Every shard of an array transposed in its own memory, all lanes on all shards.

use crate::backend::{Backend, Step};
use crate::matrix::Block;
use crate::scalar::Scalar;
use crate::transpose::Plan;

/// Elements of scratch that the lanes share for `shards` shards.
pub fn shared_elements<T>(plan: &Plan, shards: usize) -> usize {
    shards * plan.shared_bytes().div_ceil(size_of::<T>())
}

/// One lane's part; `own` is its scratch, of `plan.scratch_bytes()` or more, and `shared` that of all
/// lanes, of [`shared_elements`]. Afterwards all lanes have met.
pub fn transpose_shards<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    shards: &[*mut T],
    plan: &Plan,
    own: Block<T>,
    shared: *mut T,
) -> Step {
    let (index, lanes) = (lane.lane(), lane.lanes());
    if plan.phases() == 0 {
        return lane.barrier();
    }
    for phase in 0..plan.phases() {
        // The units of all shards in one row, cut into one run for each lane.
        let units = plan.units(phase);
        let all = units * shards.len();
        let (first, end) = (all * index / lanes, all * (index + 1) / lanes);
        for (rank, &shard) in shards.iter().enumerate() {
            let within = |unit: usize| unit.clamp(rank * units, (rank + 1) * units) - rank * units;
            let mine = within(first)..within(end);
            if !mine.is_empty() {
                let shared = shared.wrapping_add(shared_elements::<T>(plan, rank));
                lane.transpose(plan, phase, mine, shard, own, shared);
            }
        }
        lane.barrier()?;
    }
    Ok(())
}
