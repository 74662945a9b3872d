//! Calls of which several processes have a part each: a distributed library performs them, ScaLAPACK
//! over MPI. See docs/design/processes.md.
//!
//! - `library`, `mpi`, `scalapack`: libraries that are loaded at run time, as tables of functions.
//! - `order`: which call a process serves next.
//! - `moves`: columns between processes, in place.
//! - `engine`: the thread that does all of it.
//! - `account`: how far this process is in its calls.
//! - `roll`: which processes wait for long.

mod account;
mod engine;
mod library;
pub mod moves;
mod mpi;
mod order;
mod roll;
mod scalapack;

pub use account::ACCOUNT;
pub use engine::{Grid, Launch, Work, close, has_started, launch, start, submit};
pub use mpi::{Communicator, Request};
pub use roll::absent;
pub use scalapack::{Descriptor, Eigen, checked};
