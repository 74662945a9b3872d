//! meshsolve: dense linear solvers for matrices that are sharded over devices.
//!
//! The layers, lowest last (a file belongs to exactly one):
//! - the crate `ffi`: XLA call frame to plain data
//! - `sites`: call sites of executables
//! - `routines`: the table
//! - `processes`: MPI and ScaLAPACK, for calls over processes
//! - `algorithms`: distributed algorithms, generic over device and scalar
//! - `rendezvous`: devices of one call meet
//! - `device`: one device
//! - `comm`: workers of one call
//! - `matrix`: views of memory
//! - `transpose` (in place), `layout` (index maths)
//!
//! DESIGN.md has the outline, docs/design the reasons.

pub mod embedding;
pub mod layout;
pub mod log;
pub mod rendezvous;
pub mod settings;
pub mod stats;

#[doc(inline)]
pub use internals::transpose::transpose_in_place;

/// Modules that tests and benchmarks see, and users do not.
#[path = "."]
mod internals {
    pub mod algorithms;
    pub mod call;
    pub mod comm;
    pub mod device;
    pub mod error;
    pub mod matrix;
    pub mod processes;
    pub mod routines;
    pub mod scalar;
    pub mod sites;
    pub mod trace;
    pub mod transpose;
}

#[cfg(not(feature = "internals"))]
use internals::*;
#[cfg(feature = "internals")]
pub use internals::*;
