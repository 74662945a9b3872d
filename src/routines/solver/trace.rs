//! The trace of A^-1 B from a factor, with scratch for some columns of B alone.
//!
//! B is sharded as the factor, so no device needs another's part of it. By rows it is B^T to the
//! solver, and tr(A^-1 B) = tr(A^-T B^T). Each worker solves for groups of columns and adds up their
//! entries on the diagonal. B is neither written nor copied as a whole.

use super::cholesky::solves_with_conjugate;
use super::job::Solver;
use super::magnitude::solution_near_underflow;
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::{INFO, Kind, PIVOTS, Signature, Slot, WORK, slot};
use crate::algorithms::lu::Interchange;
use crate::algorithms::triangular::Triangular;
use crate::algorithms::{cholesky, lu};
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::Storage;
use crate::matrix::Cells;
use crate::scalar::Scalar;

const B: Slot = slot("b", Kind::Matrix);
const TRACE: Slot = slot("trace", Kind::Value);

pub static ROUTINES: [SolverRoutine; 2] = [
    SolverRoutine::new(
        Family::Cholesky,
        "cholesky_trace",
        "the trace of A^-1 B from the Cholesky factor of A",
        &[WORK, INFO, B],
        &[TRACE],
        &[],
        &[Stage::CholeskyTrace],
    ),
    SolverRoutine::new(
        Family::Lu,
        "lu_trace",
        "the trace of A^-1 B from the LU factors of A",
        &[WORK, PIVOTS, INFO, B],
        &[TRACE],
        &[],
        &[Stage::LuTrace],
    )
    .upright(),
];

/// The operation on A: A^-T where the solver has B^T.
fn op<T>(job: &Solver<T>) -> Op {
    if job.options.storage == Storage::ColumnMajor { Op::None } else { Op::Transpose }
}

/// The shard of B, as the columns that it has in memory.
fn columns_of_b<T: Scalar>(job: &Solver<T>, rank: usize) -> Cells<'_, T> {
    let Signature { args, .. } = job.options.routine.signature;
    let b = Signature::find(args, Kind::Matrix).expect("an operand b");
    job.calls[rank].args[b].cells(&Storage::column_major(job.sizes.distribution.shard()))
}

pub fn of_cholesky<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    // The largest square on the diagonal of the factor.
    let scale = job.largest_on_diagonal(worker)?.powi(2);
    trace(job, worker, &cholesky::sweeps(solves_with_conjugate(&job.options, op(job))), None, scale)
}

pub fn of_lu<T: Scalar>(job: &Solver<T>, worker: &mut impl Worker<T>) -> Step {
    let scale = job.largest_on_diagonal(worker)?;
    let (sweeps, interchange) = lu::sweeps(job.options.op_on_b(op(job)));
    trace(job, worker, &sweeps, Some(interchange), scale)
}

fn trace<T: Scalar, W: Worker<T>>(
    job: &Solver<T>,
    worker: &mut W,
    sweeps: &[(Triangle, Op)],
    interchange: Option<Interchange>,
    scale: f64,
) -> Step {
    let (a, n, per_rank) = (job.a(worker), job.problem.n, job.problem.rhs);
    let scratch = job.own_blocks(worker.worker(), 0, n * job.sizes.group).own();
    let mut sum = [0.0; 2];
    for (rank, first, width) in job.groups(worker) {
        let x = scratch.sub(0, 0, n * width, 1).by_columns(n, width, n);
        worker.copy(columns_of_b(job, rank).sub(0, first, n, width), x);
        // The identity corner that pads A and B does not count.
        let (row, order) = (rank * per_rank + first, job.unpadded());
        let counted = width.min(order.saturating_sub(row));
        let given = x.sub(0, 0, order, counted);
        let of_b = if W::FLUSHES { worker.largest(given)? } else { 0.0 };
        worker.keep_subnormals(solution_near_underflow::<T>(scale, of_b));
        job.interchange(worker, x, interchange, Interchange::Before);
        for &(triangle, op) in sweeps {
            Triangular { a: &a, triangle, op }.solve_columns(worker, x)?;
        }
        job.interchange(worker, x, interchange, Interchange::After);
        let mut entries = vec![T::ZERO; counted];
        if counted > 0 {
            worker.get(x.sub(row, 0, counted, counted).diagonal(), &mut entries)?;
        }
        for (re, im) in entries.into_iter().map(Scalar::parts) {
            sum = [sum[0] + re, sum[1] + im];
        }
    }
    let [re, im] = worker.all_reduce(sum, |x, y| x + y)?;
    job.found().values = [T::of_parts(re, im); 2];
    Ok(())
}
