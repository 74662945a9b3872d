//! A = Q B Q^H with a Hermitian band matrix B, the first of two stages to a tridiagonal one (Bischof,
//! Lang and Sun, ACM Trans. Math. Softw. 26, 2000). It works on the lower tiles of A, in place;
//! reflectors V remain below the band.
//!
//! ```text
//! for k:  A_k = V R below the band,  Q_k = I - V T V^H    panel k, by its owner
//!         P = A V                                         each worker from its own tile columns
//!         X = P T - V (T^H V^H P T) / 2                   each worker some rows
//!         A_ij -= V_i X_j^H + X_i V_j^H  for i >= j       by the owner of j, k+1 first
//! ```
//! A is there the trailing matrix, of which a tile column serves both halves. The owner of panel k+1
//! factors it before the rest of its updates. The workers' sums P are added in their order.
//!
//! The band is as wide as the widest tile column. Of a narrower one the trailing matrix begins a few
//! columns after the next tile column does. Q_k changes these columns from the left alone.

use std::ops::Range;

use super::Leading;
use crate::algorithms::qr::factor_columns;
use crate::comm::{Signal, Step};
use crate::device::{Band, Op, Reflectors, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Blocks, Cells};
use crate::scalar::Scalar;

/// Elements between columns of V, X and P, so that they are no power of two apart.
const MORE: usize = 16;
/// A worker's rows begin at multiples of this.
const ROW_MULTIPLE: usize = 16;
/// Squares of a worker's own scratch: its part of V^H P T, the sum of all, its product, and three to
/// factor a panel.
const SQUARES: usize = 6;

/// Sizes that decide how much scratch it needs.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The order of A with its padding.
    pub n: usize,
    /// The widest tile column.
    pub widest: usize,
    pub workers: usize,
    pub is_rank: bool,
}

impl Extent {
    /// V, X and sums P: one for each worker. Where workers share memory, the second one's is where X
    /// will be. A rank has its own, and that of all.
    fn strips(&self) -> usize {
        if self.is_rank { 4 } else { 1 + self.workers.max(2) }
    }

    /// Where a worker has its P, counted in strips. The first one's is where that of all will be.
    fn strip_of(&self, worker: usize) -> usize {
        match worker {
            _ if self.is_rank => SUM + 1,
            0 => SUM,
            1 => X,
            other => other + 1,
        }
    }

    fn square(&self) -> usize {
        self.widest * self.widest
    }

    /// Elements once in a memory, and for each worker there.
    pub fn elements(&self) -> [usize; 2] {
        let strips = (self.n + MORE) * self.widest * self.strips();
        let band = Band::<()>::rows(self.widest) * self.n;
        [(strips + 2 * self.square()).max(band), self.widest + SQUARES * self.square()]
    }
}

/// Strips.
const V: usize = 0;
const X: usize = 1;
const SUM: usize = 2;

/// The scratch of a reduction.
pub struct Scratch<'a, T> {
    of: Extent,
    shared: Blocks<'a, T>,
    own: Blocks<'a, T>,
}

impl<'a, T: Scalar> Scratch<'a, T> {
    /// `shared` and `own` have the elements for the extent.
    pub fn new(of: Extent, shared: Blocks<'a, T>, own: Blocks<'a, T>) -> Self {
        Scratch { of, shared, own }
    }

    /// A strip of m rows and k columns, as all workers have it.
    fn strip(&self, at: usize, m: usize, k: usize) -> Blocks<'a, T> {
        let (columns, leading) = (self.of.strips() * self.of.widest, self.of.n + MORE);
        let all = move |all: Cells<'a, T>| all.by_columns(self.of.n, columns, leading);
        self.shared.part(|shared| all(shared).sub(0, at * k, m, k))
    }

    /// T of a panel with k reflectors. The next panel has another place.
    fn triangle(&self, panel: TileColumn, k: usize) -> Blocks<'a, T> {
        let after = (self.of.n + MORE) * self.of.widest * self.of.strips();
        let at = after + panel.get() % 2 * self.of.square();
        self.shared.part(|shared| shared.sub(at, 0, k * k, 1).by_columns(k, k, k))
    }

    /// One of a worker's squares.
    fn square(&self, at: usize, k: usize) -> Blocks<'a, T> {
        let first = self.of.widest + at * self.of.square();
        self.own.part(|own| own.sub(first, 0, k * k, 1).by_columns(k, k, k))
    }

    /// Coefficients of reflectors, and the room to factor a panel.
    fn of_panel(&self, k: usize) -> (Cells<'a, T>, Cells<'a, T>) {
        let own = self.own.own();
        (own.sub(0, 0, k, 1), own.rows_from(self.of.widest + (SQUARES - 3) * self.of.square()))
    }

    /// The first row and column of the trailing matrix for a panel.
    fn top(&self, leading: &Leading<T>, panel: TileColumn) -> usize {
        leading.rows(panel).start + self.of.widest
    }

    /// A worker's tile.
    pub fn tile(&self) -> Cells<'a, T> {
        self.square(0, self.of.widest).own()
    }

    /// The band of the leading part of order n.
    pub fn band(&self, n: usize) -> Band<'a, T> {
        let all = self.bands().own();
        Band::new(all.sub(0, 0, all.rows(), n), self.of.widest)
    }

    /// The band, with all columns of the matrix.
    fn bands(&self) -> Blocks<'a, T> {
        let (rows, n) = (Band::<T>::rows(self.of.widest), self.of.n);
        self.shared.part(|shared| shared.sub(0, 0, rows * n, 1).by_columns(rows, n, rows))
    }
}

/// The rows of a worker, of so many. A rank has a copy of all.
fn share<T: Scalar, W: Worker<T>>(worker: &W, rows: usize) -> Range<usize> {
    if W::IS_RANK {
        return 0..rows;
    }
    let (units, workers) = (rows.div_ceil(ROW_MULTIPLE), worker.workers());
    let end = |worker: usize| (units * worker / workers * ROW_MULTIPLE).min(rows);
    end(worker.worker())..end(worker.worker() + 1)
}

/// A panel in work, with as many reflectors as `count`.
struct Panel<'s, 'a, T> {
    tile: TileColumn,
    /// The first row and column of the trailing matrix, and its order.
    top: usize,
    m: usize,
    count: usize,
    scratch: &'s Scratch<'a, T>,
}

impl<'s, 'a, T: Scalar> Panel<'s, 'a, T> {
    fn new(leading: &Leading<T>, tile: TileColumn, scratch: &'s Scratch<'a, T>) -> Self {
        let (top, width) = (scratch.top(leading, tile), leading.rows(tile).len());
        let m = leading.order() - top;
        Panel { tile, top, m, count: m.min(width), scratch }
    }

    fn strip(&self, at: usize) -> Blocks<'a, T> {
        self.scratch.strip(at, self.m, self.count)
    }

    /// A worker's part of A V, as all workers have it.
    fn part(&self, worker: usize) -> Blocks<'a, T> {
        self.strip(self.scratch.of.strip_of(worker))
    }

    fn v(&self) -> Cells<'a, T> {
        self.strip(V).own()
    }

    fn x(&self) -> Cells<'a, T> {
        self.strip(X).own()
    }

    fn t(&self) -> Blocks<'a, T> {
        self.scratch.triangle(self.tile, self.count)
    }

    fn reflectors(&self) -> Reflectors<'a, T> {
        let (v, k) = (self.v(), self.count);
        Reflectors { top: v.row_range(0..k), below: v.rows_from(k), t: self.t().own() }
    }
}

/// One worker's part. Tiles on the diagonal are complete. The band is in the scratch that the first
/// worker reaches. All workers meet at its end.
pub fn reduce_to_band<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    scratch: &Scratch<T>,
) -> Step {
    let a = leading.a();
    let announced = worker.phase(Signal::Panels);
    let is_reduced = |&t: &TileColumn| scratch.top(leading, t) < leading.order();
    let panels: Vec<_> = leading.tiles().take_while(is_reduced).collect();
    let factor = |worker: &mut W, t: TileColumn| {
        if t.get() < panels.len() && worker.owns(a.columns(), t) {
            factor_panel(worker, leading, &Panel::new(leading, t, scratch));
            worker.announce(&announced, t.get() + 1);
        }
    };
    factor(worker, TileColumn::new(0));
    for &k in &panels {
        let (owner, panel) = (worker.owner(a.columns(), k), Panel::new(leading, k, scratch));
        worker.span("wait for panel", Some(k), |w| w.wait(&announced, owner, k.get() + 1))?;
        copy_reflectors(worker, leading, &panel)?;
        multiply(worker, leading, &panel)?;
        make_x(worker, &panel)?;
        let own = leading.owned(worker, k + 1);
        let ahead = own.iter().take_while(|&&t| t == k + 1).count();
        update(worker, leading, &panel, &own[..ahead]);
        factor(worker, k + 1);
        update(worker, leading, &panel, &own[ahead..]);
        // V and X are in use up to here.
        worker.barrier()?;
        worker.progress(k.get() + 1, panels.len());
    }
    gather(worker, leading, scratch)
}

fn factor_panel<T: Scalar, W: Worker<T>>(worker: &mut W, leading: &Leading<T>, panel: &Panel<T>) {
    let columns = leading.column(panel.tile, panel.top);
    let (coefficients, room) = panel.scratch.of_panel(panel.count);
    let triangle = panel.t().own();
    worker.span("geqrf panel", Some(panel.tile), |w| {
        factor_columns(w, columns, coefficients, triangle, room);
    });
}

/// V with its ones, and zeros above them, and T. All workers meet at its end.
fn copy_reflectors<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panel: &Panel<T>,
) -> Step {
    let (a, v, t) = (leading.a(), panel.v(), panel.t());
    worker.receive(t.of(worker.owner(a.columns(), panel.tile)), t.own());
    let rows = GlobalRow::new(panel.top)..GlobalRow::new(leading.order());
    let from = worker.broadcast(a, panel.tile, rows.clone())?.rows(rows);
    let from = from.sub(0, 0, panel.m, panel.count);
    // The rows with the ones go to the first worker. Others may have no rows, from row 0 on.
    let (mut mine, is_first) = (share(worker, panel.m), W::IS_RANK || worker.worker() == 0);
    match is_first {
        true => mine.end = mine.end.max(panel.count),
        false => mine.start = mine.start.max(panel.count),
    }
    if mine.start < mine.end {
        worker.copy(from.row_range(mine.clone()), v.row_range(mine.clone()));
    }
    if is_first {
        worker.make_unit_lower(v.row_range(0..panel.count));
    }
    worker.clear(panel.part(worker.worker()).own());
    worker.barrier()
}

/// This worker's part of A V. All workers meet at its end.
fn multiply<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panel: &Panel<T>,
) -> Step {
    let (part, v) = (panel.part(worker.worker()).own(), panel.v());
    let tiles = leading.owned(worker, panel.tile + 1);
    worker.span("multiply", Some(panel.tile), |w| {
        for (first, column) in tiles.into_iter().filter_map(|t| leading.trailing(t, panel.top)) {
            let next = first + column.cols();
            w.gemm(part.rows_from(first), T::ONE, column, Op::None, v.row_range(first..next));
            let below = column.rows_from(next - first);
            w.gemm(part.row_range(first..next), T::ONE, below, Op::Adjoint, v.rows_from(next));
        }
    });
    worker.barrier()
}

/// X, of which each worker makes some rows. All workers meet at its end.
fn make_x<T: Scalar, W: Worker<T>>(worker: &mut W, panel: &Panel<T>) -> Step {
    let (mine, workers) = (share(worker, panel.m), worker.workers());
    let [v, x, sum] = [V, X, SUM].map(|at| panel.strip(at).own().row_range(mine.clone()));
    let [inner, all, product] = [0, 1, 2].map(|at| panel.scratch.square(at, panel.count));
    let (all, product, t) = (all.own(), product.own(), panel.t().own());
    let part = |of: usize| panel.part(of).of(of).row_range(mine.clone());
    worker.receive(part(0), sum);
    for other in 1..workers {
        let there = worker.fetch(part(other))?;
        worker.add(sum, there);
    }
    // In the place of the second worker's sum.
    worker.clear(x);
    worker.gemm(x, T::ONE, sum, Op::None, t);
    worker.clear(inner.own());
    worker.gemm(inner.own(), T::ONE, v, Op::Adjoint, x);
    worker.barrier()?;
    worker.clear(all);
    let me = worker.worker();
    // A rank has all rows.
    for other in if W::IS_RANK { me..me + 1 } else { 0..workers } {
        let there = worker.fetch(inner.of(other))?;
        worker.add(all, there);
    }
    worker.clear(product);
    worker.gemm(product, T::from_f64_impl(-0.5), t, Op::Adjoint, all);
    worker.gemm(x, T::ONE, v, Op::None, product);
    worker.barrier()
}

/// The update of a worker's tile columns.
fn update<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panel: &Panel<T>,
    tiles: &[TileColumn],
) {
    let (top, room) = (panel.top, panel.scratch.of_panel(0).1);
    let before = tiles.iter().map(|&t| leading.before(t, top));
    let before: Vec<_> = before.filter(|c| c.cols() > 0).collect();
    let targets: Vec<_> = tiles.iter().filter_map(|&t| leading.trailing(t, top)).collect();
    worker.span("update", Some(panel.tile), |w| {
        w.reflect(panel.reflectors(), Op::Adjoint, &before, room);
        w.subtract_pair([panel.v(), panel.x()], &targets, room);
    });
}

/// The band, from the tile columns of all workers.
fn gather<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    scratch: &Scratch<T>,
) -> Step {
    let (band, n) = (scratch.bands(), leading.order());
    for t in leading.owned(worker, TileColumn::new(0)) {
        let (rows, here) = (leading.rows(t), band.own());
        worker.clear(here.sub(0, rows.start, here.rows(), rows.len()));
        for j in rows.clone() {
            let count = (scratch.of.widest + 1).min(n - j);
            let from = leading.column(t, j).sub(0, j - rows.start, count, 1);
            worker.copy(from, here.sub(0, j, count, 1));
        }
    }
    let rows = band.part(|one| one.transposed());
    worker.all_gather(&rows, leading.a().columns(), leading.tiles())
}
