//! The triangle R of a tall matrix A = Q R whose rows are distributed, without Q (TSQR; Demmel,
//! Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012).
//!
//! ```text
//! [R; C] <- Q^H [R; C]   for some rows C of the worker's at a time, into its own triangle R
//! [R; S] <- Q^H [R; S]   S the triangle of another worker, in pairs
//! ```
//! A is read once, and neither written nor copied as a whole. Right-hand sides are more columns on its
//! right: [A B] = Q [R Z; 0 W], where Z is Q^H B. W, of which only the norms of columns are kept, has
//! the norms of the residuals.

use super::pairs::{expect_running, follower, joins};
use crate::comm::Step;
use crate::device::{Op, Squares, Worker};
use crate::matrix::{Blocks, Cells};
use crate::scalar::Scalar;

/// Elements of the rows that a CPU worker reduces at a time: with the triangle's part they stay in
/// its caches.
const CHUNK: usize = 32 << 10;
const LEAST_ROWS: usize = 64;
/// The same of a device, whose library factors large matrices faster.
const LEAST_ON_DEVICE: usize = 4096;

/// A worker's scratch: a triangle with Z on its right, the rows to reduce below it, and room for the
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Columns of A.
    order: usize,
    /// Those and right-hand sides.
    columns: usize,
    /// Rows that are reduced at a time.
    rows: usize,
    leading: usize,
}

impl Stack {
    /// For `order` columns of A and `sides` right-hand sides, with at most `most` rows on a rank.
    pub fn new(order: usize, sides: usize, most: usize, is_rank: bool) -> Stack {
        let columns = order + sides;
        let rows = match is_rank {
            // It joins whole triangles. Right-hand sides become one, too.
            true => (4 * columns).max(LEAST_ON_DEVICE).min(most.max(columns).max(1)),
            false => (CHUNK / columns.max(1)).max(order / 2).max(LEAST_ROWS).min(most.max(1)),
        };
        Stack { order, columns, rows, leading: leading(order + rows) }
    }

    /// The same with so many rows below the triangle, or more.
    pub fn with_rows(self, least: usize) -> Stack {
        let rows = self.rows.max(least);
        Stack { rows, leading: leading(self.order + rows), ..self }
    }

    /// Elements of the scratch; `room` are those that the device needs.
    pub fn elements(&self, room: usize) -> usize {
        (self.leading + 1) * self.columns + room
    }

    /// Rows that are reduced at a time.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The leading dimension of the triangle with the rows below it.
    pub fn leading(&self) -> usize {
        self.leading
    }

    /// Shapes (rows, columns, leading dimension) that `reduce` gives the device, for so many rows of
    /// A on each.
    pub fn shapes(self, rows: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let chunks = [rows.min(self.rows), rows % self.rows];
        let Stack { order, columns, leading, .. } = self;
        let all = chunks.into_iter().chain([order]);
        all.filter(|&rows| rows > 0).map(move |rows| (order + rows, columns, leading))
    }

    pub(super) fn whole<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.by_columns(self.order + self.rows, self.columns, self.leading)
    }

    /// The triangle R, and Z.
    pub fn triangle<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        self.whole(scratch).sub(0, 0, self.order, self.columns)
    }

    /// The reflectors' coefficients, where nobody keeps them.
    fn coefficients<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.sub(self.leading * self.columns, 0, self.columns, 1)
    }

    /// The room of the device.
    pub(super) fn room<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.rows_from((self.leading + 1) * self.columns)
    }
}

/// An odd number of lines, because columns a power of two apart share few cache sets.
fn leading(rows: usize) -> usize {
    (rows.div_ceil(8) | 1) * 8
}

/// Rows of A, transposed, and the same rows of B.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'c, T> {
    pub a: Cells<'c, T>,
    pub b: Cells<'c, T>,
}

/// The triangle of [A; sqrt(`ridge`) I]. Reduces this worker's `lines`, and joins the triangles of
/// all workers to that of worker 0. Ranks all get it. `scratch` is that of each worker, as `stack`
/// says. All workers get the squares of each residual.
pub fn reduce<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    lines: impl Iterator<Item = Lines<'c, T>>,
    ridge: f64,
    scratch: &Blocks<T>,
    stack: Stack,
) -> Step<Vec<Squares>> {
    let (own, room) = (stack.whole(scratch.own()), stack.room(scratch.own()));
    let coefficients = stack.coefficients(scratch.own());
    let Stack { order: n, columns: all, .. } = stack;
    let mut squares = vec![Squares::default(); all - n];
    let mut add = |worker: &mut W, rows: usize| -> Step {
        for (j, sum) in squares.iter_mut().enumerate() {
            *sum = sum.and(worker.squares(own.sub(n, n + j, rows, 1))?);
        }
        Ok(())
    };
    worker.clear(own.sub(0, 0, n, all));
    if ridge != 0.0 && worker.worker() == 0 {
        worker.put(&vec![T::from_f64_impl(ridge.sqrt()); n], own.sub(0, 0, n, n).diagonal());
    }
    for Lines { a, b } in lines {
        for first in (0..a.cols()).step_by(stack.rows) {
            let rows = stack.rows.min(a.cols() - first);
            expect_running(worker)?;
            let chunk = own.sub(n, 0, rows, all);
            let [of_a, of_b] = [chunk.sub(0, 0, rows, n), chunk.sub(0, n, rows, all - n)];
            worker.span("read rows", None, |w| {
                w.copy(a.sub(0, first, n, rows).transposed(), of_a);
                if all > n {
                    w.copy(b.sub(first, 0, rows, all - n), of_b);
                }
            });
            let both = own.sub(0, 0, n + rows, all);
            worker.span("reduce", None, |w| w.reduce(both, n, coefficients, room));
            add(worker, rows)?;
        }
    }
    for join in 0..joins(worker.workers()) {
        worker.barrier()?;
        if let Some(other) = follower(worker, join) {
            for first in (0..n).step_by(stack.rows) {
                let (rows, order) = (stack.rows.min(n - first), n - first);
                let part = |one| stack.whole(one).sub(first, first, rows, all - first);
                let there = scratch.part(part).of(other);
                worker.receive(there, own.sub(n, first, rows, all - first));
                let both = own.sub(first, first, order + rows, all - first);
                worker.span("join", None, |w| w.reduce(both, order, coefficients, room));
                add(worker, rows)?;
            }
        }
    }
    add_up(worker, &mut squares)?;
    if W::IS_RANK {
        worker.replicate(&scratch.part(|one| stack.triangle(one)), 0)?;
    }
    Ok(squares)
}

/// The squares of the columns of B - A X, for all rows of all workers. `x` is there for each worker,
/// and the scratch is free.
pub fn residuals<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    lines: impl Iterator<Item = Lines<'c, T>>,
    x: Cells<T>,
    scratch: &Blocks<T>,
    stack: Stack,
) -> Step<Vec<Squares>> {
    let (own, n, sides) = (stack.whole(scratch.own()), stack.order, stack.columns - stack.order);
    let mut squares = vec![Squares::default(); sides];
    for Lines { a, b } in lines {
        for first in (0..a.cols()).step_by(stack.rows) {
            let rows = stack.rows.min(a.cols() - first);
            expect_running(worker)?;
            let rest = own.sub(n, n, rows, sides);
            worker.span("residual", None, |w| {
                w.copy(b.sub(first, 0, rows, sides), rest);
                w.gemm(rest, -T::ONE, a.sub(0, first, n, rows).transposed(), Op::None, x);
            });
            for (j, sum) in squares.iter_mut().enumerate() {
                *sum = sum.and(worker.squares(rest.sub(0, j, rows, 1))?);
            }
        }
    }
    add_up(worker, &mut squares)?;
    Ok(squares)
}

/// The sums of all workers.
fn add_up<T: Scalar, W: Worker<T>>(worker: &mut W, squares: &mut [Squares]) -> Step {
    for sum in squares {
        let Squares { small, medium, large } = *sum;
        let [small, medium, large] = worker.all_reduce([small, medium, large], |x, y| x + y)?;
        *sum = Squares { small, medium, large };
    }
    Ok(())
}
