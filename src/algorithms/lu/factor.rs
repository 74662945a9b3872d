//! `P A = L U` of a column-distributed matrix with partial pivoting, right-looking. Tile columns
//! A_k are distributed to workers; L and U overwrite A.
//!
//! ```text
//! for k:  P_k A_k = L_k U_kk                                  panel k, by its owner
//!         A_j <- P_k A_j,  U_kj = L_kk^-1 A_kj,
//!         A_ij -= L_ik U_kj   for all i > k, j > k            by the owner of j, k+1 first
//! then    A_k <- P_count .. P_k+1 A_k                         the rows of L, by the owner of k
//! ```
//! The owner of panel k+1 updates and factors it before the rest of its columns (lookahead 1).
//! Where the others have too few columns to stay busy meanwhile, workers share the whole step
//! instead (`share.rs`). There are only two kinds of barriers. One comes between an unshared step
//! and a shared one. The other comes before the interchanges of L's rows, because others still read
//! L until then.

use super::panel::{factor_panel, finish_row};
use super::share;
use crate::algorithms::{owned_from, share_of_square, subtract, with_lookahead};
use crate::comm::{Group, Phase, Signal, Step};
use crate::device::{Update, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Blocks, Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// One worker's part; `pivots` have n rows. It reports zero pivots and goes on. All workers meet at
/// its end.
pub fn factor<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    pivots: &Blocks<i32>,
) -> Step {
    let (columns, first) = (a.columns(), TileColumn::new(0));
    let (all, pivots) = (pivots, pivots.own());
    let panels = worker.phase(Signal::Panels);
    if first < columns.end() {
        let group = share::group(worker, a, first);
        factor_panel(worker, a, pivots, first, group, &panels)?;
    }
    let mut shared = false;
    for k in columns.each() {
        let next = k + 1;
        let (owner, rows) = (worker.owner(columns, k), columns.tile(k).rows());
        worker.span("wait for panel", Some(k), |w| w.wait(&panels, owner, next.get()))?;
        worker.receive(all.of(owner).matrix_rows(rows.clone()), pivots.matrix_rows(rows.clone()));
        if next < columns.end() {
            let panel = worker.broadcast(a, k, rows.start..a.all_rows().end)?;
            let group = share::group(worker, a, next);
            if group.size() > 1 && !shared {
                worker.barrier()?;
            }
            shared = group.size() > 1;
            match shared {
                true => share::step(worker, a, pivots, &panel, group, &panels)?,
                false => step(worker, a, pivots, &panel, group, &panels)?,
            }
        }
        worker.progress(share_of_square(next.get(), columns.count()));
    }
    worker.barrier()?;
    for t in owned_from(worker, columns, first) {
        let rest = columns.tile(t).rows().end..a.all_rows().end;
        worker.span("swap rows", None, |w| {
            w.swap_rows(a.tile_column(t), rest.start, pivots.matrix_rows(rest), false);
        });
    }
    worker.barrier()
}

/// Applies a panel to this worker's columns, and makes the next one.
fn step<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    pivots: Cells<i32>,
    panel: &Panel<T>,
    owner: Group,
    panels: &Phase,
) -> Step {
    let next = panel.tile() + 1;
    with_lookahead(
        worker,
        a.columns(),
        next,
        |worker| {
            finish_row(worker, pivots, panel, a.tile_column(next));
            subtract(worker, a, panel, std::iter::once(next), Update::Lu, a.all_rows());
            factor_panel(worker, a, pivots, next, owner, panels)
        },
        |worker| {
            let others = owned_from(worker, a.columns(), next).filter(|&t| t != next);
            // A device takes all columns at once; a CPU worker's cache has room for one tile column.
            let most = if W::IS_RANK { a.n() } else { 0 };
            for (_, columns) in a.adjacent(others.clone(), most) {
                finish_row(worker, pivots, panel, columns);
            }
            subtract(worker, a, panel, others, Update::Lu, a.all_rows());
        },
    )
}
