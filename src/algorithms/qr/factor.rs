//! A = Q R of a column-distributed matrix, right-looking. Tile columns A_k are distributed to
//! workers; R and the reflectors V overwrite A.
//!
//! ```text
//! for k:  A_k = Q_k R_kk,  Q_k = I - V_k T_k V_k^H     panel k, by its owner
//!         A_j <- Q_k^H A_j  for all j > k              by the owner of j, k+1 first
//! ```
//! The owner of panel k+1 updates and factors it before the rest of its columns (lookahead 1).
//! Nothing but panels makes workers wait: a finished panel never changes again.

use std::ops::Range;

use crate::algorithms::{owned_from, with_lookahead};
use crate::comm::{Signal, Step};
use crate::device::{Device, Op, Reflectors, Worker};
use crate::layout::{Column, GlobalRow, Partition, TileColumn};
use crate::matrix::{Blocks, Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// Columns of products with V for which a rank has scratch, as a part of all, and a bound. A CPU worker
/// has them in that of its packed tiles.
const SHARE_OF_PRODUCTS: usize = 8;
const MOST_PRODUCTS: usize = 1024;

/// Elements of a [`Scratch`]: those for T, once in a memory, and those of each worker.
pub fn elements((m, n): (usize, usize), widest: usize, is_rank: bool) -> [usize; 2] {
    let products = match is_rank {
        true => (n / SHARE_OF_PRODUCTS).clamp(1, MOST_PRODUCTS).next_multiple_of(widest.max(1)),
        false => widest,
    };
    // A panel needs two squares for T, besides V's top.
    let room = widest * (products + 2 * widest);
    [widest * m.min(n), widest * widest + room * if is_rank { 2 } else { 1 }]
}

/// The scratch of a factorisation, and of its use.
pub struct Scratch<'a, T> {
    /// T of each panel, side by side, as every worker has them.
    triangles: Blocks<'a, T>,
    /// For the rows of V with its ones.
    top: Cells<'a, T>,
    /// For products with V, now and ahead.
    rooms: [Cells<'a, T>; 2],
}

impl<'a, T: Scalar> Scratch<'a, T> {
    /// `triangles` and `own` have the `elements` for A of m x n.
    pub fn new(
        (m, n): (usize, usize),
        widest: usize,
        triangles: &Blocks<'a, T>,
        own: Cells<'a, T>,
    ) -> Self {
        let columns = m.min(n);
        let (top, rooms) = (widest * widest, own.rows() - widest * widest);
        let [_, of_cpu_worker] = elements((m, n), widest, false);
        let room = if own.rows() > of_cpu_worker { rooms / 2 } else { rooms };
        Scratch {
            triangles: triangles.part(|all| all.by_columns(widest, columns, widest)),
            top: own.sub(0, 0, top, 1),
            // CPU workers do one thing after another.
            rooms: [top, top + rooms - room].map(|first| own.sub(first, 0, room, 1)),
        }
    }

    /// For products with V.
    pub(super) fn room(&self) -> Cells<'a, T> {
        self.rooms[0]
    }

    /// The same for a panel and its predecessors, which a rank may do at the same time.
    fn ahead<W: Worker<T>>(&self) -> Cells<'a, T> {
        self.rooms[usize::from(W::IS_RANK)]
    }

    /// T of a panel whose reflectors have their ones in `rows`, as all workers have it.
    fn triangle(&self, rows: &Range<GlobalRow>) -> Blocks<'a, T> {
        let (first, k) = (rows.start.get(), rows.end - rows.start);
        self.triangles.part(|all| all.sub(0, first, k, k))
    }

    /// The reflectors of a panel, of which this worker has T.
    pub(super) fn reflectors<'p>(
        &self,
        device: &mut impl Worker<T>,
        a: &DistMatrix<T>,
        panel: &Panel<'p, T>,
    ) -> Reflectors<'p, T>
    where
        'a: 'p,
    {
        let rows = reflected(a.columns(), panel.tile(), a.m());
        let (k, cells) = (rows.end - rows.start, panel.rows(rows.start..a.all_rows().end));
        let (columns, top) = (cells.sub(0, 0, cells.rows(), k), self.top.by_columns(k, k, k));
        Reflectors::of(device, columns, self.triangle(&rows).own(), top)
    }

    /// The same for panel k of any worker, which has announced it.
    pub(super) fn bring<'p, W: Worker<T>>(
        &self,
        worker: &mut W,
        a: &DistMatrix<'p, T>,
        k: TileColumn,
    ) -> Step<Reflectors<'p, T>>
    where
        'a: 'p,
    {
        let rows = reflected(a.columns(), k, a.m());
        let triangle = self.triangle(&rows);
        worker.receive(triangle.of(worker.owner(a.columns(), k)), triangle.own());
        let panel = worker.broadcast(a, k, rows.start..a.all_rows().end)?;
        Ok(self.reflectors(worker, a, &panel))
    }
}

/// The tile columns with reflectors: those that begin above the last of m rows.
pub fn panels(
    columns: &Partition<Column>,
    m: usize,
) -> impl DoubleEndedIterator<Item = TileColumn> + Clone {
    let count = columns.each().take_while(|&t| columns.tile(t).global.get() < m).count();
    TileColumn::each(TileColumn::new(0)..TileColumn::new(count))
}

/// The rows in which the reflectors of a tile column have their ones.
pub(super) fn reflected(columns: &Partition<Column>, t: TileColumn, m: usize) -> Range<GlobalRow> {
    let rows = columns.tile(t).rows();
    rows.start..rows.end.min(GlobalRow::new(m))
}

/// One worker's part. `coefficients` are those of the reflectors, as each worker has them; all have
/// all of them at the end. All workers meet there.
pub fn factor<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    coefficients: &Blocks<T>,
    scratch: &Scratch<T>,
) -> Step {
    let (columns, m) = (a.columns(), a.m());
    let announced = worker.phase(Signal::Panels);
    let all = panels(columns, m);
    let end = all.clone().last().map_or(TileColumn::new(0), |last| last + 1);
    let own = |worker: &mut W, t: TileColumn| {
        if t < end && worker.owns(columns, t) {
            factor_panel(worker, a, t, coefficients.own(), scratch);
            worker.announce(&announced, t.get() + 1);
        }
    };
    own(worker, TileColumn::new(0));
    for k in all.clone() {
        let (owner, next) = (worker.owner(columns, k), k + 1);
        worker.span("wait for panel", Some(k), |w| w.wait(&announced, owner, next.get()))?;
        if next < columns.end() {
            let by = scratch.bring(worker, a, k)?;
            let top = columns.tile(k).rows().start;
            let part = |t| a.rows_of(t, top..a.all_rows().end);
            let update = |worker: &mut W, targets: &[Cells<T>], room| {
                let targets: Vec<_> = targets.iter().map(|&c| c.into()).collect();
                worker.span("update", Some(k), |w| w.reflect(by, Op::Adjoint, &targets, room));
            };
            with_lookahead(
                worker,
                columns,
                next,
                |worker| {
                    update(worker, &[part(next)], scratch.ahead::<W>());
                    own(worker, next);
                    Ok(())
                },
                |worker| {
                    let others = owned_from(worker, columns, next).filter(|&t| t != next);
                    update(worker, &others.map(part).collect::<Vec<_>>(), scratch.room());
                },
            )?;
        }
        worker.progress(share((m, a.n()), columns.tile(k).global.get() + columns.tile(k).width));
    }
    worker.barrier()?;
    for k in all {
        let rows = reflected(columns, k, m);
        let there = coefficients.part(|all| all.matrix_rows(rows.clone()));
        worker.receive(there.of(worker.owner(columns, k)), there.own());
    }
    // No coefficient changes before all have it.
    if W::IS_RANK { worker.barrier() } else { Ok(()) }
}

/// The share of the work on m x n entries after so many columns.
fn share((m, n): (usize, usize), columns: usize) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let work = |t: f64| t * (m * n - t * ((m + n) / 2.0 - t / 3.0));
    let least = m.min(n);
    work(least.min(columns as f64)) / work(least).max(1.0)
}

fn factor_panel<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    t: TileColumn,
    coefficients: Cells<T>,
    scratch: &Scratch<T>,
) {
    let rows = reflected(a.columns(), t, a.m());
    let (columns, room) = (a.rows_of(t, rows.start..a.all_rows().end), scratch.ahead::<W>());
    let triangle = scratch.triangle(&rows).own();
    worker.span("geqrf panel", Some(t), |w| {
        factor_columns(w, columns, coefficients.matrix_rows(rows), triangle, room);
    });
}

/// Q R of some columns, which may be more than their rows. `room` has three squares.
pub fn factor_columns<T: Scalar>(
    device: &mut impl Device<T>,
    columns: Cells<T>,
    coefficients: Cells<T>,
    triangle: Cells<T>,
    room: Cells<T>,
) {
    let k = triangle.cols();
    let panel = columns.sub(0, 0, columns.rows(), k);
    device.geqrf(panel, coefficients, triangle, room);
    // The last panel of a wide matrix may have more columns than rows.
    let rest = columns.sub(0, k, columns.rows(), columns.cols() - k);
    if rest.cols() > 0 {
        let top = room.by_columns(k, k, k);
        let by = Reflectors::of(device, panel, triangle, top);
        device.reflect(by, Op::Adjoint, &[rest.into()], room.rows_from(k * k));
    }
}
