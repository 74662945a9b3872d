//! A plan of transposition on a CUDA device.

use super::device::Device;
use super::handle::{Address, Stream};
use crate::error::Result;
use crate::transpose::Plan;
use crate::transpose::device::Argument;

/// The largest alignment that matters.
const LINE: usize = 128;

/// Alignment of the claims, within scratch.
const ALIGNMENT: usize = 16;

/// The largest power of two, up to `LINE`, that divides an address.
fn alignment(data: Address) -> usize {
    1 << (data | LINE as Address).trailing_zeros()
}

/// A plan with scratch of 1/32 of the array. Small arrays get the amount that is always enough.
pub fn plan(rows: usize, cols: usize, size: usize) -> Plan {
    let bytes = rows * cols * size;
    let always = bytes + bytes / 8 + 64;
    let plan = Plan::on_device(rows, cols, size, (bytes / 32).max(always.min(4 << 20)));
    plan.or_else(|| Plan::on_device(rows, cols, size, always)).expect("9/8 are always enough")
}

/// Bytes of scratch for a plan, at a multiple of 16.
pub fn scratch_bytes(plan: &Plan, data: Address) -> usize {
    plan.device_bytes().next_multiple_of(ALIGNMENT) + plan.claim_bytes(alignment(data))
}

/// Loads the kernels of a plan.
pub fn load(device: &Device, plan: &Plan, data: Address) -> Result<()> {
    let launches = plan.launches(alignment(data));
    launches.iter().try_for_each(|launch| device.kernel(launch.file, &launch.entry()).map(drop))
}

/// Submits all launches of a plan to the stream.
///
/// # Safety
/// `data` is an array of the plan's shape, aligned to its elements. `scratch` has [`scratch_bytes`]
/// at a multiple of 16. Both are on the device, and no other work uses them until the stream has
/// done this.
pub unsafe fn transpose(
    device: &Device,
    plan: &Plan,
    data: Address,
    scratch: Address,
    stream: Stream,
) -> Result<()> {
    let alignment = alignment(data);
    let claims = scratch + plan.device_bytes().next_multiple_of(ALIGNMENT) as Address;
    for launch in plan.launches(alignment) {
        let kernel = device.kernel(launch.file, &launch.entry())?;
        if launch.arguments.contains(&Argument::Claims) {
            // SAFETY: the caller promises scratch for its sole use.
            unsafe { device.clear(claims, plan.claim_bytes(alignment), stream) }?;
        }
        let value = |argument: &Argument| match argument {
            Argument::Data => data,
            Argument::Scratch => scratch,
            Argument::Claims => claims,
            Argument::Integer(x) => *x,
        };
        let arguments: Vec<u64> = launch.arguments.iter().map(value).collect();
        // SAFETY: the caller promises data and scratch; the arguments are the plan's.
        unsafe { device.launch(&kernel, &arguments, stream) }?;
    }
    Ok(())
}
