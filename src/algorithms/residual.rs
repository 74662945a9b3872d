//! `R = B - op(A) X` with a column-distributed matrix, of which possibly only one triangle is
//! given.

use crate::algorithms::mirror::Missing;
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Blocks, Cells, DistMatrix, Panel};
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
    pub a: &'a DistMatrix<'a, T>,
    pub op: Op,
    pub given: Given,
}

impl<T: Scalar> Operator<'_, T> {
    /// Subtracts op(A) X from R, both n x k, with one worker. `tile` holds the widest diagonal tile.
    /// All ranks call this as often.
    pub fn subtract_alone<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        r: Cells<T>,
        tile: Cells<T>,
    ) -> Step {
        for t in self.a.columns().each() {
            let panel = worker.broadcast(self.a, t, self.a.all_rows())?;
            worker.span("residual", Some(t), |w| self.subtract_tile(w, &panel, x, r, r, tile));
        }
        Ok(())
    }

    /// Subtracts op(A) X from R, both n x k, with all workers. Every worker has a block of the same X
    /// and R. `sums` (n x k) and `tile` are their scratch. All workers meet at its end.
    pub fn subtract_shared<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        r: &Blocks<T>,
        sums: &Blocks<T>,
        tile: Cells<T>,
    ) -> Step {
        let (columns, workers) = (self.a.columns(), worker.workers());
        let owned = owned_from(worker, columns, TileColumn::new(0));
        worker.clear(sums.own());
        for t in owned.clone() {
            // It writes only rows of R that no other worker writes, and this worker's own sums.
            let panel = Panel::new(self.a, t, self.a.all_rows(), self.a.tile_column(t));
            worker.span("residual", Some(t), |w| {
                self.subtract_tile(w, &panel, x, r.own(), sums.own(), tile);
            });
        }
        worker.barrier()?;
        for rows in owned.map(|t| columns.tile(t).rows()) {
            for other in 0..workers {
                let sum = worker.fetch(sums.of(other).matrix_rows(rows.clone()))?;
                worker.add(r.own().matrix_rows(rows.clone()), sum);
            }
        }
        worker.all_gather(r, columns, columns.each())
    }

    /// Subtracts the contribution of a tile column of A. `own` takes the part for its own rows,
    /// which no other tile column shares; `any` takes the rest.
    fn subtract_tile<'v, W: Worker<T>>(
        &self,
        worker: &mut W,
        panel: &Panel<T>,
        x: Cells<'v, T>,
        own: Cells<'v, T>,
        any: Cells<'v, T>,
        tile: Cells<'v, T>,
    ) {
        let (all, mine) = (self.a.all_rows(), panel.diagonal_rows());
        let column = panel.rows(all.clone());
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
        let whole = tile.by_columns(column.cols(), column.cols(), column.cols());
        worker.copy(panel.diagonal(), whole);
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
