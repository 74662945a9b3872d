//! The ground of the CUDA backend: libraries found at run time, kernels compiled for the very device at
//! first use and launched on the caller's stream, and the cache of what was compiled. Nothing here needs
//! CUDA to build, and nothing is loaded before it is asked for.
//!
//! | file | what |
//! |---|---|
//! | `load` | shared libraries by name, path, or as somebody else loaded them |
//! | `driver` | libcuda: its version, and whether it works |
//! | `device` | a device's context, its kernels, what goes on a stream |
//! | `transposition` | a plan of transposition on a device |
//! | `nvrtc` | libnvrtc: a source text becomes a cubin |
//! | `sources` | the table of `kernels/*.cu` |
//! | `kernels` | a kernel of the table for an architecture, by way of the cache |
//! | `cache` | cubins on disk |
//! | `yardstick` | transpositions measured and checked, for benchmarks |
//! | `process` | the devices of this process, with what was found |

pub mod cache;
pub mod device;
pub mod driver;
pub mod kernels;
pub mod load;
pub mod nvrtc;
pub mod process;
pub mod sources;
pub mod transposition;
pub mod yardstick;
