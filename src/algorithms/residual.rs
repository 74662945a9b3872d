//! `R = B - op(A) X` with a column-distributed matrix, of which possibly only one triangle is
//! given.

use crate::algorithms::mirror::Missing;
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Cells, Matrix};
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
    pub a: &'a Matrix<'a, T>,
    pub op: Op,
    pub given: Given,
}

impl<T: Scalar> Operator<'_, T> {
    /// Subtracts op(A) X from R, both n x k, with one worker. `tile` holds the widest diagonal
    /// tile.
    pub fn subtract_alone<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        r: Cells<T>,
        tile: Cells<T>,
    ) {
        for t in self.a.columns().each() {
            self.subtract_tile(worker, t, x, r, r, tile);
        }
    }

    /// Subtracts op(A) X from R, both n x k, with all workers. `sums[worker]` (n x k) and `tile`
    /// are the worker's scratch. All workers meet at its end.
    pub fn subtract_shared<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        r: Cells<T>,
        sums: &[Cells<T>],
        tile: Cells<T>,
    ) -> Step {
        let (index, workers, n) = (worker.worker(), worker.workers(), self.a.n());
        worker.fill(sums[index], T::ZERO);
        for t in owned_from(worker, self.a.columns(), TileColumn::new(0)) {
            // It writes only rows of R that no other worker writes, and this worker's own sums.
            self.subtract_tile(worker, t, x, r, sums[index], tile);
        }
        worker.barrier()?;
        let rows = |worker: usize| n * worker / workers;
        let mine = rows(index)..rows(index + 1);
        let r = r.row_range(mine.clone());
        sums.iter().for_each(|sum| worker.add(r, sum.row_range(mine.clone())));
        worker.barrier()
    }

    /// Subtracts the contribution of tile column t of A. `own` takes the part for its own rows,
    /// which no other tile column shares; `any` takes the rest.
    fn subtract_tile<'v, W: Worker<T>>(
        &self,
        worker: &mut W,
        t: TileColumn,
        x: Cells<'v, T>,
        own: Cells<'v, T>,
        any: Cells<'v, T>,
        tile: Cells<'v, T>,
    ) {
        let (column, span) = (self.a.tile_column(t), self.a.columns().tile(t));
        let (all, mine) = (self.a.all_rows(), span.rows());
        let of_tile = |m: &Cells<'v, T>| m.matrix_rows(mine.clone());
        let (x_mine, any_mine, own_mine) = (of_tile(&x), of_tile(&any), of_tile(&own));
        let missing = match self.given {
            Given::Half { missing, .. } | Given::Triangle { missing } => missing,
            Given::Whole if self.op.transposes() => {
                return worker.gemm(own_mine, -T::ONE, column, self.op, x);
            }
            Given::Whole => return worker.gemm(any, -T::ONE, column, self.op, x_mine),
        };
        let rest = match missing {
            Missing::Lower => all.start..mine.start,
            Missing::Upper => mine.end..all.end,
        };
        let (entries, x_rest) = (column.matrix_rows(rest.clone()), x.matrix_rows(rest.clone()));
        let any_rest = any.matrix_rows(rest);
        let whole = tile.by_columns(span.width, span.width, span.width);
        worker.copy(self.a.diagonal(t), whole);
        let Given::Half { conjugated, .. } = self.given else {
            if self.op.transposes() {
                worker.gemm(own_mine, -T::ONE, entries, self.op, x_rest);
            } else {
                worker.gemm(any_rest, -T::ONE, entries, self.op, x_mine);
            }
            let lower = missing == Missing::Upper;
            worker.clear_outside(whole, if lower { Triangle::Lower } else { Triangle::Upper });
            return worker.gemm(any_mine, -T::ONE, whole, self.op, x_mine);
        };
        // The transpose of a Hermitian matrix is its conjugate, that of a symmetric one itself.
        let conjugate = self.op.conjugates() != (conjugated && self.op.transposes());
        let (down, across) = match (conjugate, conjugated) {
            (false, true) => (Op::None, Op::Adjoint),
            (false, false) => (Op::None, Op::Transpose),
            (true, true) => (Op::Conjugate, Op::Transpose),
            (true, false) => (Op::Conjugate, Op::Adjoint),
        };
        worker.gemm(any_rest, -T::ONE, entries, down, x_mine);
        worker.gemm(any_mine, -T::ONE, entries, across, x_rest);
        let (from, to) = match missing {
            Missing::Lower => (whole, whole),
            Missing::Upper => (whole.transposed(), whole.transposed()),
        };
        worker.mirror(from, to, true, conjugated);
        worker.gemm(any_mine, -T::ONE, whole, down, x_mine);
    }
}
