//! `op(T) X = B` with a triangle T of a column-distributed matrix. All workers share a few
//! right-hand sides; many right-hand sides are distributed to the workers.
//!
//! Each tile column of T is on one rank, which determines the substitution. With T itself, x_k
//! times its tile column is subtracted from the unsolved rows. With the transpose, row k of op(T)
//! is tile column k, and x_k collects the contributions of the solved rows.

use std::ops::Range;

use crate::comm::{Phase, Signal, Step};
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::{TileColumn, TileRow};
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;

/// op(T), T a triangle of `a`.
pub struct Triangular<'a, T> {
    pub a: &'a Matrix<'a, T>,
    pub triangle: Triangle,
    pub op: Op,
}

impl<T: Scalar> Triangular<'_, T> {
    /// The `p`-th tile in the order of the solve.
    fn tile(&self, p: usize) -> TileColumn {
        let count = self.a.columns().count();
        TileColumn::new(if self.ascends() { p } else { count - 1 - p })
    }

    fn ascends(&self) -> bool {
        self.triangle.is_lower() != self.op.transposes()
    }

    /// The rows of some tile rows, of a view of n rows.
    fn rows<'v>(&self, m: Cells<'v, T>, tiles: Range<TileRow>) -> Cells<'v, T> {
        let rows = self.a.rows();
        m.matrix_rows(rows.start(tiles.start)..rows.start(tiles.end))
    }

    /// The rows of the `p`-th tile.
    fn own<'v>(&self, m: Cells<'v, T>, p: usize) -> Cells<'v, T> {
        m.matrix_rows(self.a.rows().range(self.tile(p).row()))
    }

    /// Tile rows that are solved after (or with) the `p`-th.
    fn later(&self, p: usize) -> Range<TileRow> {
        let count = self.a.columns().count();
        let (start, end) = if self.ascends() { (p, count) } else { (0, count - p) };
        TileRow::new(start)..TileRow::new(end)
    }

    /// Tile rows that are solved before the `p`-th.
    fn earlier(&self, p: usize) -> Range<TileRow> {
        let count = self.a.columns().count();
        let (start, end) = if self.ascends() { (0, p) } else { (count - p, count) };
        TileRow::new(start)..TileRow::new(end)
    }

    /// Solves for the right-hand sides in `x` (n x k) with one worker. T must be complete before.
    pub fn solve_columns<W: Worker<T>>(&self, worker: &mut W, x: Cells<T>) {
        for p in 0..self.a.columns().count() {
            let t = self.tile(p);
            let (column, own) = (self.a.tile_column(t), self.own(x, p));
            let part =
                |tiles: Range<TileRow>| (self.rows(column, tiles.clone()), self.rows(x, tiles));
            if self.op.transposes() {
                let (entries, solved) = part(self.earlier(p));
                worker.gemm(own, -T::ONE, entries, self.op, solved);
                worker.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
            } else {
                worker.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
                let (entries, rest) = part(self.later(p + 1));
                worker.gemm(rest, -T::ONE, entries, self.op, own);
            }
        }
    }

    /// Solves for the right-hand sides in `x` (n x k, k small) with all workers, which meet before.
    /// `sums[worker]` (n x k) is the worker's scratch.
    pub fn solve_shared<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        sums: &[Cells<T>],
    ) -> Step {
        worker.barrier()?;
        let count = self.a.columns().count();
        let first = (0..count).find(|&p| worker.owns(self.tile(p))).unwrap_or(count);
        if self.op.transposes() {
            let solved = worker.phase(Signal::Solved);
            self.collect(worker, x, first, &solved)
        } else {
            let partial_sums = worker.phase(Signal::PartialSums);
            self.distribute(worker, x, sums, first, &partial_sums)
        }
    }

    /// The owner of a tile collects the workers' sums for its rows and solves. It adds its
    /// contribution to the following rows, those of the next tiles first because their owners wait.
    fn distribute<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        sums: &[Cells<T>],
        first: usize,
        partial_sums: &Phase,
    ) -> Step {
        let (index, workers, count) = (worker.worker(), worker.workers(), self.a.columns().count());
        let mine = sums[index];
        worker.fill(mine, T::ZERO);
        worker.announce(partial_sums, (first + 1).min(count));
        for p in (first..count).step_by(workers) {
            let t = self.tile(p);
            let (column, own) = (self.a.tile_column(t), self.own(x, p));
            for (other, sum) in sums.iter().enumerate() {
                worker.wait(partial_sums, other, p + 1)?;
                worker.add(own, self.own(*sum, p));
            }
            worker.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
            let urgent = (p + workers).min(count - 1);
            for q in p + 1..=urgent {
                let (to, entries) = (self.own(mine, q), self.own(column, q));
                worker.gemm(to, -T::ONE, entries, self.op, own);
                worker.announce(partial_sums, q + 1);
            }
            let rest = self.later(urgent + 1);
            let to = self.rows(mine, rest.clone());
            worker.gemm(to, -T::ONE, self.rows(column, rest), self.op, own);
        }
        Ok(())
    }

    /// The owner of a tile holds a whole row of op(T). It waits for no sums, only for solved rows.
    fn collect<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        first: usize,
        solved_rows: &Phase,
    ) -> Step {
        let (workers, count) = (worker.workers(), self.a.columns().count());
        for p in (first..count).step_by(workers) {
            let t = self.tile(p);
            let (column, own) = (self.a.tile_column(t), self.own(x, p));
            // Of the rows up to this one, the worker itself has solved the last.
            let known = (p + 1).saturating_sub(workers);
            if known > 0 {
                worker.wait(solved_rows, worker.owner(self.tile(known - 1)), known)?;
            }
            let early = self.earlier(known);
            let (entries, solved) = (self.rows(column, early.clone()), self.rows(x, early));
            worker.gemm(own, -T::ONE, entries, self.op, solved);
            for q in known..p {
                worker.wait(solved_rows, worker.owner(self.tile(q)), q + 1)?;
                let (entries, solved) = (self.own(column, q), self.own(x, q));
                worker.gemm(own, -T::ONE, entries, self.op, solved);
            }
            worker.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
            worker.announce(solved_rows, p + 1);
        }
        Ok(())
    }
}
