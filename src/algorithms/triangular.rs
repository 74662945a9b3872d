//! `op(T) X = B` with a triangle T of a column-distributed matrix. All workers share a few
//! right-hand sides; many right-hand sides are distributed to the workers.
//!
//! Each tile column of T is on one rank, which determines the substitution. With T itself, x_k
//! times its tile column is subtracted from the unsolved rows. With the transpose, row k of op(T)
//! is tile column k, and x_k collects the contributions of the solved rows.

use std::ops::Range;

use crate::comm::{Phase, Signal, Step};
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::{GlobalRow, TileColumn, TileRow};
use crate::matrix::{Blocks, Cells, DistMatrix};
use crate::scalar::Scalar;

/// op(T), T a triangle of `a`.
pub struct Triangular<'a, T> {
    pub a: &'a DistMatrix<'a, T>,
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

    /// The rows of some tile rows.
    fn range(&self, tiles: Range<TileRow>) -> Range<GlobalRow> {
        let rows = self.a.rows();
        rows.start(tiles.start)..rows.start(tiles.end)
    }

    /// The same of a view of n rows.
    fn rows<'v>(&self, m: Cells<'v, T>, tiles: Range<TileRow>) -> Cells<'v, T> {
        m.matrix_rows(self.range(tiles))
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

    /// Solves for the right-hand sides in `x` (n x k) with one worker. T must be complete before. All
    /// ranks call this as often.
    pub fn solve_columns<W: Worker<T>>(&self, worker: &mut W, x: Cells<T>) -> Step {
        for p in 0..self.a.columns().count() {
            let (t, own) = (self.tile(p), self.own(x, p));
            let tiles = if self.op.transposes() { self.earlier(p + 1) } else { self.later(p) };
            let panel = worker.broadcast(self.a, t, self.range(tiles))?;
            worker.span("substitute", Some(t), |worker| {
                if self.op.transposes() {
                    let solved = self.range(self.earlier(p));
                    let (entries, solved) = (panel.rows(solved.clone()), x.matrix_rows(solved));
                    worker.gemm(own, -T::ONE, entries, self.op, solved);
                    worker.trsm(Side::Left, panel.diagonal(), self.triangle, self.op, own);
                } else {
                    worker.trsm(Side::Left, panel.diagonal(), self.triangle, self.op, own);
                    let rest = self.range(self.later(p + 1));
                    let (entries, rest) = (panel.rows(rest.clone()), x.matrix_rows(rest));
                    worker.gemm(rest, -T::ONE, entries, self.op, own);
                }
            });
        }
        Ok(())
    }

    /// Solves for the right-hand sides in `x` (n x k, k small) with all workers, which meet before.
    /// Every worker has a block of the same right-hand sides. `sums` (n x k) are their scratch.
    /// A worker's block has then the rows of its own tiles.
    pub fn solve_shared<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: &Blocks<T>,
        sums: &Blocks<T>,
    ) -> Step {
        worker.barrier()?;
        let columns = self.a.columns();
        let owned = (0..columns.count()).filter(|&p| worker.owns(columns, self.tile(p))).collect();
        if self.op.transposes() {
            let solved = worker.phase(Signal::Solved);
            self.collect(worker, x, owned, &solved)
        } else {
            let partial_sums = worker.phase(Signal::PartialSums);
            self.distribute(worker, x.own(), sums, owned, &partial_sums)
        }
    }

    /// The owner of a tile collects the workers' sums for its rows and solves. It adds its
    /// contribution to the following rows, those of the next tiles first because their owners wait.
    fn distribute<W: Worker<T>>(
        &self,
        worker: &mut W,
        x: Cells<T>,
        sums: &Blocks<T>,
        owned: Vec<usize>,
        partial_sums: &Phase,
    ) -> Step {
        let (workers, count) = (worker.workers(), self.a.columns().count());
        let mine = sums.own();
        worker.clear(mine);
        worker.announce(partial_sums, owned.first().map_or(count, |first| first + 1));
        for (i, &p) in owned.iter().enumerate() {
            let t = self.tile(p);
            let (column, own) = (self.a.tile_column(t), self.own(x, p));
            let rows = self.a.rows().range(t.row());
            for other in 0..workers {
                worker.span("wait for sums", Some(t), |w| w.wait(partial_sums, other, p + 1))?;
                let sum = worker.fetch(sums.of(other).matrix_rows(rows.clone()))?;
                worker.add(own, sum);
            }
            worker.span("substitute", Some(t), |worker| {
                worker.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
                let urgent = owned.get(i + 1).map_or(count - 1, |next| *next);
                for q in p + 1..=urgent {
                    let (to, entries) = (self.own(mine, q), self.own(column, q));
                    worker.gemm(to, -T::ONE, entries, self.op, own);
                    worker.announce(partial_sums, q + 1);
                }
                let rest = self.later(urgent + 1);
                let to = self.rows(mine, rest.clone());
                worker.gemm(to, -T::ONE, self.rows(column, rest), self.op, own);
            });
        }
        Ok(())
    }

    /// The owner of a tile holds a whole row of op(T). It waits for no sums, only for solved rows.
    fn collect<W: Worker<T>>(
        &self,
        worker: &mut W,
        blocks: &Blocks<T>,
        owned: Vec<usize>,
        solved_rows: &Phase,
    ) -> Step {
        let (columns, x, mut known) = (self.a.columns(), blocks.own(), 0);
        for p in owned {
            let t = self.tile(p);
            let (column, own) = (self.a.tile_column(t), self.own(x, p));
            let early = self.earlier(known);
            let (entries, solved) = (self.rows(column, early.clone()), self.rows(x, early));
            worker.span("substitute", Some(t), |w| w.gemm(own, -T::ONE, entries, self.op, solved));
            for q in known..p {
                let owner = worker.owner(columns, self.tile(q));
                worker.span("wait for rows", Some(t), |w| w.wait(solved_rows, owner, q + 1))?;
                let rows = self.a.rows().range(self.tile(q).row());
                let (entries, solved) = (self.own(column, q), self.own(x, q));
                worker.receive(blocks.of(owner).matrix_rows(rows), solved);
                let op = self.op;
                worker.span("substitute", Some(t), |w| w.gemm(own, -T::ONE, entries, op, solved));
            }
            worker.span("substitute", Some(t), |w| {
                w.trsm(Side::Left, self.a.diagonal(t), self.triangle, self.op, own);
            });
            worker.announce(solved_rows, p + 1);
            // Of the rows up to this one, the worker itself has solved the last.
            known = p + 1;
        }
        Ok(())
    }
}
