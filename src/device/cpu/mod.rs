//! The backend of CPU devices: workers are threads, tile kernels come from faer, products from
//! `product`, panels are read in place.

pub mod back;
pub mod blas;
mod candidate;
pub mod chase;
pub mod divide;
pub mod float_mode;
mod getrf;
mod norm;
pub mod one_stage;
mod panel;
pub mod passes;
pub mod product;
pub mod real_columns;
pub mod reflect;
pub mod scratch;
mod sizes;
mod strip;
pub mod threads;
pub mod vectors;
mod worker;

pub use scratch::Scratch;
pub use sizes::{scratch_elements, shared_elements, worker_count};
pub use worker::CpuWorker;
