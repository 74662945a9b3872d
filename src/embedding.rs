//! The interface for a border to a framework, such as the crate `ffi` to XLA. It has calls and
//! their rendezvous, the table of routines, settings, figures of calls, and information about CUDA.

pub use crate::call::{Allocate, Attributes, Buffer, Call};
pub use crate::device::cpu::worker_count;
pub use crate::device::cuda::cache::Cache;
pub use crate::device::cuda::driver::Driver;
pub use crate::device::cuda::engine::cusolvermg_tile_width;
pub use crate::device::cuda::handle::Stream;
pub use crate::device::cuda::kernels::{self, Cached};
pub use crate::device::cuda::nvrtc::{Compiled, Nvrtc, Program};
pub use crate::device::cuda::{process, sources};
pub use crate::error::{Error, Kind, Result};
pub use crate::processes::{
    ACCOUNT as PROCESS_CALLS, Launch, absent as absent_processes, close as close_processes,
    start as start_processes,
};
pub use crate::rendezvous::Arrival;
pub use crate::routines::solver::{
    Asked, Forecast, Function, cpu_tile_width, failure, solvers, widest_of_engine,
};
pub use crate::routines::{Array, CudaArrival, table};
pub use crate::scalar::DType;
pub use crate::sites::{CallSite, CudaSite};
