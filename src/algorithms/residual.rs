//! `R = B - op(A) X` with a column-distributed matrix, of which possibly only one triangle is
//! given.

use std::ops::Range;

use crate::algorithms::mirror::Missing;
use crate::comm::Step;
use crate::device::{Backend, Op, Triangle};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// The part of A that is given in its memory.
#[derive(Clone, Copy)]
pub enum Given {
    Whole,
    /// The other triangle of a Hermitian matrix, or of a symmetric one if it is not `conjugated`.
    Half {
        missing: Missing,
        conjugated: bool,
    },
    /// The other triangle; A has zeros in this one.
    Triangle {
        missing: Missing,
    },
}

/// op(A).
pub struct Operator<'a, T> {
    pub a: &'a Matrix<T>,
    pub op: Op,
    pub given: Given,
}

impl<T: Scalar> Operator<'_, T> {
    /// Subtracts op(A) X from R, both n x k, with one worker. `tile` holds the widest diagonal
    /// tile.
    pub fn subtract_alone<B: Backend<T>>(
        &self,
        worker: &mut B,
        x: Block<T>,
        r: Block<T>,
        tile: Block<T>,
    ) {
        for t in 0..self.a.columns.count() {
            self.subtract_tile(worker, t, x, r, r, tile);
        }
    }

    /// Subtracts op(A) X from R, both n x k, with all workers. `sums[worker]` (n x k) and `tile`
    /// are the worker's scratch. All workers meet at its end.
    pub fn subtract_shared<B: Backend<T>>(
        &self,
        worker: &mut B,
        x: Block<T>,
        r: Block<T>,
        sums: &[Block<T>],
        tile: Block<T>,
    ) -> Step {
        let (index, workers, n) = (worker.worker(), worker.workers(), self.a.columns.n());
        worker.fill(sums[index], T::ZERO);
        for t in (index..self.a.columns.count()).step_by(workers) {
            // It writes only rows of R that no other worker writes, and this worker's own sums.
            self.subtract_tile(worker, t, x, r, sums[index], tile);
        }
        worker.barrier()?;
        let rows = |worker: usize| n * worker / workers;
        let mine = |m: Block<T>| m.sub(rows(index), 0, rows(index + 1) - rows(index), m.cols);
        sums.iter().for_each(|sum| worker.add(mine(r), mine(*sum)));
        worker.barrier()
    }

    /// Subtracts the contribution of tile column t of A. `own` takes the part for its own rows,
    /// which no other tile column shares; `any` takes the rest.
    fn subtract_tile<B: Backend<T>>(
        &self,
        worker: &mut B,
        t: usize,
        x: Block<T>,
        own: Block<T>,
        any: Block<T>,
        tile: Block<T>,
    ) {
        let (column, span) = (self.a.tile_column(t), self.a.columns.tile(t));
        let (n, mine) = (column.rows, span.global..span.global + span.width);
        let rows = |m: Block<T>, r: &Range<usize>| m.sub(r.start, 0, r.len(), m.cols);
        let missing = match self.given {
            Given::Half { missing, .. } | Given::Triangle { missing } => missing,
            Given::Whole if self.op.transposes() => {
                return worker.gemm(rows(own, &mine), -T::ONE, column, self.op, x);
            }
            Given::Whole => return worker.gemm(any, -T::ONE, column, self.op, rows(x, &mine)),
        };
        let rest = if missing == Missing::Lower { 0..mine.start } else { mine.end..n };
        let entries = rows(column, &rest);
        let (diagonal, width) = (rows(column, &mine), span.width);
        let whole = Block::column_major(tile.ptr, width, width, width);
        worker.copy(diagonal, whole);
        let Given::Half { conjugated, .. } = self.given else {
            if self.op.transposes() {
                worker.gemm(rows(own, &mine), -T::ONE, entries, self.op, rows(x, &rest));
            } else {
                worker.gemm(rows(any, &rest), -T::ONE, entries, self.op, rows(x, &mine));
            }
            let lower = missing == Missing::Upper;
            worker.clear_outside(whole, if lower { Triangle::Lower } else { Triangle::Upper });
            return worker.gemm(rows(any, &mine), -T::ONE, whole, self.op, rows(x, &mine));
        };
        // The transpose of a Hermitian matrix is its conjugate, that of a symmetric one itself.
        let conjugate = self.op.conjugates() != (conjugated && self.op.transposes());
        let (down, across) = match (conjugate, conjugated) {
            (false, true) => (Op::None, Op::Adjoint),
            (false, false) => (Op::None, Op::Transpose),
            (true, true) => (Op::Conjugate, Op::Transpose),
            (true, false) => (Op::Conjugate, Op::Adjoint),
        };
        worker.gemm(rows(any, &rest), -T::ONE, entries, down, rows(x, &mine));
        worker.gemm(rows(any, &mine), -T::ONE, entries, across, rows(x, &rest));
        let (from, to) = match missing {
            Missing::Lower => (whole, whole),
            Missing::Upper => (whole.transposed(), whole.transposed()),
        };
        worker.mirror(from, to, true, conjugated);
        worker.gemm(rows(any, &mine), -T::ONE, whole, down, rows(x, &mine));
    }
}
