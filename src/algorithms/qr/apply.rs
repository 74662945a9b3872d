//! Products with Q, whose reflectors are in a factored matrix.

use super::factor::{Scratch, panels, reflected};
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Filled, Op, Target, Worker, reflectors};
use crate::layout::TileColumn;
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
    let mut order: Vec<_> = panels(a.columns(), a.m()).collect();
    if op == Op::None {
        order.reverse();
    }
    for k in order {
        let by = scratch.bring(worker, a, k)?;
        let rows = a.columns().tile(k).rows().start..a.all_rows().end;
        let targets: Vec<_> = x.iter().map(|x| x.matrix_rows(rows.clone()).into()).collect();
        worker.span("reflect", Some(k), |w| w.reflect(by, op, &targets, scratch.room()));
    }
    Ok(())
}

/// The first columns of Q, one for each of `q`, which is distributed as A: in the same tile columns. A
/// has at least as many rows as columns. The same holds as for `apply`. All workers meet at its end.
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
    for k in panels(a.columns(), a.m()).rev() {
        let by = scratch.bring(worker, a, k)?;
        let rows = columns.tile(k).rows().start..a.all_rows().end;
        // Columns before those of the panel have no element in its rows yet. Its own are those of the
        // unit matrix, and later ones are zero above the panels that have been applied.
        let target = |t: TileColumn| Target {
            cells: q.rows_of(t, rows.clone()),
            filled: if t == k { Filled::Top } else { Filled::Below },
        };
        let targets: Vec<_> = own.iter().filter(|&&t| t >= k).map(|&t| target(t)).collect();
        worker.span("reflect", Some(k), |w| w.reflect(by, Op::None, &targets, scratch.room()));
    }
    worker.barrier()
}
