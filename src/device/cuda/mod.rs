//! The basis of the CUDA backend. Libraries are found at run time. Kernels are compiled for the
//! actual device at first use, cached, and launched on the caller's stream. No part needs CUDA to
//! build, and no library is loaded before its first use.
//!
//! | file | contents |
//! |---|---|
//! | `load` | shared libraries by name, path, or as another component loaded them |
//! | `driver` | libcuda: its version, and whether it works |
//! | `handle` | contexts, streams, and objects of other kinds, as types that do not mix |
//! | `context` | a device's context, current on a thread |
//! | `device` | a device, its kernels, work on a stream |
//! | `device::queue` | streams, events by which they wait for each other, copies of blocks |
//! | `vendor` | the functions that are called of cuBLAS, cuSOLVER, cuSolverMg and NCCL |
//! | `device::tools` | a call's streams, handles and events, kept from call to call |
//! | `warm` | kernels and handles used before NCCL transfers panels |
//! | `transposition` | a plan of transposition on a device |
//! | `engine` | cuSolverMg for the ranks of a call |
//! | `seat` | a rank's device, stream and memory |
//! | `communicator` | the ranks of a call: their memory and announcements |
//! | `rank_scratch` | a rank's scratch |
//! | `worker` | one rank of a call: a worker |
//! | `nvrtc` | libnvrtc: a source text becomes a cubin |
//! | `sources` | the table of `kernels/*.cu` |
//! | `kernels` | a kernel of the table for an architecture, through the cache |
//! | `cache` | cubins on disk |
//! | `process` | the devices of this process, with the libraries found |

pub mod cache;
pub mod communicator;
pub mod context;
pub mod device;
pub mod driver;
pub mod engine;
pub mod handle;
pub mod kernels;
pub mod load;
pub mod nvrtc;
pub mod process;
pub mod rank_scratch;
pub mod seat;
pub mod sources;
pub mod transposition;
pub mod vendor;
pub mod warm;
pub mod worker;
