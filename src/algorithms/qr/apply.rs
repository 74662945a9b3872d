//! Products with Q, whose reflectors are in a factored matrix.

use super::factor::{Scratch, panels, reflected};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Worker, reflectors};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::scalar::Scalar;

/// Makes T of every panel from its reflectors and their `coefficients`. All workers meet at its end.
pub fn triangles<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    coefficients: Cells<T>,
    scratch: &Scratch<T>,
) -> Step {
    let own: Vec<_> = panels(a.columns(), a.m()).filter(|&t| worker.owns(a.columns(), t)).collect();
    for t in own {
        let ones = reflected(a.columns(), t, a.m());
        let rows = ones.start..a.all_rows().end;
        let panel = Panel::new(a, t, rows.clone(), a.rows_of(t, rows));
        worker.span("triangle", Some(t), |w| {
            let by = scratch.reflectors(w, a, &panel);
            reflectors::triangle_of(w, by, coefficients.matrix_rows(ones), scratch.room());
        });
    }
    worker.barrier()
}

/// `X <- op(Q) X`, op none or the adjoint, for columns X of a worker. All workers call this with the
/// same op after they have met, with T of every panel at its owner.
pub fn apply<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    op: Op,
    x: &[Cells<'c, T>],
    scratch: &Scratch<T>,
) -> Step {
    each_panel(worker, a, op, scratch, |_, top| {
        x.iter().map(|x| x.matrix_rows(top..a.all_rows().end)).collect()
    })
}

/// The first columns of Q, one for each of `q`, which is distributed as A: in the same tile columns.
/// The same holds as for `apply`. All workers meet at its end.
pub fn form<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    q: &DistMatrix<T>,
    scratch: &Scratch<T>,
) -> Step {
    let columns = q.columns();
    let own: Vec<_> = owned_from(worker, columns, TileColumn::new(0)).collect();
    for &t in &own {
        let column = q.tile_column(t);
        worker.clear(column);
        worker.make_unit_lower(column.matrix_rows(columns.tile(t).rows()));
    }
    // Columns before those of a panel have no element in its rows yet.
    each_panel(worker, a, Op::None, scratch, |k, top| {
        let later = own.iter().filter(|&&t| t >= k);
        later.map(|&t| q.rows_of(t, top..a.all_rows().end)).collect()
    })?;
    worker.barrier()
}

/// Applies every panel of Q, in the order of op(Q), to what `targets` gives for it, from the panel's
/// first row on.
fn each_panel<'c, T: Scalar + 'c, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    op: Op,
    scratch: &Scratch<T>,
    targets: impl Fn(TileColumn, GlobalRow) -> Vec<Cells<'c, T>>,
) -> Step {
    let mut order: Vec<_> = panels(a.columns(), a.m()).collect();
    if op == Op::None {
        order.reverse();
    }
    for k in order {
        let by = scratch.bring(worker, a, k)?;
        let targets = targets(k, a.columns().tile(k).rows().start);
        worker.span("reflect", Some(k), |w| w.reflect(by, op, &targets, scratch.room()));
    }
    Ok(())
}
