//! The last two steps where a worker is a rank. It multiplies by its own tile columns:
//!
//! ```text
//! for j:  S to all workers                                    by the owner of j
//!         P = -sum_k>j X_k S_k  over its own k                by every worker
//!         X_j = (W_j + the sum of all P) S_j^-1               by the owner of j
//! ```

use super::take_lower;
use crate::algorithms::owned_from;
use crate::algorithms::redistribute::{MOST_STAGING_LINES, Redistribution, redistribute_columns};
use crate::comm::Step;
use crate::device::{Op, Side, Triangle, Worker};
use crate::layout::TileColumn;
use crate::matrix::{Blocks, DistMatrix};
use crate::scalar::Scalar;

/// Elements of scratch for P and then for the interchange of columns, for columns of m rows.
pub fn more_elements(m: usize, widest: usize) -> usize {
    m * widest.max(MOST_STAGING_LINES)
}

/// One worker's part, after all have met. `panels` are for S.
pub(super) fn finish<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    source: &[usize],
    panels: &Blocks<T>,
    more: &Blocks<T>,
) -> Step {
    for j in a.columns().each().rev() {
        finish_column(worker, a, j, panels, more)?;
    }
    let (position, mut moves) = (a.columns().destination(), vec![0; a.n()]);
    source.iter().enumerate().for_each(|(to, &from)| moves[position[to]] = position[from]);
    let plan = Redistribution::new(&moves, worker.workers());
    let staging = more.part(|one| one.by_columns(a.m(), plan.staging_lines(), a.m()));
    worker.barrier()?;
    redistribute_columns(worker, a, &plan, &staging)
}

fn finish_column<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    j: TileColumn,
    panels: &Blocks<T>,
    more: &Blocks<T>,
) -> Step {
    let (columns, tile, owner) = (a.columns(), a.columns().tile(j), worker.owner(a.columns(), j));
    let owns = owner == worker.worker();
    let panels = panels.part(|panel| panel.sub(0, 0, panel.rows(), tile.width));
    let products = more.part(|one| one.by_columns(a.m(), tile.width, a.m()));
    if owns {
        take_lower(worker, a, j, &a.all_rows(), panels.own());
    }
    worker.barrier()?;
    let lower = tile.rows().start..a.all_rows().end;
    worker.receive(panels.of(owner).matrix_rows(lower.clone()), panels.own().matrix_rows(lower));
    let sum = if owns { a.tile_column(j) } else { products.own() };
    if !owns {
        worker.clear(sum);
    }
    for k in owned_from(worker, columns, j + 1) {
        let factor = panels.own().matrix_rows(columns.tile(k).rows());
        worker.gemm(sum, -T::ONE, a.tile_column(k), Op::None, factor);
    }
    worker.barrier()?;
    if owns {
        for other in (0..worker.workers()).filter(|&other| other != owner) {
            let product = worker.fetch(products.of(other))?;
            worker.add(sum, product);
        }
        let diagonal = panels.own().matrix_rows(tile.rows());
        worker.trsm(Side::Right, diagonal, Triangle::UnitLower, Op::None, sum);
    }
    Ok(())
}
