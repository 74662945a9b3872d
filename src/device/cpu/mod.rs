//! The host backend: lanes are threads, tile kernels are faer's, panels are read where they lie.

mod blas;
pub mod float_mode;
mod getrf;
mod lane;
mod members;
mod norm;
pub mod peak;
pub mod progress;
mod scratch;
mod strip;
mod team;
pub mod threads;
mod traced;
pub mod yardstick;

pub use lane::{lane_count, scratch_elements, shared_elements};
pub use scratch::Scratch;
pub use team::{Sharing, Team};
pub use traced::HostLane;
