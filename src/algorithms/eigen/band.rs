//! A = Q B Q^H with a Hermitian band matrix B, the first of two stages to a tridiagonal one (Bischof,
//! Lang and Sun, ACM Trans. Math. Softw. 26, 2000). It works on the lower tiles of A, in place;
//! reflectors V remain below the band, and T of each panel in the place of R if it is kept.
//!
//! ```text
//! for k:  A_k = V R below the band,  Q_k = I - V T V^H    panel k, by its owner
//!         P = A V                                         each worker from its own tile columns
//!         X = P T - V (T^H V^H P T) / 2                   each worker some rows
//!         A_ij -= V_i X_j^H + X_i V_j^H  for i >= j       k+1 first, by its owner
//! ```
//! A is there the trailing matrix, of which a tile column serves both halves. The owner of panel k+1
//! updates and factors it first. Workers that share memory take the other tile columns of the update one
//! after another; a rank has its own. The workers' sums P are added in their order.
//!
//! The band is as wide as the widest tile column. Of a narrower one the trailing matrix begins a few
//! columns after the next tile column does. Q_k changes these columns from the left alone.

use std::ops::Range;

use super::Leading;
use super::scratch::{Panel, SUM, Scratch, V, X};
use crate::algorithms::qr::factor_columns;
use crate::algorithms::share_of_square;
use crate::comm::{Signal, Step};
use crate::device::{Op, Target, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::scalar::Scalar;

/// A worker's rows begin at multiples of this.
const ROW_MULTIPLE: usize = 16;
/// The most tile columns of an update that a worker takes at a time.
const MOST_TILES: usize = 5;

/// The rows of a worker, of so many. A rank has a copy of all.
fn share<T: Scalar, W: Worker<T>>(worker: &W, rows: usize) -> Range<usize> {
    if W::IS_RANK {
        return 0..rows;
    }
    let (units, workers) = (rows.div_ceil(ROW_MULTIPLE), worker.workers());
    let end = |worker: usize| (units * worker / workers * ROW_MULTIPLE).min(rows);
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
    let panels = scratch.panels(leading);
    let factor = |worker: &mut W, t: TileColumn| {
        let panel = panels.get(t.get()).filter(|_| worker.owns(a.columns(), t));
        if let Some(panel) = panel {
            factor_panel(worker, leading, panel);
            worker.announce(&announced, t.get() + 1);
        }
    };
    factor(worker, TileColumn::new(0));
    for panel in &panels {
        let (k, owner) = (panel.tile, worker.owner(a.columns(), panel.tile));
        worker.span("wait for panel", Some(k), |w| w.wait(&announced, owner, k.get() + 1))?;
        copy_reflectors(worker, leading, panel)?;
        multiply(worker, leading, panel)?;
        make_x(worker, panel)?;
        let own = leading.owned(worker, k + 1);
        let ahead = own.iter().take_while(|&&t| t == k + 1).count();
        update(worker, leading, panel, &own[..ahead]);
        factor(worker, k + 1);
        update_rest(worker, leading, panel, &own[ahead..]);
        // V and X are in use up to here.
        worker.barrier()?;
        worker.progress(share_of_square(k.get() + 1, panels.len()));
    }
    gather(worker, leading, scratch)?;
    if scratch.of.kept > 0 && !W::IS_RANK {
        put_triangles(worker, leading, &panels);
    }
    Ok(())
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
    if worker.worker() == 0 {
        // For the update; workers meet before that.
        worker.communicator().queue().restart();
    }
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

/// The update after that of the next panel, whose owner comes later.
fn update_rest<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panel: &Panel<T>,
    own: &[TileColumn],
) {
    if W::IS_RANK {
        return update(worker, leading, panel, own);
    }
    let all: Vec<_> = leading.tiles().filter(|&t| t > panel.tile + 1).collect();
    let workers = worker.workers();
    // The next barrier would notice a stop, but an update of a large matrix takes a second.
    while !worker.communicator().is_stopped() {
        let taken = worker.communicator().queue().take(all.len(), MOST_TILES, workers);
        let Some(taken) = taken else { break };
        update(worker, leading, panel, &all[taken]);
    }
}

/// The update of some tile columns.
fn update<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panel: &Panel<T>,
    tiles: &[TileColumn],
) {
    let (top, room) = (panel.top, panel.scratch.of_panel(0).1);
    let before = tiles.iter().map(|&t| leading.before(t, top));
    let before: Vec<_> = before.filter(|c| c.cols() > 0).map(Target::from).collect();
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

/// T of this worker's panels, to the place of R. So the scratch of T is free for eigenvectors.
fn put_triangles<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    panels: &[Panel<T>],
) {
    let columns = leading.a().columns();
    let own = panels.iter().filter(|panel| worker.owns(columns, panel.tile)).collect::<Vec<_>>();
    for panel in own {
        let (from, to) = (panel.t().own(), panel.columns(leading));
        for j in 0..panel.count {
            worker.copy(from.sub(0, j, j + 1, 1), to.sub(0, j, j + 1, 1));
        }
    }
}
