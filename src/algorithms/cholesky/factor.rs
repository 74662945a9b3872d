//! `A = L L^H` for a column-distributed Hermitian positive definite matrix, right-looking with
//! lookahead 1. Tile columns A_k are distributed to workers; L overwrites the lower triangle.
//!
//! ```text
//! for k:  A_kk = L_kk L_kk^H,  L_ik = A_ik L_kk^-H            panel k, by its owner
//!         A_ij -= L_ik L_jk^H   for all i >= j > k            by the owner of j, k+1 first
//! ```
//! The owner of panel k+1 updates and factors it before the rest of its columns. The panel is then
//! ready when the others need it. There is no barrier: the owner announces a finished panel.

use crate::algorithms::{owned_from, share_of_square, subtract, with_lookahead};
use crate::comm::{Phase, Signal, Step};
use crate::device::{Op, Side, Triangle, Update, Worker};
use crate::layout::TileColumn;
use crate::matrix::DistMatrix;
use crate::scalar::Scalar;

/// One worker's part. A worker that returns `Ok` has seen every panel finished.
pub fn factor<T: Scalar, W: Worker<T>>(worker: &mut W, a: &DistMatrix<T>) -> Step {
    let (columns, all, first) = (a.columns(), a.all_rows(), TileColumn::new(0));
    let panels = worker.phase(Signal::Panels);
    if first < columns.end() && worker.owns(columns, first) {
        factor_panel(worker, a, first, &panels)?;
    }
    for k in columns.each() {
        let next = k + 1;
        let owner = worker.owner(columns, k);
        worker.span("wait for panel", Some(k), |w| w.wait(&panels, owner, next.get()))?;
        if next < columns.end() {
            let panel = worker.broadcast(a, k, columns.tile(k).rows().start..all.end)?;
            let others = owned_from(worker, columns, next).filter(|&t| t != next);
            with_lookahead(
                worker,
                columns,
                next,
                |worker| {
                    subtract(
                        worker,
                        a,
                        &panel,
                        std::iter::once(next),
                        Update::Cholesky,
                        all.clone(),
                    );
                    factor_panel(worker, a, next, &panels)
                },
                |worker| subtract(worker, a, &panel, others, Update::Cholesky, all.clone()),
            )?;
        }
        worker.progress(share_of_square(next.get(), columns.count()));
    }
    Ok(())
}

fn factor_panel<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    k: TileColumn,
    panels: &Phase,
) -> Step {
    let (diagonal, first) = (a.diagonal(k), a.columns().tile(k).rows().start);
    worker.span("potrf", Some(k), |w| w.potrf(diagonal, first))?;
    worker.span("trsm panel", Some(k), |w| {
        w.trsm(Side::Right, diagonal, Triangle::Lower, Op::Adjoint, a.below(k));
    });
    worker.announce(panels, k.get() + 1);
    Ok(())
}
