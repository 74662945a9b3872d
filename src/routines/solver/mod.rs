//! The solvers as routines: shared parts (operands, attributes, sizes, the job), and a file for
//! each family.

mod call_memory;
mod cholesky;
mod condition;
mod configure;
mod dependent;
mod eigen;
mod eigenvectors;
mod eigenvectors_scratch;
mod engine;
pub mod forecast;
mod functions;
mod job;
mod lu;
mod magnitude;
mod moves;
mod norm;
mod on_cuda;
pub mod operands;
pub mod options;
mod processes;
mod qr;
mod residual;
mod results;
mod routine;
mod run;
pub mod sizes;
mod slot;
mod stack;
mod substitute;
mod trace;
mod triangular;
mod tsqr;
pub mod widths;

pub use crate::algorithms::eigen::Function;
pub use forecast::{Asked, Forecast};
#[cfg(feature = "internals")]
pub use operands::Requirement;
pub use options::cpu_tile_width;
#[cfg(feature = "internals")]
pub use routine::{Family, OWN_ATTRIBUTES};
pub use run::failure;
#[cfg(feature = "internals")]
pub use slot::{Kind, Slot};

pub use engine::cusolvermg::widest as widest_of_engine;
pub use routine::SolverRoutine;

/// The routines of all families.
pub fn solvers() -> impl Iterator<Item = &'static SolverRoutine> {
    let direct = cholesky::ROUTINES.iter().chain(&lu::ROUTINES);
    direct
        .chain(&triangular::ROUTINES)
        .chain(&residual::ROUTINES)
        .chain(&norm::ROUTINES)
        .chain(&trace::ROUTINES)
        .chain(&qr::ROUTINES)
        .chain(&tsqr::ROUTINES)
        .chain(&eigen::ROUTINES)
}
