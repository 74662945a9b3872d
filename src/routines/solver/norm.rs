//! The routine for norms. It moves and writes nothing of the matrix, in any storage.
//!
//! | routine | operands (after `place`) | results | does |
//! |---|---|---|---|
//! | `lange` | a | value | the norm of A that `norm` names, a real scalar |

use super::job::Solver;
use super::operands::{A, Kind, slot};
use super::options::{Family, Norm, Options, Verb};
use crate::algorithms::norm::{squares, sums};
use crate::comm::Step;
use crate::device::cpu::float_mode::FloatMode;
use crate::device::{Squares, Worker, memory};
use crate::error::Result;
use crate::scalar::Scalar;

pub static VERBS: [Verb; 1] = [Verb::new(
    Family::Norm,
    "lange",
    "a norm of A: 1, infinity or Frobenius'",
    &[A],
    &[slot("value", Kind::Real)],
    &[],
)];

pub fn steps<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let (leading, Some(own)) = (job.leading(), job.sums_of(worker.worker())) else { return Ok(()) };
    worker.keep_subnormals(true);
    if job.options.norm == Norm::Frobenius {
        let found = squares(worker, &job.a(worker), leading)?;
        let sizes = [found.small, found.medium, found.large];
        // SAFETY: *order*: this worker's own sums.
        let written = unsafe { memory::write(job.memory(), &sizes, own) };
        return written.map_err(|error| worker.fail(error));
    }
    sums(worker, &job.a(worker), leading, job.options.sums_columns(), own);
    Ok(())
}

impl Options {
    /// Whether the norm is the largest sum of a column of the solver's matrix, not of a row. By rows
    /// that matrix is the transpose.
    pub(super) fn sums_columns(&self) -> bool {
        (self.norm == Norm::One) != self.storage.is_transpose()
    }
}

/// A single thread writes the result.
pub fn finish<T: Scalar>(job: &Solver<T>) -> Result<()> {
    let mode = FloatMode::current();
    FloatMode::IEEE.enter();
    let norm = match job.options.norm {
        Norm::One | Norm::Infinity => job.largest_total(),
        Norm::Frobenius => job.totals().map(|totals| match totals[..] {
            [small, medium, large, ..] => Squares { small, medium, large }.root(),
            _ => 0.0,
        }),
    };
    mode.enter();
    job.give_real(norm?)
}
