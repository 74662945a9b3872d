//! The triangle R of a tall matrix A = Q R whose rows are distributed, without Q (TSQR; Demmel,
//! Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012).
//!
//! ```text
//! [R; C] <- Q^H [R; C]   for some rows C of a worker's at a time, into the triangle R of its group
//! [R; S] <- Q^H [R; S]   S the triangle of another group, in pairs
//! ```
//! A is read once, and neither written nor copied as a whole. Right-hand sides are more columns on its
//! right: [A B] = Q [R Z; 0 W], where Z is Q^H B. W, of which only the norms of columns are kept, has
//! the norms of the residuals.
//!
//! Workers of a group reduce their rows into one triangle, in turn at each of its blocks of rows
//! (`groups.rs`). So many workers need no more memory than one.

use super::groups::{Groups, Turns};
use super::lines::Lines;
use super::pairs::{expect_running, follower, joins};
use super::stack::{CHUNK, Stack, rows_of_rank, steps};
use crate::comm::Step;
use crate::device::{Op, Side, Squares, Triangle, Worker};
use crate::matrix::{Blocks, Cells};
use crate::scalar::Scalar;

/// A CPU worker reduces at least so many rows at a time, whole units of the product kernel. For fewer
/// it reads the triangle more often.
const LEAST_ROWS: usize = 192;
/// The same of workers with one triangle, whose rows are then most of the scratch.
const LEAST_SHARED: usize = 144;
/// Of float32 twice as many take the same time.
const LEAST_OF_FLOAT32: usize = 288;

/// The most workers on a CPU for `rows` of A with blocks of `width` rows and elements of `size` bytes:
/// one for each 2 n rows, and more that share their triangles, until the rows in work are an eighth of A.
/// Below 2 n rows there is one. So processes that have the same square A get the same bits, whatever their
/// threads.
pub fn most_workers(rows: usize, order: usize, width: usize, size: usize) -> usize {
    let triangles = rows / (2 * order.max(1));
    let at_a_time = if size < 8 { LEAST_OF_FLOAT32 } else { LEAST_SHARED };
    let sharing = triangles * Groups::most(order.div_ceil(width.max(1)));
    sharing.min(rows.div_ceil(8 * at_a_time)).max(triangles).max(1)
}

/// The rows of a call and of its workers.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Rows of A.
    pub rows: usize,
    /// Columns of A.
    pub order: usize,
    /// Right-hand sides.
    pub sides: usize,
    pub workers: usize,
    /// Bytes of an element.
    pub size: usize,
    pub is_rank: bool,
}

/// The scratch of a call: triangles with Z on their right, by blocks of rows, and rows to reduce.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    order: usize,
    columns: usize,
    /// Rows of a block of a triangle.
    width: usize,
    pub groups: Groups,
    stack: Stack,
    /// Elements that the device needs.
    room: usize,
    is_rank: bool,
}

/// A worker's view of that scratch: the triangle of each worker's group, and its own rows.
pub struct Parts<'c, T> {
    pub triangles: Blocks<'c, T>,
    pub own: Cells<'c, T>,
}

impl Scratch {
    /// For blocks of `width` rows of a triangle, and so many elements that the device needs.
    pub fn new(of: Extent, width: usize, room: usize) -> Scratch {
        let Extent { rows, order, sides, workers, size, is_rank } = of;
        let (columns, most) = (order + sides, rows.div_ceil(workers));
        let (stack, groups) = match is_rank {
            true => {
                let rows = rows_of_rank(columns, most);
                (Stack::new(order, rows, columns), Groups::alone(workers))
            }
            false => {
                let groups = Groups::new(workers, order.div_ceil(width.max(1)));
                let least = match groups.count() < workers {
                    _ if size < 8 => LEAST_OF_FLOAT32,
                    true => LEAST_SHARED,
                    false => LEAST_ROWS,
                };
                let rows = (CHUNK / columns.max(1)).max(least).min(most.max(1)).max(width);
                (Stack::new(0, rows, columns), groups)
            }
        };
        Scratch { order, columns, width, groups, stack, room, is_rank }
    }

    /// Elements of all triangles where workers share memory, and of a worker's own scratch.
    pub fn elements(&self) -> [usize; 2] {
        let triangles = if self.is_rank { 0 } else { self.groups.count() * self.of_triangle() };
        [triangles, self.stack.elements(self.room)]
    }

    /// Elements of a triangle.
    pub fn of_triangle(&self) -> usize {
        self.blocks().map(|(first, k)| k * (self.columns - first)).sum()
    }

    /// The triangle in a worker's own scratch, where workers share none.
    pub fn own_triangle<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.sub(0, 0, self.stack.leading() * self.columns, 1)
    }

    /// Shapes (rows, columns, leading dimension) that `reduce` gives a device, for so many rows of A.
    pub fn shapes(&self, rows: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        self.stack.shapes(rows)
    }

    /// The first rows of blocks, and their numbers.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + use<> {
        steps(self.order, self.width)
    }

    /// `k` rows of a triangle from row `first` on, without the zeros on their left.
    fn block<'c, T>(&self, triangle: Cells<'c, T>, (first, k): (usize, usize)) -> Cells<'c, T> {
        if self.is_rank {
            return self.stack.triangle(triangle).sub(first, first, k, self.columns - first);
        }
        let before: usize = self
            .blocks()
            .take_while(|&(at, _)| at < first)
            .map(|(at, k)| k * (self.columns - at))
            .sum();
        triangle.rows_from(before).by_columns(k, self.columns - first, k)
    }

    /// The blocks of R and Z, each without the zeros on its left.
    pub fn blocks_of<'c, T>(&self, triangle: Cells<'c, T>) -> impl Iterator<Item = Cells<'c, T>> {
        self.blocks().map(move |at| self.block(triangle, at))
    }

    /// The same of R alone.
    pub fn blocks_of_r<'c, T>(&self, triangle: Cells<'c, T>) -> Vec<Cells<'c, T>> {
        let sides = self.columns - self.order;
        self.blocks_of(triangle).map(|c| c.sub(0, 0, c.rows(), c.cols() - sides)).collect()
    }

    /// Copies R.
    pub fn copy_r<T: Scalar, W: Worker<T>>(
        &self,
        worker: &mut W,
        triangle: Cells<T>,
        to: Cells<T>,
    ) {
        for ((first, k), block) in self.blocks().zip(self.blocks_of_r(triangle)) {
            worker.clear(to.sub(first, 0, k, first));
            worker.copy(block, to.sub(first, first, k, self.order - first));
        }
    }

    /// Copies Z.
    pub fn copy_z<T: Scalar, W: Worker<T>>(
        &self,
        worker: &mut W,
        triangle: Cells<T>,
        to: Cells<T>,
    ) {
        let sides = self.columns - self.order;
        for ((first, k), block) in self.blocks().zip(self.blocks_of(triangle)) {
            worker.copy(block.sub(0, self.order - first, k, sides), to.sub(first, 0, k, sides));
        }
    }

    /// `Z <- R^-1 Z`.
    pub fn solve<T: Scalar, W: Worker<T>>(&self, worker: &mut W, triangle: Cells<T>) {
        let sides = self.columns - self.order;
        let z =
            |at: (usize, usize)| self.block(triangle, at).sub(0, self.order - at.0, at.1, sides);
        for (first, k) in self.blocks().rev() {
            let r = self.block(triangle, (first, k));
            for (other, count) in self.blocks().filter(|&(other, _)| other > first) {
                let part = r.sub(0, other - first, k, count);
                worker.gemm(z((first, k)), -T::ONE, part, Op::None, z((other, count)));
            }
            let diagonal = r.sub(0, 0, k, k);
            worker.trsm(Side::Left, diagonal, Triangle::Upper, Op::None, z((first, k)));
        }
    }
}

/// A worker's rows of A, and those of B.
#[derive(Debug)]
pub struct Rows<'c, T> {
    pub a: Lines<'c, T>,
    pub b: Lines<'c, T>,
    /// The most rows of a worker.
    pub most: usize,
}

/// The triangle of [A; sqrt(`ridge`) I]. Reduces this worker's `rows`, and joins the triangles of
/// all groups to that of the first. Ranks all get it. All workers get the squares of each residual.
pub fn reduce<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    rows: &Rows<'c, T>,
    ridge: f64,
    parts: &Parts<T>,
    of: Scratch,
) -> Step<Vec<Squares>> {
    let Scratch { order: n, columns: all, stack, .. } = of;
    let (triangle, mut turns) = (parts.triangles.own(), Turns::new(worker, of.groups));
    let mut squares = vec![Squares::default(); all - n];
    if turns.is_first() {
        for (first, k) in of.blocks() {
            let block = of.block(triangle, (first, k));
            worker.clear(block);
            if ridge != 0.0 && worker.worker() == 0 {
                let root = vec![T::from_f64_impl(ridge.sqrt()); k];
                worker.put(&root, block.sub(0, 0, k, k).diagonal());
            }
        }
    }
    for round in 0..rows.most.div_ceil(stack.rows()) {
        expect_running(worker)?;
        let count = rows.a.count();
        let at = |round: usize| (round * stack.rows()).min(count);
        let range = at(round)..at(round + 1);
        let chunk = stack.below(parts.own, range.len());
        rows.a.read(worker, range.clone(), chunk.sub(0, 0, chunk.rows(), n));
        rows.b.read(worker, range, chunk.sub(0, n, chunk.rows(), all - n));
        take_up(worker, &mut turns, chunk, 0, parts, of)?;
        add(worker, &mut squares, chunk, n)?;
    }
    for join in 0..joins(of.groups.count()) {
        worker.barrier()?;
        turns = Turns::new(worker, of.groups);
        let Some(other) = follower(turns.group(), of.groups.count(), join) else { continue };
        let other = of.groups.first(other);
        // Whole blocks of rows.
        let at_once = (stack.rows() / of.width.max(1)).max(1) * of.width.max(1);
        let pieces: Vec<_> = steps(n, at_once).collect();
        for round in 0..pieces.len().div_ceil(turns.members()) {
            let piece = pieces.get(round * turns.members() + turns.member());
            let (first, count) = piece.copied().unwrap_or((n, 0));
            let chunk = stack.below(parts.own, count).sub(0, first, count, all - first);
            worker.clear(chunk);
            for at in of.blocks().filter(|&(at, _)| (first..first + count).contains(&at)) {
                let to = chunk.sub(at.0 - first, at.0 - first, at.1, all - at.0);
                worker.receive(parts.triangles.part(|one| of.block(one, at)).of(other), to);
            }
            take_up(worker, &mut turns, chunk, first, parts, of)?;
            add(worker, &mut squares, chunk, n - first)?;
        }
    }
    add_up(worker, &mut squares)?;
    match W::IS_RANK {
        true => worker.replicate(&parts.triangles.part(|one| stack.triangle(one)), 0)?,
        false => worker.barrier()?,
    }
    Ok(squares)
}

/// Reduces some rows, from column `from` on, into the triangle of the group.
fn take_up<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    turns: &mut Turns,
    chunk: Cells<T>,
    from: usize,
    parts: &Parts<T>,
    of: Scratch,
) -> Step {
    let (room, coefficients) = (of.stack.room(parts.own), of.stack.coefficients(parts.own));
    for (first, k) in of.blocks() {
        turns.wait(worker)?;
        if first >= from && chunk.rows() > 0 {
            let right = chunk.sub(0, first - from, chunk.rows(), of.columns - first);
            let block = of.block(parts.triangles.own(), (first, k));
            worker.span("reduce", None, |w| w.reduce(block, right, coefficients, room));
        }
        turns.announce(worker);
    }
    Ok(())
}

/// Adds the squares of what is left of right-hand sides.
fn add<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    squares: &mut [Squares],
    chunk: Cells<T>,
    first: usize,
) -> Step {
    for (j, sum) in squares.iter_mut().enumerate() {
        *sum = sum.and(worker.squares(chunk.column(first + j))?);
    }
    Ok(())
}

/// The squares of the columns of B - A X, for all rows of all workers. `x` is there for each worker,
/// and the scratch is free.
pub fn residuals<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    rows: &Rows<'c, T>,
    x: Cells<T>,
    parts: &Parts<T>,
    of: Scratch,
) -> Step<Vec<Squares>> {
    let Scratch { order: n, columns: all, stack, .. } = of;
    let mut squares = vec![Squares::default(); all - n];
    for (first, count) in steps(rows.a.count(), stack.rows()) {
        expect_running(worker)?;
        let rest = stack.below(parts.own, count).sub(0, n, count, all - n);
        worker.span("residual", None, |w| {
            let range = first..first + count;
            rows.b.read(w, range.clone(), rest);
            for (a, at) in rows.a.parts(range) {
                w.gemm(rest.sub(at, 0, a.rows(), all - n), -T::ONE, a, Op::None, x);
            }
        });
        add(worker, &mut squares, rest, 0)?;
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
