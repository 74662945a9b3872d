//! `X = U^-1` or `L^-1` in place of a triangle of a column-distributed matrix, with lookahead 1. It
//! neither reads nor writes the other triangle. For U, tile columns k ascending:
//!
//! ```text
//! for k:  X_ik = W_ik U_kk^-1  (i < k),  X_kk = U_kk^-1       panel k, by its owner
//!         W_ij -= X_ik U_kj    for all i < k, j > k           by the owner of j, k+1 first
//!         W_kj = -X_kk U_kj    in place of U_kj
//! ```
//! Thus `W_ij = -sum_l X_il U_lj` over the finished l < j. Column j of X follows when all of them
//! are finished. For L, the same runs from the last column to the first. Each row of X is a
//! substitution in `X U = I`: the left residual `X U - I` is small, as the inverse of L U needs it
//! (Du Croz and Higham, IMA J. Numer. Anal. 12, 1992).

use super::subtract;
use crate::comm::{Signal, Step};
use crate::device::{Op, Side, Triangle, Update, Worker};
use crate::layout::TileColumn;
use crate::matrix::{DistMatrix, Panel};
use crate::scalar::Scalar;

/// One worker's part; all earlier writes to `a` must be complete. A worker that returns `Ok` has
/// seen every panel finished. This is `part` of its stage.
pub fn invert_triangle<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    triangle: Triangle,
    part: f64,
) -> Step {
    let (columns, count) = (a.columns(), a.columns().count());
    let panels = worker.phase(Signal::Panels);
    let tile = |p: usize| TileColumn::new(if triangle.is_lower() { count - 1 - p } else { p });
    if count > 0 && worker.owns(columns, tile(0)) {
        invert_panel(worker, a, triangle, tile(0));
        worker.announce(&panels, 1);
    }
    for p in 0..count {
        let (k, next) = (tile(p), p + 1);
        let owner = worker.owner(columns, k);
        worker.span("wait for panel", Some(k), |w| w.wait(&panels, owner, next))?;
        if next < count {
            let rows = match triangle.is_lower() {
                true => columns.tile(k).rows().start..a.all_rows().end,
                false => a.all_rows().start..columns.tile(k).rows().end,
            };
            let panel = worker.broadcast(a, k, rows)?;
            if worker.owns(columns, tile(next)) {
                pass_on(worker, a, triangle, &panel, std::iter::once(tile(next)));
                invert_panel(worker, a, triangle, tile(next));
                worker.announce(&panels, next + 1);
            }
            let (index, workers) = (worker.worker(), worker.workers());
            let owns = |t: &TileColumn| W::owner_of(columns, *t, workers) == index;
            let others = (next + 1..count).map(tile).filter(owns);
            pass_on(worker, a, triangle, &panel, others);
        }
        // A step multiplies as many finished columns by as many that are left.
        let done = next as f64 / count as f64;
        worker.progress(part * done * done * (3.0 - 2.0 * done));
    }
    Ok(())
}

/// Updates the unfinished tile columns `targets` with a finished panel.
fn pass_on<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    triangle: Triangle,
    panel: &Panel<T>,
    targets: impl Iterator<Item = TileColumn> + Clone,
) {
    let update = if triangle.is_lower() { Update::Lu } else { Update::Above };
    subtract(worker, a, panel, targets.clone(), update, a.all_rows());
    worker.span("trmm", Some(panel.tile()), |w| {
        for j in targets {
            w.trmm(panel.diagonal(), triangle, -T::ONE, a.tile(panel.tile().row(), j));
        }
    });
}

fn invert_panel<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    triangle: Triangle,
    k: TileColumn,
) {
    let rest = match triangle.is_lower() {
        true => a.below(k),
        false => a.rows_of(k, a.all_rows().start..a.columns().tile(k).rows().start),
    };
    worker.span("trtri panel", Some(k), |w| {
        w.trsm(Side::Right, a.diagonal(k), triangle, Op::None, rest);
        w.trtri(a.diagonal(k), triangle);
    });
}
