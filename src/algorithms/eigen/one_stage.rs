//! A = Q T Q^H with a tridiagonal T, in one stage (`device/cpu/one_stage`), in place. Reflectors V remain
//! below the entries next to the diagonal, and T of each panel above them, if they are kept.

use super::Leading;
use super::scratch::Scratch;
use crate::algorithms::share_of_square;
use crate::comm::Step;
use crate::device::Worker;
use crate::matrix::Columns;
use crate::scalar::Scalar;

/// One worker's part, for workers that share memory. The tridiagonal matrix is a band of width 1 in the
/// scratch. All workers meet at its end.
pub fn reduce_to_tridiagonal<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    leading: &Leading<T>,
    scratch: &Scratch<T>,
) -> Step {
    let (all, panels) =
        (Columns::new(leading.tiles().map(|t| leading.column(t, 0))), leading.tiles());
    let (count, room) = (panels.clone().count(), scratch.of_panel(0).1);
    worker.barrier()?;
    for k in panels {
        let is_kept = scratch.of.kept > 0 && worker.owns(leading.a().columns(), k);
        let panel = scratch.one_stage_panel(leading, &all, k, is_kept);
        worker.span("panel", Some(k), |w| w.reduce_in_one_stage(&panel))?;
        let (width, own) = (panel.columns.len(), leading.owned(worker, k + 1));
        let trailing = own.iter().filter_map(|&t| leading.trailing(t, panel.columns.end));
        let (pair, targets) =
            ([panel.v, panel.w].map(|c| c.rows_from(width)), trailing.collect::<Vec<_>>());
        worker.span("update", Some(k), |w| w.subtract_pair(pair, &targets, room));
        worker.barrier()?;
        worker.progress(share_of_square(k.get() + 1, count));
    }
    Ok(())
}
