//! The ground of the CUDA backend: libraries found at run time, kernels compiled for the very device at
//! first use and launched on the caller's stream, and the cache of what was compiled. Nothing here needs
//! CUDA to build, and nothing is loaded before it is asked for.
//!
//! | file | what |
//! |---|---|
//! | `load` | shared libraries by name, path, or as somebody else loaded them |
//! | `driver` | libcuda: its version, and whether it works |
//! | `device` | a device's context, its kernels, what goes on a stream |
//! | `queue` | streams, events by which they wait for each other, copies of blocks |
//! | `vendor` | cuBLAS, cuSOLVER, cuSolverMg and NCCL, as far as they are called |
//! | `tools` | what a call needs of them, kept from call to call |
//! | `warm` | kernels and handles used before panels go by NCCL |
//! | `transposition` | a plan of transposition on a device |
//! | `engine` | cuSolverMg for the ranks of a call |
//! | `communicator` | the ranks of a call: whose memory is where, what has been announced |
//! | `room` | what a rank needs of scratch |
//! | `worker` | one rank of a call: the `Backend` |
//! | `nvrtc` | libnvrtc: a source text becomes a cubin |
//! | `sources` | the table of `kernels/*.cu` |
//! | `kernels` | a kernel of the table for an architecture, by way of the cache |
//! | `cache` | cubins on disk |
//! | `process` | the devices of this process, with what was found |

pub mod cache;
pub mod communicator;
pub mod device;
pub mod driver;
pub mod engine;
pub mod kernels;
pub mod load;
pub mod nvrtc;
pub mod process;
pub mod queue;
pub mod room;
pub mod sources;
pub mod tools;
pub mod transposition;
pub mod vendor;
pub mod warm;
pub mod worker;
