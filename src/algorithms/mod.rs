//! Distributed algorithms, written once, generic over worker and scalar.

pub mod cholesky;
pub mod condition;
pub mod eigen;
pub mod lu;
pub mod mirror;
pub mod norm;
pub mod qr;
pub mod redistribute;
pub mod residual;
pub mod triangular;
mod triangular_inverse;

use std::ops::Range;

use crate::comm::Step;
use crate::device::{Update, Worker};
use crate::layout::{Column, GlobalRow, Partition, TileColumn};
use crate::matrix::{DistMatrix, Panel};
use crate::scalar::Scalar;

/// Runs `panel`, which leads to panel `next`, on its owner, and `rest`, the independent rest of a
/// step. A CPU worker runs the panel first, because others wait for it. A CUDA worker enqueues the
/// rest first: enqueueing a panel may block the host, and would leave the device idle.
fn with_lookahead<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    columns: &Partition<Column>,
    next: TileColumn,
    panel: impl FnOnce(&mut W) -> Step,
    rest: impl FnOnce(&mut W),
) -> Step {
    if !worker.owns(columns, next) {
        rest(worker);
        return Ok(());
    }
    if !W::IS_RANK {
        panel(worker)?;
        rest(worker);
        return Ok(());
    }
    worker.fork();
    rest(worker);
    worker.ahead(true);
    panel(worker)?;
    worker.ahead(false);
    Ok(())
}

/// The share of the work after so many of all steps, each of which updates what is left of a square.
pub(crate) fn share_of_square(done: usize, all: usize) -> f64 {
    1.0 - (1.0 - done as f64 / all.max(1) as f64).powi(3)
}

/// Subtracts the update by a panel from some rows of tile columns, as a span of the trace.
fn subtract<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    panel: &Panel<T>,
    targets: impl Iterator<Item = TileColumn> + Clone,
    update: Update,
    rows: Range<GlobalRow>,
) {
    worker.span("update", Some(panel.tile()), |w| w.update(a, panel, targets, update, rows));
}

/// The tile columns of a worker from `from` on, ascending.
pub(crate) fn owned_from<'a, T: Scalar, W: Worker<T>>(
    worker: &W,
    columns: &'a Partition<Column>,
    from: TileColumn,
) -> impl Iterator<Item = TileColumn> + Clone + use<'a, T, W> {
    let (index, workers) = (worker.worker(), worker.workers());
    let owns = move |t: &TileColumn| W::owner_of(columns, *t, workers) == index;
    TileColumn::each(from..columns.end()).filter(owns)
}
