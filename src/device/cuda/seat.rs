//! The place of a rank in a call.

use std::ops::Range;
use std::sync::Arc;

use super::device::Device;
use super::handle::{Address, Stream};

/// One rank: its device, the caller's stream there, and all its memory that the call uses.
pub struct Seat {
    pub device: Arc<Device>,
    pub stream: Stream,
    pub memory: Vec<Range<Address>>,
    /// The address of its memory for the engine, if the call has one.
    pub engine: Address,
}
