//! meshsolve: dense linear solvers for matrices that are sharded over devices.
//!
//! Layers, lowest last (a file belongs to exactly one):
//! the crate `ffi` (XLA call frame to plain data) > `rendezvous` (devices of one call meet) >
//! `routines` (the table) > `algorithms` (distributed algorithms, generic over device and scalar) >
//! `device` (one device) > `comm` (workers of one call) > `transpose` (in place), `layout` (index maths). DESIGN.md has the
//! outline, docs/design the reasons.

pub mod algorithms;
pub mod call;
pub mod comm;
pub mod device;
pub mod error;
pub mod layout;
pub mod log;
pub mod matrix;
pub mod rendezvous;
pub mod routines;
pub mod scalar;
pub mod settings;
pub mod stats;
pub mod trace;
pub mod transpose;
