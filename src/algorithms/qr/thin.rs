//! Q and R of a tall matrix whose rows are distributed, Q in its memory: TSQR that keeps its
//! reflectors (Demmel, Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012).
//!
//! ```text
//! C = Q [R; 0]             C the first of a worker's rows; V overwrites C
//! [R; C]  <- Q^H [R; C]    C the others, some at a time; V overwrites C
//! [R; S]  <- Q^H [R; S]    S the triangle of another worker, in pairs; V overwrites S
//! [A1; R] <- Q^H [A1; R]   A1 the first n rows of A, which take no part before, by worker 0
//! ```
//! A reflector depends on the rows below the first n by their norms alone. So the last step has the
//! reflectors that LAPACK would have in these rows, with their signs, and R does not depend on how A
//! is distributed. The columns of Q are made in the reverse order: [W; 0] <- Q [W; 0], where W is a
//! triangle, too. No triangle begins as zeros: Q would have rows for these, if A has not full rank.
//! V of all rows takes the place of Q if W is first multiplied by U^-1 (`reconstruct.rs`).

use std::ops::Range;

use super::lines::Lines;
use super::pairs::{expect_running, follower, joins, leader};
use super::reconstruct::reconstruct;
use super::stack::{CHUNK, Stack, rows_of_rank, steps};
use crate::comm::Step;
use crate::device::reflectors::{apply, triangle_of};
use crate::device::{Op, Reflectors, Triangle, Worker};
use crate::matrix::{Blocks, Cells};
use crate::scalar::Scalar;

/// Rows that a CPU worker reduces at a time, at least.
const LEAST_ROWS: usize = 64;
/// Columns of a panel of CPU workers, for which T is made again. Ranks have few large products.
const PANEL: usize = 32;

/// The rows of a call and of its workers.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Columns of A.
    pub order: usize,
    /// The most rows of a worker, without the first n.
    pub most: usize,
    /// Those of worker 0.
    pub first: usize,
    pub workers: usize,
    pub is_rank: bool,
}

/// A worker's scratch: a triangle with rows below it, coefficients of all reflectors, and a panel.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    of: Extent,
    stack: Stack,
    /// Columns of a panel.
    width: usize,
    /// Columns that are reduced at a time.
    reduced: usize,
    /// Elements that the device needs.
    room: usize,
}

impl Scratch {
    /// `reduced` are the columns that the device reduces at a time, `room` the elements that it needs.
    pub fn new(of: Extent, reduced: usize, room: usize) -> Scratch {
        let Extent { order, most, is_rank, .. } = of;
        // Worker 0 may have rows of its own in the last step.
        let rows = match is_rank {
            true => rows_of_rank(order, most).max(2 * order),
            false => {
                let rows = (CHUNK / order.max(1)).max(order / 2).max(LEAST_ROWS);
                rows.min(most.max(1)).max(order)
            }
        };
        let stack = Stack::new(order, rows, order);
        let width = if is_rank { order } else { PANEL.min(order) };
        // A panel needs three squares.
        Scratch { of, stack, width, reduced, room: room.max(3 * width * width) }
    }

    pub fn elements(&self) -> usize {
        let products = self.width * self.width + 2 * self.width * self.of.order;
        self.at_panel() + self.panel_rows() * self.width + products
    }

    /// Shapes (rows, columns, leading dimension) that ranks factor.
    pub fn shapes(&self) -> Vec<(usize, usize, usize)> {
        let (n, most) = (self.of.order, self.stack.rows());
        let of_rank = [self.of.most, self.of.first].into_iter().flat_map(|rows| {
            let base = self.base(rows);
            let rest = (rows - base) % most;
            [base, n + most.min(rows), n + rest]
        });
        let rows = of_rank.chain([2 * n, self.last_rows()]).filter(|&rows| rows > 0);
        rows.map(|rows| (rows, n, self.stack.leading())).collect()
    }

    /// The triangle of a worker: R of worker 0 in the end, with V below its diagonal.
    pub fn triangle<'c, T>(&self, own: Cells<'c, T>) -> Cells<'c, T> {
        self.stack.triangle(own)
    }

    /// Whether worker 0 has too few rows for a triangle before the last step.
    fn first_has_none(&self) -> bool {
        self.of.first < self.of.order
    }

    /// The rows that a worker with so many factors first; none if there are too few.
    fn base(&self, rows: usize) -> usize {
        if rows < self.of.order { 0 } else { rows.min(self.stack.rows()) }
    }

    /// Rows of the last step: A1, the triangle if there is one, and rows of worker 0 if it has none.
    fn last_rows(&self) -> usize {
        let Extent { order, first, .. } = self.of;
        order + self.last_triangle() + if self.first_has_none() { first } else { 0 }
    }

    fn last_triangle(&self) -> usize {
        if self.first_has_none() && self.of.workers == 1 { 0 } else { self.of.order }
    }

    fn joins(&self) -> usize {
        joins(self.of.workers)
    }

    fn at_coefficients(&self) -> usize {
        self.stack.elements(self.room)
    }

    fn at_panel(&self) -> usize {
        let chunks = self.of.most.div_ceil(self.stack.rows());
        self.at_coefficients() + self.of_chunk(chunks) * self.of.order
    }

    fn panel_rows(&self) -> usize {
        self.of.order + self.stack.rows()
    }

    /// The coefficients of a step: those of joins come first, and of the last step.
    fn coefficients<'c, T>(&self, own: Cells<'c, T>, step: usize) -> Cells<'c, T> {
        let first = self.at_coefficients() + step * self.of.order;
        assert!(first + self.of.order <= self.at_panel(), "a step");
        own.sub(first, 0, self.of.order, 1)
    }

    fn of_chunk(&self, chunk: usize) -> usize {
        self.joins() + 1 + chunk
    }

    fn room<'c, T>(&self, own: Cells<'c, T>) -> Cells<'c, T> {
        self.stack.room(own).sub(0, 0, self.room, 1)
    }

    /// A copy of some columns of V.
    fn panel<'c, T>(&self, own: Cells<'c, T>, rows: usize, columns: usize) -> Cells<'c, T> {
        own.rows_from(self.at_panel()).by_columns(rows, columns, self.panel_rows())
    }

    /// T of a panel of `k` columns, and room for its products.
    fn products<'c, T>(&self, own: Cells<'c, T>, k: usize) -> (Cells<'c, T>, Cells<'c, T>) {
        let rest = own.rows_from(self.at_panel() + self.panel_rows() * self.width);
        (rest.by_columns(k, k, k), rest.rows_from(self.width * self.width))
    }

    /// Rows below the triangle.
    fn below<'c, T>(&self, own: Cells<'c, T>, rows: usize) -> Cells<'c, T> {
        self.stack.below(own, rows)
    }

    /// The rows of the last step, those of worker 0 among them, and the coefficients.
    fn last<'c, T>(&self, own: Cells<'c, T>) -> [Cells<'c, T>; 3] {
        let all = self.stack.whole(own).sub(0, 0, self.last_rows(), self.of.order);
        let rest = all.rows_from(self.of.order + self.last_triangle());
        [all, rest, self.coefficients(own, self.joins())]
    }

    /// The first columns of panels, and their numbers.
    fn panels(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + use<> {
        steps(self.of.order, self.width)
    }
}

/// Where a worker's rows are: some are factored first, and the others in chunks.
impl<'c, T: Scalar + 'c> Lines<'c, T> {
    /// The rows of a chunk.
    fn chunk(&self, of: Scratch, chunk: usize) -> Range<usize> {
        let (base, most) = (of.base(self.count()), of.stack.rows());
        let at = |chunk: usize| (base + chunk * most).min(self.count());
        at(chunk)..at(chunk + 1)
    }

    fn chunks(&self, of: Scratch) -> usize {
        (self.count() - of.base(self.count())).div_ceil(of.stack.rows())
    }
}

/// R, in the triangle of worker 0, with V below. `first` are the first n rows of A, transposed, for
/// worker 0. With `keeps` the rows become V; without it, they are only read.
pub fn factor<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    lines: &Lines<'c, T>,
    first: Option<Cells<T>>,
    scratch: &Blocks<T>,
    of: Scratch,
    keeps: bool,
) -> Step {
    let (own, n) = (scratch.own(), of.of.order);
    let triangle = of.triangle(own);
    let base = of.base(lines.count());
    if base > 0 {
        let here = of.below(own, base);
        lines.read(worker, 0..base, here);
        let coefficients = of.coefficients(own, of.of_chunk(0));
        worker.span("factor", None, |w| factor_rows(w, here, coefficients, own, of));
        if keeps {
            lines.write(worker, 0..base, here);
        }
        worker.copy(here.sub(0, 0, n, n), triangle);
        worker.clear_outside(triangle, Triangle::Upper);
        for i in 0..lines.chunks(of) {
            expect_running(worker)?;
            let rows = lines.chunk(of, i);
            let here = of.below(own, rows.len());
            lines.read(worker, rows.clone(), here);
            let coefficients = of.coefficients(own, of.of_chunk(i + 1));
            worker.span("reduce", None, |w| reduce(w, here, coefficients, own, of));
            if keeps {
                lines.write(worker, rows, here);
            }
        }
    }
    let triangles = scratch.part(|one| of.triangle(one));
    for join in 0..of.joins() {
        worker.barrier()?;
        let only_moves = join == 0 && of.first_has_none();
        match follower(worker.worker(), worker.workers(), join) {
            Some(other) if only_moves && worker.worker() == 0 => {
                worker.receive(triangles.of(other), triangle);
            }
            Some(other) => {
                let (here, coefficients) = (of.below(own, n), of.coefficients(own, join));
                worker.receive(triangles.of(other), here);
                worker.span("join", None, |w| reduce(w, here, coefficients, own, of));
            }
            None => {}
        }
        worker.barrier()?;
        if let Some(leader) =
            leader(worker.worker(), join).filter(|&leader| leader > 0 || !only_moves)
        {
            worker.receive(scratch.part(|one| of.below(one, n)).of(leader), triangle);
        }
    }
    // Nobody reads the rows below its triangle any more.
    worker.barrier()?;
    if let Some(first) = first {
        let [all, rest, coefficients] = of.last(own);
        if of.last_triangle() > 0 {
            worker.copy(triangle, of.below(own, n));
        }
        worker.copy(first.transposed(), triangle);
        if of.first_has_none() {
            lines.read(worker, 0..of.of.first, rest);
        }
        worker.span("last step", None, |w| factor_rows(w, all, coefficients, own, of));
    }
    Ok(())
}

/// The columns of Q, in place of `first` and of V in `lines`, after `factor` has kept these. With a
/// block `t` these become V of all rows, and that receives T of Q = I - V T V^H.
pub fn form<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    lines: &Lines<'c, T>,
    first: Option<Cells<T>>,
    scratch: &Blocks<T>,
    of: Scratch,
    t: Option<Cells<T>>,
) -> Step {
    let (own, n) = (scratch.own(), of.of.order);
    let triangle = of.triangle(own);
    if let Some(first) = first {
        let [all, rest, coefficients] = of.last(own);
        worker.span("first rows", None, |w| form_rows(w, all, None, coefficients, own, of));
        if let Some(t) = t {
            // All other rows of Q are products with what is below, so those of V are, too.
            let below = all.rows_from(n);
            worker.span("reflectors", None, |w| reconstruct(w, triangle, below, t))?;
        }
        worker.copy(triangle, first.transposed());
        if of.first_has_none() {
            lines.write(worker, 0..of.of.first, rest);
        }
        if of.last_triangle() > 0 {
            worker.copy(of.below(own, n), triangle);
        }
    }
    let triangles = scratch.part(|one| of.triangle(one));
    for join in (0..of.joins()).rev() {
        worker.barrier()?;
        let only_moves = join == 0 && of.first_has_none();
        let joined = follower(worker.worker(), worker.workers(), join)
            .filter(|_| worker.worker() > 0 || !only_moves);
        if let Some(other) = joined {
            let v = of.below(own, n);
            worker.receive(triangles.of(other), v);
            let coefficients = of.coefficients(own, join);
            worker.span("part", None, |w| expand(w, triangle, v, coefficients, own, of));
        }
        worker.barrier()?;
        if let Some(leader) = leader(worker.worker(), join) {
            let from = match only_moves && leader == 0 {
                true => triangles.of(leader),
                false => scratch.part(|one| of.below(one, n)).of(leader),
            };
            worker.receive(from, triangle);
        }
    }
    worker.barrier()?;
    let base = of.base(lines.count());
    if base == 0 {
        return Ok(());
    }
    for i in (0..lines.chunks(of)).rev() {
        expect_running(worker)?;
        let rows = lines.chunk(of, i);
        let v = of.below(own, rows.len());
        lines.read(worker, rows.clone(), v);
        let coefficients = of.coefficients(own, of.of_chunk(i + 1));
        worker.span("form rows", None, |w| expand(w, triangle, v, coefficients, own, of));
        lines.write(worker, rows, v);
    }
    let here = of.below(own, base);
    lines.read(worker, 0..base, here);
    let coefficients = of.coefficients(own, of.of_chunk(0));
    worker.span("form rows", None, |w| form_rows(w, here, Some(triangle), coefficients, own, of));
    lines.write(worker, 0..base, here);
    Ok(())
}

/// Reduces rows below the triangle into it. V overwrites them.
fn reduce<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    rows: Cells<T>,
    coefficients: Cells<T>,
    own: Cells<T>,
    of: Scratch,
) {
    let (triangle, n) = (of.triangle(own), of.of.order);
    for (first, k) in steps(n, of.reduced) {
        let block = triangle.sub(first, first, k, n - first);
        let right = rows.sub(0, first, rows.rows(), n - first);
        worker.reduce(block, right, coefficients.sub(first, 0, k, 1), of.room(own));
    }
}

/// `all = Q [R; 0]`, with V below R.
fn factor_rows<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    all: Cells<T>,
    coefficients: Cells<T>,
    own: Cells<T>,
    of: Scratch,
) {
    for (first, k) in of.panels() {
        let (rows, (t, products)) = (all.rows() - first, of.products(own, k));
        let panel = all.sub(first, first, rows, k);
        worker.geqrf(panel, coefficients.sub(first, 0, k, 1), t, of.room(own));
        let count = all.cols() - first - k;
        if count > 0 {
            let by = Reflectors::of(worker, panel, t, of.panel(own, k, k));
            apply(worker, by, Op::Adjoint, all.sub(first, first + k, rows, count).into(), products);
        }
    }
}

/// The columns Q [W; 0], or Q [I; 0] without a triangle W, in the memory of V.
fn form_rows<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    all: Cells<T>,
    triangle: Option<Cells<T>>,
    coefficients: Cells<T>,
    own: Cells<T>,
    of: Scratch,
) {
    let n = all.cols();
    for (first, k) in of.panels().rev() {
        let (rows, (t, products)) = (all.rows() - first, of.products(own, k));
        let panel = of.panel(own, rows, k);
        worker.copy(all.sub(first, first, rows, k), panel);
        let top = panel.sub(0, 0, k, k);
        worker.make_unit_lower(top);
        let by = Reflectors { top, below: panel.rows_from(k), t };
        triangle_of(worker, by, coefficients.sub(first, 0, k, 1), products);
        worker.clear(all.sub(0, first, all.rows(), k));
        match triangle {
            Some(w) => worker.copy(w.sub(0, first, n, k), all.sub(0, first, n, k)),
            None => worker.put(&vec![T::ONE; k], all.sub(first, first, k, k).diagonal()),
        }
        apply(worker, by, Op::None, all.sub(first, first, rows, n - first).into(), products);
    }
}

/// `[W; V] <- Q [W; 0]` for a triangle W and the reflectors V of rows that were reduced into it.
fn expand<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    triangle: Cells<T>,
    v: Cells<T>,
    coefficients: Cells<T>,
    own: Cells<T>,
    of: Scratch,
) {
    let (rows, n) = (v.rows(), v.cols());
    for (first, k) in of.panels().rev() {
        let (panel, (t, products)) = (of.panel(own, rows, k), of.products(own, k));
        worker.copy(v.sub(0, first, rows, k), panel);
        // The ones of V are in rows of W.
        let by = Reflectors { top: panel.sub(0, 0, 0, k), below: panel, t };
        triangle_of(worker, by, coefficients.sub(first, 0, k, 1), products);
        let count = n - first;
        let square = |at: usize| products.rows_from(at * k * count).by_columns(k, count, k);
        let (x, y) = (square(0), square(1));
        let of_w = triangle.sub(first, first, k, count);
        worker.copy(of_w, x);
        if count > k {
            let after = v.sub(0, first + k, rows, count - k);
            worker.gemm(x.sub(0, k, k, count - k), T::ONE, panel, Op::Adjoint, after);
        }
        worker.clear(y);
        worker.gemm(y, -T::ONE, t, Op::None, x);
        worker.add(of_w, y);
        worker.clear(v.sub(0, first, rows, k));
        worker.gemm(v.sub(0, first, rows, count), T::ONE, panel, Op::None, y);
    }
}
