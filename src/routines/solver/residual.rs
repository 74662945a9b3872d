//! The routine for the refinement of solutions. It moves and writes nothing of the matrix.
//!

use super::job::Solver;
use super::options::{Rhs, Structure};
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::{A, B, Slot, X};
use crate::algorithms::residual::{Given, Operator};
use crate::comm::Step;
use crate::device::Worker;
use crate::scalar::Scalar;

pub static ROUTINES: [SolverRoutine; 1] = [SolverRoutine::new(
    Family::Residual,
    "residual",
    "B - op(A) X",
    &[A, B, X],
    &[Slot { name: "r", ..B }.starts_as(1)],
    &["rhs", "trans", "structure", "lower"],
    &[Stage::Residual],
)];

pub fn residual<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let missing = job.missing();
    let given = match job.options.structure {
        Structure::General => Given::Whole,
        Structure::Hermitian => Given::Half { missing, conjugated: true },
        Structure::Symmetric => Given::Half { missing, conjugated: false },
        Structure::Triangular => Given::Triangle { missing },
    };
    let a = job.a(worker);
    let operator = Operator { a: &a, op: job.options.op_on_b(job.options.op), given };
    let tile = job.tile_after_sums(worker.worker());
    worker.keep_subnormals(true);
    match job.options.rhs {
        Rhs::Replicated => {
            let x = job.operand_block(job.copy_of(worker.worker()), "x");
            let r = job.replicated(worker.worker(), |rank| job.x_block(rank));
            let sums = job.sums(worker.worker());
            operator.subtract_shared(worker, x, &r, &sums, tile)
        }
        Rhs::Columns => {
            for (rank, first, width) in job.groups(worker) {
                let operands = [job.operand_block(rank, "x"), job.x_block(rank)];
                let [x, r] = operands.map(|m| m.sub(0, first, m.rows(), width));
                operator.subtract_alone(worker, x, r, tile)?;
            }
            Ok(())
        }
    }
}
