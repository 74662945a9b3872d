//! Every shard of an array transposed in its own memory, all lanes on all shards.

use crate::backend::{Backend, Step};
use crate::matrix::Block;
use crate::scalar::Scalar;
use crate::transpose::Plan;

/// One lane's part; `scratch` is its own, of `plan.scratch_bytes()` or more. Afterwards all lanes
/// have met.
pub fn transpose_shards<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    shards: &[*mut T],
    plan: &Plan,
    scratch: Block<T>,
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
                lane.transpose(plan, phase, mine, shard, scratch);
            }
        }
        lane.barrier()?;
    }
    Ok(())
}
