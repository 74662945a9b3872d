//! The reflectors of A = Q R from the columns of Q (Ballard, Demmel, Grigori, Jacquelin, Knight and
//! Nguyen, J. Parallel Distrib. Comput. 85, 2015).
//!
//! ```text
//! Q = I - V T V^H, so Q1 - I = V1 U and Q2 = V2 U with U = -T V1^H
//! ```
//! for the first n columns, Q1 their first n rows. V1 is a unit lower triangle and U an upper one, so
//! they are the factors of Q1 - I without interchanges, and V2 = Q2 U^-1. The diagonal of T has the
//! coefficients. With LAPACK's signs these are 0 or have a modulus of at least 1.

use crate::comm::Step;
use crate::device::{Op, Side, Triangle, Worker};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// Columns that are factored at a time, in the host's memory.
const PANEL: usize = 32;
/// Smaller pivots are those of no reflector, with rounding errors.
const NONE: f64 = 0.5;

/// Turns Q1 in `top` into V1, and Q2 in `below` into V2. T goes to `t`.
pub fn reconstruct<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    top: Cells<T>,
    below: Cells<T>,
    t: Cells<T>,
) -> Step {
    let n = top.cols();
    for first in (0..n).step_by(PANEL) {
        let k = PANEL.min(n - first);
        let (end, rest) = (first + k, n - first - k);
        let corner = top.sub(first, first, k, k);
        let mut square = vec![T::ZERO; k * k];
        worker.get(corner, &mut square)?;
        (0..k).for_each(|i| square[i * k + i] += -T::ONE);
        let without = factor(&mut square, k);
        worker.put(&square, corner);
        let across = top.sub(first, end, k, rest);
        worker.trsm(Side::Left, corner, Triangle::UnitLower, Op::None, across);
        let under = [top.sub(end, first, rest, k), below.sub(0, first, below.rows(), k)];
        let under = under.into_iter().filter(|rows| rows.rows() > 0);
        for rows in under.clone() {
            worker.trsm(Side::Right, corner, Triangle::Upper, Op::None, rows);
        }
        for i in without {
            square[i * k + i] = T::ZERO;
            worker.clear(across.sub(i, 0, 1, rest));
            under.clone().for_each(|rows| worker.clear(rows.sub(0, i, rows.rows(), 1)));
        }
        worker.put(&square, corner);
        let after = [top.sub(end, end, rest, rest), below.sub(0, end, below.rows(), rest)];
        let after = after.into_iter().filter(|rows| rows.rows() > 0 && rest > 0);
        for (rows, of) in after.zip(under) {
            worker.gemm(rows, -T::ONE, of, Op::None, across);
        }
    }
    negate_triangle(worker, top, t)?;
    worker.make_unit_lower(top);
    // T V1^H = -U, transposed.
    worker.trsm(Side::Left, top, Triangle::UnitLower, Op::Conjugate, t.transposed());
    Ok(())
}

/// The upper triangle of -U, with zeros below it, some rows at a time.
fn negate_triangle<T: Scalar, W: Worker<T>>(worker: &mut W, u: Cells<T>, to: Cells<T>) -> Step {
    let n = u.cols();
    for first in (0..n).step_by(PANEL) {
        let k = PANEL.min(n - first);
        let mut rows = vec![T::ZERO; k * n];
        worker.get(u.sub(first, 0, k, n), &mut rows)?;
        for (i, row) in rows.chunks_exact_mut(n).enumerate() {
            let (below, above) = row.split_at_mut(first + i);
            below.fill(T::ZERO);
            above.iter_mut().for_each(|x| *x = -*x);
        }
        worker.put(&rows, to.sub(first, 0, k, n));
    }
    Ok(())
}

/// The factors of a square by rows. Where there is no reflector, U has a one on its diagonal: these
/// are given.
fn factor<T: Scalar>(square: &mut [T], k: usize) -> Vec<usize> {
    let mut without = vec![];
    for j in 0..k {
        let pivot = square[j * k + j];
        if pivot.modulus() < NONE {
            (j..k).for_each(|i| square[j * k + i] = T::ZERO);
            (j + 1..k).for_each(|i| square[i * k + j] = T::ZERO);
            square[j * k + j] = T::ONE;
            without.push(j);
            continue;
        }
        for i in j + 1..k {
            let by = square[i * k + j].divided_by(pivot);
            square[i * k + j] = by;
            for l in j + 1..k {
                let change = by * square[j * k + l];
                square[i * k + l] += -change;
            }
        }
    }
    without
}
