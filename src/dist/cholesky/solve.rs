//! `L L^H x = b` with the factor that `factor` leaves, for few right-hand sides that all lanes work
//! on together, and for many that are dealt to the lanes.
//!
//! `conjugated` solves with conj(L) instead: rows-sharded input hands over B = A^T = conj(A), and
//! conj(L) L^T x = b needs no pass over b.

use crate::backend::{Backend, Op, Signal, Step};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

fn ops(conjugated: bool) -> (Op, Op) {
    if conjugated { (Op::Conjugate, Op::Transpose) } else { (Op::None, Op::Adjoint) }
}

/// Solves for the right-hand sides in `x` (n x k), alone. Every panel must be finished.
pub fn solve_columns<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    x: Block<T>,
    conjugated: bool,
) {
    let (forward, backward) = ops(conjugated);
    let count = a.columns.count();
    let part = |t: usize| {
        let tile = a.columns.tile(t);
        (x.sub(tile.global, 0, tile.width, x.cols), x.rows_from(tile.global + tile.width))
    };
    for k in 0..count {
        let (own, rest) = part(k);
        lane.trsm(a.diagonal(k), forward, own);
        lane.gemm(rest, -T::ONE, a.below(k), forward, own);
    }
    for k in (0..count).rev() {
        let (own, rest) = part(k);
        lane.gemm(own, -T::ONE, a.below(k), backward, rest);
        lane.trsm(a.diagonal(k), backward, own);
    }
}

/// Solves for the right-hand sides in `x` (n x k, k small) with all lanes; every panel must be
/// finished. `sums[lane]` (n x k, zeroed) is the lane's scratch.
///
/// Per-tile owner solve plus accumulated updates: the owner of tile column k collects what the lanes
/// have summed up for its rows, solves, and adds its own contribution to the rows below, the next
/// tiles' rows first because their owners wait for them. Back substitution needs no sums: the owner of
/// tile column k holds all of L_ik, i > k. Lanes never meet; only tiles are awaited.
pub fn solve_shared<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    x: Block<T>,
    sums: &[Block<T>],
    conjugated: bool,
) -> Step {
    let (forward, backward) = ops(conjugated);
    let (index, lanes, count) = (lane.lane(), lane.lanes(), a.columns.count());
    let rows = |m: Block<T>, t: usize| {
        let tile = a.columns.tile(t);
        m.sub(tile.global, 0, tile.width, m.cols)
    };
    // L_ik for the tile rows from i on.
    let rows_of_l = |k: usize, i: usize| a.tile_column(k).rows_from(start(a, i));
    lane.announce(Signal::PartialSums(index), index + 1);
    for k in (index..count).step_by(lanes) {
        let own = rows(x, k);
        for (other, sum) in sums.iter().enumerate() {
            lane.wait(Signal::PartialSums(other), k + 1)?;
            lane.add(own, rows(*sum, k));
        }
        lane.trsm(a.diagonal(k), forward, own);
        let urgent = (k + lanes).min(count - 1);
        for i in k + 1..=urgent {
            lane.gemm(rows(sums[index], i), -T::ONE, rows(a.tile_column(k), i), forward, own);
            lane.announce(Signal::PartialSums(index), i + 1);
        }
        let rest = sums[index].rows_from(start(a, urgent + 1));
        lane.gemm(rest, -T::ONE, rows_of_l(k, urgent + 1), forward, own);
    }
    for k in (index..count).step_by(lanes).rev() {
        let own = rows(x, k);
        // Tile rows from k + L on are solved: this lane itself solved the first of them.
        let late = (k + lanes).min(count);
        lane.wait(Signal::Solved, count - late)?;
        lane.gemm(own, -T::ONE, rows_of_l(k, late), backward, x.rows_from(start(a, late)));
        for i in (k + 1..late).rev() {
            lane.wait(Signal::Solved, count - i)?;
            lane.gemm(own, -T::ONE, rows(a.tile_column(k), i), backward, rows(x, i));
        }
        lane.trsm(a.diagonal(k), backward, own);
        lane.announce(Signal::Solved, count - k);
    }
    Ok(())
}

/// First row of tile row `t`, or n past the last.
fn start<T>(a: &Matrix<T>, t: usize) -> usize {
    if t < a.columns.count() { a.columns.tile(t).global } else { a.columns.n() }
}
