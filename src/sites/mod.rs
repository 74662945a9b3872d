//! Call sites of executables: attributes name a routine of the table, and devices arrive with their
//! parts.

mod cpu;
mod cuda;

pub use cpu::CallSite;
pub use cuda::CudaSite;
