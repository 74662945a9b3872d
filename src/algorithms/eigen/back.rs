//! Eigenvectors of a band become those of A, on ranks. Workers that share memory have
//! [`Worker::transform_back`].

use std::ops::Range;

use super::Leading;
use super::scratch::Scratch;
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Reflectors, Worker};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::DistMatrix;
use crate::scalar::Scalar;

/// `C <- Q C` for the tile columns C of `v` with `wanted` columns, with all panels of the reduction,
/// which keeps them. For workers that are ranks.
pub fn apply_panels<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    scratch: &Scratch<T>,
    v: &DistMatrix<T>,
    wanted: &Range<usize>,
) -> Step {
    for panel in scratch.panels(leading).iter().rev() {
        let rows = GlobalRow::new(panel.top)..GlobalRow::new(leading.order());
        let from = worker.broadcast(leading.a(), panel.tile, rows.clone())?.rows(rows.clone());
        let (from, top) = (from.sub(0, 0, panel.m, panel.count), scratch.square(0, panel.count));
        let by = Reflectors::of(worker, from, panel.t().own(), top.own());
        let own = owned_from(worker, v.columns(), TileColumn::new(0));
        let own = own.filter(|&t| {
            let (first, width) = (v.columns().tile(t).global.get(), v.columns().tile(t).width);
            first < wanted.end && wanted.start < first + width
        });
        let targets: Vec<_> = own.map(|t| v.rows_of(t, rows.clone()).into()).collect();
        let room = scratch.of_panel(0).1;
        worker.span("reflect", Some(panel.tile), |w| w.reflect(by, Op::None, &targets, room));
    }
    worker.barrier()
}
