//! meshsolve: dense linear solvers for matrices that are sharded over devices.
//!
//! The layers, lowest last (a file belongs to exactly one):
//! - the crate `ffi`: XLA call frame to plain data
//! - `rendezvous`: devices of one call meet
//! - `routines`: the table
//! - `algorithms`: distributed algorithms, generic over device and scalar
//! - `device`: one device
//! - `comm`: workers of one call
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
pub use transpose::transpose_in_place;

// Only tests and benchmarks see the rest.
#[cfg(not(feature = "internals"))]
mod algorithms;
#[cfg(feature = "internals")]
pub mod algorithms;
#[cfg(not(feature = "internals"))]
mod call;
#[cfg(feature = "internals")]
pub mod call;
#[cfg(not(feature = "internals"))]
mod comm;
#[cfg(feature = "internals")]
pub mod comm;
#[cfg(not(feature = "internals"))]
mod device;
#[cfg(feature = "internals")]
pub mod device;
#[cfg(not(feature = "internals"))]
mod error;
#[cfg(feature = "internals")]
pub mod error;
#[cfg(not(feature = "internals"))]
mod matrix;
#[cfg(feature = "internals")]
pub mod matrix;
#[cfg(not(feature = "internals"))]
mod routines;
#[cfg(feature = "internals")]
pub mod routines;
#[cfg(not(feature = "internals"))]
mod scalar;
#[cfg(feature = "internals")]
pub mod scalar;
#[cfg(not(feature = "internals"))]
mod trace;
#[cfg(feature = "internals")]
pub mod trace;
#[cfg(not(feature = "internals"))]
mod transpose;
#[cfg(feature = "internals")]
pub mod transpose;
