//! Least squares of a tall matrix by its triangle R, which move and write nothing of the matrix; R
//! alone, and Q or its reflectors in the memory of A.
//!
//! info = i > 0 reports that column i depends on the columns before it, or is not finite: |R_ii| is at
//! most min(m, n sqrt(m)) eps times the column's norm. Solutions and residuals are then NaN. With
//! `order_of_a` m is that: A may be what is left of so many rows.

use std::ops::Range;

use super::dependent::find_dependent;
use super::job::Solver;
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::{A, INFO, Kind, Slot, slot};
use super::stack;
use crate::algorithms::qr::tsqr::{Extent, Parts, Rows, Scratch, reduce, residuals};
use crate::algorithms::qr::{Lines, thin};
use crate::comm::Step;
use crate::device::{Triangle, Worker};
use crate::matrix::{Blocks, Cells};
use crate::scalar::Scalar;

const B: Slot = slot("b", Kind::Aligned);
const RIDGE: Slot = slot("ridge", Kind::Number);
const R: Slot = slot("r", Kind::Triangle);
const X: Slot = slot("x", Kind::Solution);
const RESIDUALS: Slot = slot("residuals", Kind::Residuals);
const Q: Slot = slot("q", Kind::Matrix);
const V: Slot = slot("v", Kind::Matrix);
const T_OF_Q: Slot = slot("t", Kind::Triangle);
const Z: Slot = slot("z", Kind::Solution);

pub static ROUTINES: [SolverRoutine; 7] = [
    SolverRoutine::new(
        Family::Tsqr,
        "gels",
        "minimise |B - A X|^2 + ridge |X|^2 for a tall A by rows",
        &[A, RIDGE, B],
        &[X, RESIDUALS, INFO],
        &[],
        &[Stage::LeastSquares],
    ),
    SolverRoutine::new(
        Family::Tsqr,
        "gelsr",
        "the same, and R of [A; sqrt(ridge) I] = Q R, which derivatives need",
        &[A, RIDGE, B],
        &[X, RESIDUALS, R, INFO],
        &[],
        &[Stage::LeastSquares],
    ),
    SolverRoutine::new(
        Family::Tsqr,
        "geqr",
        "the triangle R of A = Q R, for a tall A by rows",
        &[A],
        &[R, INFO],
        &[],
        &[Stage::Triangle],
    )
    .tall_shards(),
    SolverRoutine::new(
        Family::Tsqr,
        "tsqr",
        "R and the first n columns of Q, for a tall A by rows",
        &[A],
        &[Q.starts_as(0), R, INFO],
        &[],
        &[Stage::Triangle, Stage::FormRows],
    )
    .tall_shards(),
    SolverRoutine::new(
        Family::Tsqr,
        "tsqrf",
        "R, V and T of A = Q R with Q = I - V T V^H, for a tall A by rows",
        &[A],
        &[V.starts_as(0), R, T_OF_Q, INFO],
        &[],
        &[Stage::Triangle, Stage::FormReflectors],
    )
    .tall_shards(),
    SolverRoutine::new(
        Family::Tsqr,
        "tsreduce",
        "R and Z of [A B] = Q [R Z; 0 W], and the squares of W's columns, for a tall A by rows",
        &[A, B],
        &[Z, RESIDUALS, R],
        &[],
        &[Stage::Reduce],
    ),
    SolverRoutine::new(
        Family::Tsqr,
        "tsrest",
        "the triangle R of the rows of A after the first n, for a tall A by rows",
        &[A],
        &[R],
        &[],
        &[Stage::ReduceRest],
    )
    .tall_shards(),
];

impl<T: Scalar> Solver<T> {
    /// m and n of A, not of the solver's matrix.
    pub(super) fn shape_of_a(&self) -> (usize, usize) {
        let (m, n) = (self.problem.m, self.problem.n);
        if self.options.storage.is_transpose() { (n, m) } else { (m, n) }
    }

    /// The same of the A of which this one may be a part.
    fn whole_shape(&self) -> (usize, usize) {
        let (m, n) = self.shape_of_a();
        (self.options.unpadded.unwrap_or(m), n)
    }

    /// The scratch of a call that reduces rows, and what a worker has of it.
    fn reduction(&self, me: usize) -> (Scratch, Parts<'_, T>) {
        let (rows, order) = self.shape_of_a();
        let (sides, workers) = (self.problem.rhs, self.sizes.workers);
        let is_rank = self.sizes.is_rank;
        let of = stack::tsqr(Extent { rows, order, sides, workers, size: size_of::<T>(), is_rank });
        let [once, each] = of.elements();
        let own = self.own_blocks(me, once, each);
        let triangles = match is_rank {
            true => own.part(|one| of.own_triangle(one)),
            false => self.blocks(me, |worker| {
                let each = of.of_triangle();
                self.shared_scratch(worker).sub(of.groups.of(worker) * each, 0, each, 1)
            }),
        };
        (of, Parts { triangles, own: own.own() })
    }

    /// The same for Q and R.
    fn thin_scratch(&self, me: usize) -> (thin::Scratch, Blocks<'_, T>) {
        let ((m, n), workers, is_rank) =
            (self.shape_of_a(), self.sizes.workers, self.sizes.is_rank);
        let of = stack::thin((m, n), workers, size_of::<T>(), is_rank);
        (of, self.own_blocks(me, 0, of.elements()))
    }

    /// The first n rows of A for worker 0, and this worker's other rows, all transposed.
    fn rows_of_a<W: Worker<T>>(&self, worker: &W) -> (Option<Cells<'_, T>>, Lines<'_, T>) {
        let (_, n) = self.shape_of_a();
        let first = (worker.worker() == 0).then(|| self.columns_of(worker, 0).sub(0, 0, n, n));
        (first, self.rows(worker, n).a)
    }

    /// The shard of a rank, transposed.
    fn columns_of<W: Worker<T>>(&self, worker: &W, rank: usize) -> Cells<'_, T> {
        let shard = self.a(worker).shard(rank);
        if self.options.storage.is_transpose() { shard } else { shard.transposed() }
    }

    /// The rows of a worker, of those from row `after` on: those of its rank, or a share.
    fn rows_of(&self, worker: usize, after: usize) -> Range<usize> {
        let ranks = self.problem.ranks();
        let each = self.shape_of_a().0 / ranks;
        let end = |worker: usize| match self.sizes.is_rank {
            true => worker * each,
            false => {
                let all = each as u128 * ranks as u128;
                (all * worker as u128 / self.sizes.workers as u128) as usize
            }
        };
        end(worker).max(after)..end(worker + 1).max(after)
    }

    /// A worker's rows of A and B, of those from row `after` on.
    fn rows<W: Worker<T>>(&self, worker: &W, after: usize) -> Rows<'_, T> {
        let (ranks, mine) = (self.problem.ranks(), self.rows_of(worker.worker(), after));
        let each = self.shape_of_a().0 / ranks;
        let of_rank = |rank: usize| {
            let within = |row: usize| row.clamp(rank * each, (rank + 1) * each) - rank * each;
            let (first, rows) = (within(mine.start), within(mine.end) - within(mine.start));
            if rows == 0 {
                return None;
            }
            let columns = self.columns_of(worker, rank);
            let b = match self.problem.rhs {
                0 => columns.sub(0, first, 0, rows),
                _ => {
                    self.operand_block(rank, "b").sub(first, 0, rows, self.problem.rhs).transposed()
                }
            };
            Some((columns.sub(0, first, columns.rows(), rows), b))
        };
        let (a, b) = (0..ranks).filter_map(of_rank).unzip();
        let most = (0..self.sizes.workers).map(|worker| self.rows_of(worker, after).len()).max();
        Rows { a: Lines(a), b: Lines(b), most: most.unwrap_or(0) }
    }
}

/// R of A alone, or with what makes Q, to the results of each rank or of the first one.
pub fn triangle_of_a<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let me = worker.worker();
    let ((of, scratch), (first, lines)) = (job.thin_scratch(me), job.rows_of_a(worker));
    worker.keep_subnormals(true);
    let keeps = !matches!(job.options.routine.run, [Stage::Triangle]);
    thin::factor(worker, &lines, first, &scratch, of, keeps)?;
    let results = job.replicated(me, |rank| job.result_of_rank(rank, "r"));
    if me == 0 {
        let r = results.own();
        worker.copy(of.triangle(scratch.own()), r);
        worker.clear_outside(r, Triangle::Upper);
        find_dependent(worker, None, &[r], 0, job.whole_shape())?;
    }
    if W::IS_RANK { worker.replicate(&results, 0) } else { Ok(()) }
}

/// Q, after that, or the reflectors of all rows.
pub fn form_rows<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    let me = worker.worker();
    let ((of, scratch), (first, lines)) = (job.thin_scratch(me), job.rows_of_a(worker));
    if !job.options.routine.has(Stage::FormReflectors) {
        thin::form(worker, &lines, first, &scratch, of, None)?;
        return worker.barrier();
    }
    let t = job.replicated(me, |rank| job.result_of_rank(rank, "t"));
    thin::form(worker, &lines, first, &scratch, of, Some(t.own()))?;
    if W::IS_RANK { worker.replicate(&t, 0) } else { worker.barrier() }
}

/// The triangle R of A from row `after` on, with its ridge term, in scratch, and in the results of
/// each rank or of the first one, if they have R. Residuals are found on the way, where there is no
/// ridge term.
fn triangle<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W, after: usize) -> Step {
    let (of, parts) = job.reduction(worker.worker());
    worker.keep_subnormals(true);
    let rows = job.rows(worker, after);
    let squares = reduce(worker, &rows, job.number, &parts, of)?;
    if job.has_copy(worker) {
        // Every rank has found the same.
        job.found().residuals = squares.into_iter().map(|sum| sum.root().powi(2)).collect();
        if job.options.routine.gives(Kind::Triangle) {
            of.copy_r(worker, parts.triangles.own(), job.result_block(worker.worker(), "r"));
        }
    }
    Ok(())
}

/// That of all rows with Z = Q^H B, or of those after the first n.
pub fn reduce_rows<T: Scalar, W: Worker<T>>(
    job: &Solver<T>,
    worker: &mut W,
    leaves_first: bool,
) -> Step {
    let (_, n) = job.shape_of_a();
    triangle(job, worker, if leaves_first { n } else { 0 })?;
    if !leaves_first && job.has_copy(worker) {
        let (of, parts) = job.reduction(worker.worker());
        of.copy_z(worker, parts.triangles.own(), job.result_block(worker.worker(), "z"));
    }
    Ok(())
}

/// The triangle of all rows, and the solutions.
pub fn least_squares<T: Scalar, W: Worker<T>>(job: &Solver<T>, worker: &mut W) -> Step {
    triangle(job, worker, 0)?;
    let (of, parts) = job.reduction(worker.worker());
    let x = job.result_block(worker.worker(), "x");
    if job.has_copy(worker) {
        let triangle = parts.triangles.own();
        let blocks: Vec<_> = of.blocks_of_r(triangle);
        find_dependent(worker, None, &blocks, 0, job.whole_shape())?;
        of.solve(worker, triangle);
        of.copy_z(worker, triangle, x);
    }
    if job.number == 0.0 {
        return Ok(());
    }
    // What is left after the triangle has the ridge term in it.
    worker.barrier()?;
    let squares = residuals(worker, &job.rows(worker, 0), x, &parts, of)?;
    job.found().residuals = squares.into_iter().map(|sum| sum.root().powi(2)).collect();
    Ok(())
}
