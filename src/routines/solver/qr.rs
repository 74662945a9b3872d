//! The routines for A = Q R by Householder reflectors, of any A by columns or a square A by rows.
//!
//! `geqrf` makes the factor `work` and the reflectors' coefficients `tau`, as LAPACK's `geqrf`. They
//! do not depend on the number of devices. As JAX's array `work` is the transpose of scipy's `qr`,
//! sharded by rows. With storage "column-major" it is `qr`, sharded by columns. info = i > 0 reports
//! that column i depends on the columns before it, or is not finite. R and Q exist in any case;
//! solutions are then NaN.

use super::dependent::find_dependent;
use super::job::Solver;
use super::options::Rhs;
use super::routine::Stage::{
    ApplyQ, Arrange, CopyTriangle, FormQ, Geqrf, Restore, SolveTriangle, TriangleCondition,
    TriangleNorm,
};
use super::routine::{Family, SolverRoutine};
use super::slot::{A, B, Extent, INFO, Kind, RCOND, Slot, WORK, slot};
use crate::algorithms::owned_from;
use crate::algorithms::qr::{self, Scratch, panels, triangles};
use crate::algorithms::triangular::Triangular;
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::{Distribution, Mapping, TileColumn};
use crate::matrix::Cells;
use crate::scalar::Scalar;

const TAU: Slot = slot("tau", Kind::Coefficients);
/// As many rows as A.
const Y: Slot = Slot { shape: &[Extent::M, Extent::K], ..slot("y", Kind::Rhs) };

pub static ROUTINES: [SolverRoutine; 6] = [
    SolverRoutine::new(
        Family::Qr,
        "geqrf",
        "the triangle R and the reflectors of A = Q R, in the solver's layout",
        &[A],
        &[WORK.starts_as(0), TAU, INFO],
        &[],
        &[Arrange, Geqrf],
    )
    .upright(),
    SolverRoutine::new(
        Family::Qr,
        "qr_triangle",
        "the triangle R from the factor of A = Q R, by columns",
        &[WORK, TAU],
        &[slot("r", Kind::Upper)],
        &[],
        &[CopyTriangle],
    )
    .upright(),
    SolverRoutine::new(
        Family::Qr,
        "orgqr",
        "the first n columns of Q from the factor of A = Q R, of a tall A",
        &[WORK, TAU],
        &[slot("q", Kind::Matrix)],
        &[],
        &[FormQ, Restore],
    )
    .upright()
    .tall(),
    SolverRoutine::new(
        Family::Qr,
        "ormqr",
        "Q B or Q^H B from the factor of A = Q R",
        &[WORK, TAU, B],
        &[Y.starts_as(2)],
        &["rhs", "trans"],
        &[ApplyQ],
    )
    .upright(),
    SolverRoutine::new(
        Family::Qr,
        "qr_solve",
        "R^-1 (Q^H B)_1 in the first n rows, (Q^H B)_2 below, from the factor of A = Q R",
        &[WORK, TAU, INFO, B],
        &[Y.starts_as(3)],
        &["rhs"],
        &[ApplyQ, SolveTriangle],
    )
    .upright()
    .tall(),
    SolverRoutine::new(
        Family::Qr,
        "qr_rcond",
        "the condition of R in its 1-norm, estimated from the factor of A = Q R, of a tall A",
        &[WORK, INFO],
        &[RCOND],
        &[],
        &[TriangleNorm, TriangleCondition],
    )
    .upright()
    .tall(),
];

impl<T: Scalar> Solver<T> {
    /// That of the first n rows, cut as the matrix.
    fn distribution_of_r(&self) -> Distribution {
        let (n, columns) = (self.problem.n, self.sizes.columns());
        let (ranks, widest) = (columns.ranks(), columns.widest().max(1));
        Distribution::whole_columns((n, n), ranks, widest, Mapping::Block)
    }

    fn scratch_of_qr(&self, me: usize) -> Scratch<'_, T> {
        let (shape, widest) = ((self.problem.m, self.problem.n), self.sizes.columns().widest());
        let [once, each] = qr::elements(shape, widest, self.sizes.is_rank);
        let triangles = self.common_blocks(me, 0, once);
        Scratch::new(shape, widest, &triangles, self.own_blocks(me, once, each).own())
    }
}

/// norm1(R). All workers meet at its beginning.
pub fn norm<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    // A matrix without columns has no sums.
    let Some(sums) = job.sums_of(worker.worker()) else { return Ok(()) };
    let a = job.factor(worker);
    let columns = a.columns();
    for t in owned_from(worker, columns, TileColumn::new(0)) {
        let (first, column) = (columns.tile(t).global.get(), a.tile_column(t));
        let above = column.sub(0, 0, first, column.cols());
        worker.add_moduli(above.transposed(), sums.sub(first, 0, column.cols(), 1));
        for j in 0..column.cols() {
            let on_diagonal = column.sub(first, j, j + 1, 1);
            worker.add_moduli(on_diagonal.transposed(), sums.sub(first + j, 0, 1, 1));
        }
    }
    job.find_largest(worker, 0.0).map(drop)
}

/// The condition of R, from norm1(R).
pub fn condition<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let square = job.distribution_of_r();
    let r = job.factor(worker).first_rows(&square);
    job.condition(worker, &r, |op| ([(Triangle::Upper, op)], None))
}

/// A = Q R, in place.
pub fn factor<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (a, me) = (job.a(worker), worker.worker());
    let scratch = job.scratch_of_qr(me);
    worker.keep_subnormals(true);
    qr::factor(worker, &a, &job.coefficients(me), &scratch)?;
    let (columns, m, n) = (a.columns(), a.m(), job.options.unpadded.unwrap_or(a.n()));
    for t in panels(columns, m.min(n)) {
        if worker.owns(columns, t) {
            let (first, width) = (columns.tile(t).global.get(), columns.tile(t).width);
            let count = width.min(m.min(n) - first);
            let r = |row: usize, rows: usize| a.tile_column(t).sub(row, 0, rows, count);
            let above = (first > 0).then(|| r(0, first));
            find_dependent(worker, above, &[r(first, count)], first, (m, n))?;
        }
    }
    Ok(())
}

/// R, to the results of all ranks.
pub fn copy_triangle<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let a = job.factor(worker);
    let columns = a.columns();
    for t in owned_from(worker, columns, TileColumn::new(0)) {
        let tile = columns.tile(t);
        let r = job.result_of_rank(tile.rank, "r");
        let rows = r.rows();
        let to = r.sub(0, tile.local.get(), rows, tile.width);
        let (first, end) =
            (tile.global.get().min(rows), (tile.global.get() + tile.width).min(rows));
        worker.copy(a.tile_column(t).sub(0, 0, end, tile.width), to.sub(0, 0, end, tile.width));
        // Fewer where the tile reaches beyond the last row.
        let count = end - first;
        worker.clear_outside(to.sub(first, 0, count, count), Triangle::Upper);
        worker.clear(to.sub(end, 0, rows - end, tile.width));
    }
    Ok(())
}

/// The first n columns of Q, to the results of all ranks.
pub fn form<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (a, q, me) = (job.factor(worker), job.a(worker), worker.worker());
    let scratch = job.scratch_of_qr(me);
    worker.keep_subnormals(true);
    triangles(worker, &a, job.coefficients(me).own(), &scratch)?;
    qr::form(worker, &a, &q, &scratch)
}

/// op(Q) B, op that of the call, or the adjoint for a solution.
pub fn apply<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (a, me, rows) = (job.factor(worker), worker.worker(), job.problem.m);
    let scratch = job.scratch_of_qr(me);
    let op = if job.options.routine.has(SolveTriangle) { Op::Adjoint } else { job.options.op };
    worker.keep_subnormals(true);
    triangles(worker, &a, job.coefficients(me).own(), &scratch)?;
    let own: Vec<Cells<T>> = match job.options.rhs {
        Rhs::Columns => {
            let part = |(rank, first, width)| job.x_block(rank).sub(0, first, rows, width);
            job.groups(worker).into_iter().map(part).collect()
        }
        // Each rank has all columns, workers that share memory some.
        Rhs::Replicated => {
            let (x, k, workers) = (job.x_block(job.copy_of(me)), job.problem.rhs, worker.workers());
            let end = |worker: usize| k * worker / workers;
            let mine = if W::IS_RANK { 0..k } else { end(me)..end(me + 1) };
            vec![x.sub(0, mine.start, rows, mine.len())]
        }
    };
    qr::apply(worker, &a, op, &own, &scratch)?;
    worker.barrier()
}

/// R^-1 times the first n rows of B.
pub fn solve_triangle<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let (whole, n, me) = (job.factor(worker), job.problem.n, worker.worker());
    let (columns, square) = (whole.columns(), job.distribution_of_r());
    let r = whole.first_rows(&square);
    let triangular = Triangular { a: &r, triangle: Triangle::Upper, op: Op::None };
    match job.options.rhs {
        Rhs::Columns => {
            for (rank, first, width) in job.groups(worker) {
                triangular.solve_columns(worker, job.x_block(rank).sub(0, first, n, width))?;
            }
        }
        Rhs::Replicated => {
            let x = job.replicated(me, |rank| job.x_block(rank));
            let x = x.part(|x| x.sub(0, 0, n, x.cols()));
            triangular.solve_shared(worker, &x, &job.sums(me))?;
            worker.all_gather(&x, columns, columns.each())?;
        }
    }
    worker.barrier()
}
