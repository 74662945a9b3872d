//! `A = L L^H` for a column-distributed Hermitian positive definite matrix, right-looking with
//! lookahead 1. Tile columns A_k are distributed to workers; L overwrites the lower triangle.
//!
//! ```text
//! for k:  A_kk = L_kk L_kk^H,  L_ik = A_ik L_kk^-H            panel k, by its owner
//!         A_ij -= L_ik L_jk^H   for all i >= j > k            by the owner of j, k+1 first
//! ```
//! The owner of panel k+1 updates and factors it before the rest of its columns. The panel is then
//! ready when the others need it. There is no barrier: the owner announces a finished panel.

use crate::algorithms::{owned_from, with_lookahead};
use crate::comm::{Signal, Step};
use crate::device::{Backend, Update};
use crate::matrix::Matrix;
use crate::scalar::Scalar;

/// One worker's part. A worker that returns `Ok` has seen every panel finished.
pub fn factor<T: Scalar, B: Backend<T>>(worker: &mut B, a: &Matrix<T>) -> Step {
    let count = a.columns.count();
    if count > 0 && worker.owns(0) {
        factor_panel(worker, a, 0)?;
    }
    for k in 0..count {
        worker.wait(Signal::Panels, k + 1)?;
        let next = k + 1;
        if next < count {
            worker.broadcast(a, k);
        }
        let others = owned_from(worker, next).filter(|&t| t != next).take_while(|&t| t < count);
        let rest = |worker: &mut B| worker.update(a, k, others, Update::Cholesky);
        match next < count {
            true => with_lookahead(
                worker,
                next,
                |worker| {
                    worker.update(a, k, std::iter::once(next), Update::Cholesky);
                    factor_panel(worker, a, next)
                },
                rest,
            )?,
            false => rest(worker),
        }
        worker.progress(next, count);
    }
    Ok(())
}

fn factor_panel<T: Scalar, B: Backend<T>>(worker: &mut B, a: &Matrix<T>, k: usize) -> Step {
    let diagonal = a.diagonal(k);
    worker.potrf(diagonal, a.columns.tile(k).global)?;
    worker.trsm_panel(diagonal, a.below(k));
    worker.announce(Signal::Panels, k + 1);
    Ok(())
}
