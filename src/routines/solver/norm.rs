//! The routine for norms: nothing of the matrix is moved or written, whatever its storage.
//!
//! | routine | operands (after `place`) | results | does |
//! |---|---|---|---|
//! | `lange` | a | value | the norm of A that `norm` names, a real scalar |

use super::job::Solver;
use super::operands::{Kind, slot};
use super::options::{Family, Norm, Verb};
use crate::backend::host::HostLane;
use crate::backend::host::float_mode::FloatMode;
use crate::backend::{Backend, Squares};
use crate::dist::norm::{squares, sums};
use crate::scalar::Scalar;

pub static VERBS: [Verb; 1] = [Verb::new(
    Family::Norm,
    "lange",
    "a norm of A: 1, infinity or Frobenius'",
    &[slot("a", Kind::Matrix)],
    &[slot("value", Kind::Real)],
)];

/// One lane's part.
pub fn steps<T: Scalar>(job: &Solver<T>, lane: &mut HostLane<T>) {
    let (n, Some(own)) = (job.unpadded(), job.sums_of(lane.lane())) else { return };
    lane.keep_subnormals(true);
    if job.options.norm == Norm::Frobenius {
        let Squares { small, medium, large } = squares(lane, &job.a, n);
        for (i, sum) in [small, medium, large].into_iter().enumerate() {
            // SAFETY: a number of scratch, this lane's alone.
            unsafe { own.sub(i, 0, 1, 1).ptr.write(sum) };
        }
    } else {
        // By rows the solver's matrix is the transpose.
        let of_columns = (job.options.norm == Norm::One) != job.options.storage.is_transpose();
        sums(lane, &job.a, n, of_columns, own.sub(0, 0, n, 1));
    }
}

/// What a single thread writes to the result.
pub fn finish<T: Scalar>(job: &Solver<T>) {
    let mode = FloatMode::current();
    FloatMode::IEEE.enter();
    job.give_real(match job.options.norm {
        Norm::One | Norm::Infinity => job.largest_total(),
        Norm::Frobenius => {
            let [small, medium, large] = [0, 1, 2].map(|i| job.total(i));
            Squares { small, medium, large }.root()
        }
    });
    mode.enter();
}
