//! The solvers' routines on the host, as call sites without XLA.

mod common;
#[path = "routines/mod.rs"]
mod routines;

routines::every_routine!(None);
