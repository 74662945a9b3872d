//! Products with Q, whose reflectors are in a factored matrix.

use super::by_columns::{Scratch, panels, reflected};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Op, Reflectors, Worker, reflectors};
use crate::matrix::{Cells, DistMatrix};
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
        let rows = reflected(a.columns(), t, a.m());
        let k = rows.end - rows.start;
        let panel =
            a.rows_of(t, rows.start..a.all_rows().end).sub(0, 0, a.m() - rows.start.get(), k);
        let top = scratch.top.sub(0, 0, k * k, 1).by_columns(k, k, k);
        worker.span("triangle", Some(t), |w| {
            let by = Reflectors::of(w, panel, scratch.triangle(&rows), top);
            let own = coefficients.matrix_rows(rows.clone());
            reflectors::triangle_of(w, by, own, scratch.rooms[0]);
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
    let mut order: Vec<_> = panels(a.columns(), a.m()).collect();
    if op == Op::None {
        order.reverse();
    }
    for k in order {
        let rows = reflected(a.columns(), k, a.m());
        scratch.receive(worker, worker.owner(a.columns(), k), &rows);
        let below = rows.start..a.all_rows().end;
        let panel = worker.broadcast(a, k, below.clone())?;
        let by = scratch.reflectors(worker, a, &panel);
        let targets = x.iter().map(|x| x.matrix_rows(below.clone()));
        worker.span("reflect", Some(k), |w| w.reflect(by, op, targets, scratch.rooms[0]));
    }
    Ok(())
}

/// The first columns of Q, one for each of `q`, which is distributed as A: in the same tile columns.
/// The same holds as for `apply`.
pub fn form<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    q: &DistMatrix<T>,
    scratch: &Scratch<T>,
) -> Step {
    let columns = q.columns();
    let own: Vec<_> =
        owned_from(worker, columns, columns.each().next().unwrap_or(columns.end())).collect();
    for &t in &own {
        let column = q.tile_column(t);
        worker.clear(column);
        worker.make_unit_lower(column.matrix_rows(columns.tile(t).rows()));
    }
    for k in panels(a.columns(), a.m()).rev() {
        let rows = reflected(a.columns(), k, a.m());
        scratch.receive(worker, worker.owner(a.columns(), k), &rows);
        let below = rows.start..a.all_rows().end;
        let panel = worker.broadcast(a, k, below.clone())?;
        let by = scratch.reflectors(worker, a, &panel);
        // Columns before these have no element in these rows yet.
        let targets = own.iter().filter(|&&t| t >= k).map(|&t| q.rows_of(t, below.clone()));
        worker.span("reflect", Some(k), |w| w.reflect(by, Op::None, targets, scratch.rooms[0]));
    }
    worker.barrier()
}
