//! The solvers as routines: shared parts (operands, attributes, sizes, the job), and a file for
//! each family.

mod call_memory;
mod cholesky;
mod condition;
mod configure;
mod engine;
mod job;
mod lu;
mod magnitude;
mod moves;
mod norm;
mod on_cuda;
mod operands;
mod options;
mod residual;
mod results;
mod run;
mod sizes;
mod slot;
mod substitute;
mod triangular;
mod widths;

pub use options::cpu_tile_width;
#[cfg(feature = "internals")]
pub use options::{Family, OWN_ATTRIBUTES};
pub use sizes::Forecast;
#[cfg(feature = "internals")]
pub use slot::Kind;

use options::Verb;

pub use engine::widest as widest_of_engine;

/// The routines of all families.
pub fn verbs() -> impl Iterator<Item = &'static Verb> {
    let direct = cholesky::VERBS.iter().chain(&lu::VERBS);
    direct.chain(&triangular::VERBS).chain(&residual::VERBS).chain(&norm::VERBS)
}
