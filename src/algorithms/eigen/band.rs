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
        [(strips + self.square()).max(band), self.widest + SQUARES * self.square()]
    }
}

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

    /// T of a panel with k reflectors.
    fn triangle(&self, k: usize) -> Blocks<'a, T> {
        let after = (self.of.n + MORE) * self.of.widest * self.of.strips();
        self.shared.part(|shared| shared.sub(after, 0, k * k, 1).by_columns(k, k, k))
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
    let units = rows.div_ceil(ROW_MULTIPLE);
    let end = |worker_: usize| (units * worker_ / worker.workers() * ROW_MULTIPLE).min(rows);
    end(worker.worker())..end(worker.worker() + 1)
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
    let top_of = |t: TileColumn| leading.rows(t).start + scratch.of.widest;
    let panels: Vec<_> = leading.tiles().take_while(|&t| top_of(t) < leading.order()).collect();
    let panel = |worker: &mut W, t: TileColumn| {
        if t.get() < panels.len() && worker.owns(a.columns(), t) {
            factor_panel(worker, leading, (t, top_of(t)), scratch);
            worker.announce(&announced, t.get() + 1);
        }
    };
    panel(worker, TileColumn::new(0));
    for &k in &panels {
        let (owner, top) = (worker.owner(a.columns(), k), top_of(k));
        worker.span("wait for panel", Some(k), |w| w.wait(&announced, owner, k.get() + 1))?;
        let (by, x) = transform(worker, leading, (k, top), scratch)?;
        let room = scratch.of_panel(0).1;
        let update = |worker: &mut W, tiles: &[TileColumn]| {
            let before = tiles.iter().map(|&t| leading.before(t, top));
            let before: Vec<_> = before.filter(|c| c.cols() > 0).collect();
            let targets: Vec<_> = tiles.iter().filter_map(|&t| leading.trailing(t, top)).collect();
            worker.span("update", Some(k), |w| {
                w.reflect(by.reflectors, Op::Adjoint, &before, room);
                w.subtract_pair([by.v, x], &targets, room);
            });
        };
        let own = leading.owned(worker, k + 1);
        let ahead = own.iter().take_while(|&&t| t == k + 1).count();
        update(worker, &own[..ahead]);
        panel(worker, k + 1);
        update(worker, &own[ahead..]);
        // V and X are in use up to here.
        worker.barrier()?;
        worker.progress(k.get() + 1, panels.len());
    }
    gather(worker, leading, scratch)
}

fn factor_panel<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    (t, top): (TileColumn, usize),
    scratch: &Scratch<T>,
) {
    let columns = leading.column(t, top);
    let k = columns.rows().min(columns.cols());
    let ((coefficients, room), triangle) = (scratch.of_panel(k), scratch.triangle(k).own());
    worker.span("geqrf panel", Some(t), |w| {
        factor_columns(w, columns, coefficients, triangle, room);
    });
}

/// Q of a panel.
struct Transformation<'a, T> {
    /// With its ones, and zeros above them.
    v: Cells<'a, T>,
    reflectors: Reflectors<'a, T>,
}

/// Q and X for panel k and the trailing matrix from `top` on. All workers meet at its end.
fn transform<'a, T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    (k, top): (TileColumn, usize),
    scratch: &Scratch<'a, T>,
) -> Step<(Transformation<'a, T>, Cells<'a, T>)> {
    let (a, n) = (leading.a(), leading.order());
    let m = n - top;
    let count = m.min(leading.rows(k).len());
    let mine = share(worker, m);
    let [v, x, sum] = [0, X, SUM].map(|at| scratch.strip(at, m, count).own());
    let triangle = scratch.triangle(count);
    worker.receive(triangle.of(worker.owner(a.columns(), k)), triangle.own());
    let (first, end) = (GlobalRow::new(top), GlobalRow::new(n));
    let panel = worker.broadcast(a, k, first..end)?.rows(first..end).sub(0, 0, m, count);
    // The rows with the ones of V go to the worker that has the first row.
    let own =
        if mine.start == 0 { 0..mine.end.max(count) } else { mine.start.max(count)..mine.end };
    if own.start < own.end {
        worker.copy(panel.row_range(own.clone()), v.row_range(own.clone()));
        if own.start == 0 {
            worker.make_unit_lower(v.row_range(0..count));
        }
    }
    let of = |worker: usize| scratch.strip(scratch.of.strip_of(worker), m, count).of(worker);
    let part = scratch.strip(scratch.of.strip_of(worker.worker()), m, count).own();
    worker.clear(part);
    worker.barrier()?;
    let tiles = leading.owned(worker, k + 1);
    worker.span("multiply", Some(k), |w| {
        for (first, column) in tiles.into_iter().filter_map(|t| leading.trailing(t, top)) {
            let next = first + column.cols();
            w.gemm(part.rows_from(first), T::ONE, column, Op::None, v.row_range(first..next));
            let below = column.rows_from(next - first);
            w.gemm(part.row_range(first..next), T::ONE, below, Op::Adjoint, v.rows_from(next));
        }
    });
    worker.barrier()?;
    let (t, rows_of) = (triangle.own(), |cells: Cells<'a, T>| cells.row_range(mine.clone()));
    let [v_rows, x_rows, sum_rows] = [v, x, sum].map(rows_of);
    let workers = worker.workers();
    worker.receive(of(0).row_range(mine.clone()), sum_rows);
    for other in 1..workers {
        let there = worker.fetch(of(other).row_range(mine.clone()))?;
        worker.add(sum_rows, there);
    }
    let [inner, all, product] = [0, 1, 2].map(|at| scratch.square(at, count));
    worker.clear(x_rows);
    worker.gemm(x_rows, T::ONE, sum_rows, Op::None, t);
    worker.clear(inner.own());
    worker.gemm(inner.own(), T::ONE, v_rows, Op::Adjoint, x_rows);
    worker.barrier()?;
    worker.clear(all.own());
    let sharers = if W::IS_RANK { worker.worker()..worker.worker() + 1 } else { 0..workers };
    for other in sharers {
        let there = worker.fetch(inner.of(other))?;
        worker.add(all.own(), there);
    }
    worker.clear(product.own());
    worker.gemm(product.own(), T::from_f64_impl(-0.5), t, Op::Adjoint, all.own());
    worker.gemm(x_rows, T::ONE, v_rows, Op::None, product.own());
    worker.barrier()?;
    let (ones, below) = (v.row_range(0..count), v.rows_from(count));
    Ok((Transformation { v, reflectors: Reflectors { top: ones, below, t } }, x))
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
