//! Factors I - V T V^H, as right factors of products with C^T:
//!
//! ```text
//! C^T <- C^T - ((C^T conj(V)) T^T) V^T
//! ```
//! V is for both products, so it takes half of the room that conj(V) and V T would. T has little work.
//!
//! Sweep s has reflectors H_sk for its steps k, in rows from s + 1 + k b on, b the width of the band. The
//! product of all of them in the order of sweeps is that of groups of sweeps. H_sk and H_tl do not
//! commute only where rows overlap: for l = k, and for l = k + 1 if t < s. So a group is the product of
//! B_k = H_sk H_(s+1)k ... in descending order of k. Some neighbours in B_k are a factor I - V T V^H. Its columns
//! of V are each a row further down than the one before, so few of them have few zeros.

use std::cmp::Ordering;

use faer::{MatMut, MatRef};

use super::strips::Kernel;
use super::{GROUP, SWEEPS};
use crate::device::cpu::blas;
use crate::device::cpu::product::{DEEPEST, add_dots};
use crate::device::{Op, PanelReflectors, SweepReflectors};
use crate::scalar::Scalar;

/// Some rows of a factor.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The first of them in the matrix, and in V.
    pub first: usize,
    pub row: usize,
    pub rows: usize,
    /// Where its elements begin.
    pub at: usize,
}

/// Neighbouring sweeps in a step, whose reflectors are a factor.
pub struct Part {
    /// Their first row, and the first of them, in the step.
    pub first: usize,
    pub count: usize,
    pub rows: usize,
    /// Where its elements begin.
    pub at: usize,
}

/// All parts of `rows` rows of a step of `count` sweeps, as they are applied, through a band of a width. Each
/// sweep begins a row further down than the one before.
pub fn parts(
    kernel: Kernel,
    count: usize,
    width: usize,
    rows: usize,
) -> impl Iterator<Item = Part> {
    let (most, mut at) = (kernel.sweeps(), 0);
    (0..count).step_by(most).rev().map(move |first| {
        let count = most.min(count - first);
        let rows = (width + count - 1).min(rows - first);
        let part = Part { first, count, rows, at };
        at += kernel.reflector_elements(count, rows);
        part
    })
}

/// Columns of V of a panel with so many reflectors: whole units, with zeros.
pub fn panel_columns(kernel: Kernel, count: usize) -> usize {
    count.next_multiple_of(kernel.units.cols)
}

/// Elements of the largest factor of a matrix of order n, with reflectors up to a width.
pub fn most_elements(kernel: Kernel, n: usize, width: usize) -> usize {
    let columns = panel_columns(kernel, width);
    let panel = n.div_ceil(DEEPEST) * kernel.right_elements(DEEPEST, columns)
        + kernel.right_elements(columns, columns);
    let group = GROUP.min(n.max(1));
    let step = parts(kernel, group, width, width + group).last().expect("one at least");
    panel.max(step.at + kernel.reflector_elements(step.count, step.rows))
}

/// Elements of a worker's scratch to make them.
pub fn room(kernel: Kernel, width: usize) -> usize {
    let (sweeps, columns) = (kernel.sweeps(), panel_columns(kernel, width));
    // V and two triangles of a step; rows of V, or T, of a panel.
    ((width + 3 * sweeps) * sweeps).max(DEEPEST.max(columns) * columns)
}

/// Takes the first elements of scratch.
fn take<'m, T>(room: &mut &'m mut [T], count: usize) -> &'m mut [T] {
    let (first, rest) = std::mem::take(room).split_at_mut(count);
    *room = rest;
    first
}

/// Makes a part of step k of sweeps from `first` on, in its place of the step's elements.
///
/// # Safety
/// *Order*: nothing writes a reflector.
pub unsafe fn make_step<T: Scalar>(
    sweeps: &SweepReflectors<T>,
    (first, k): (usize, usize),
    part: &Part,
    kernel: Kernel,
    step: &mut [T],
    mut room: &mut [T],
) {
    let Part { count, rows, .. } = *part;
    let v = take(&mut room, rows * count);
    v.fill(T::ZERO);
    let mut coefficients = [T::ZERO; SWEEPS];
    for (i, column) in v.chunks_exact_mut(rows).enumerate() {
        if let Some(reflector) = sweeps.reflector(first + part.first + i, k) {
            // SAFETY: the caller's promise.
            let reflector = unsafe { reflector.read() };
            let from = blas::column(reflector, 0);
            column[i..i + from.len()].copy_from_slice(from);
            coefficients[i] = std::mem::replace(&mut column[i], T::ONE);
        }
    }
    let v = MatRef::from_column_major_slice(v, rows, count);
    let width = count.next_multiple_of(kernel.units.cols);
    let to = &mut step[part.at..][..kernel.reflector_elements(count, rows)];
    let (of_v, of_t) = to.split_at_mut(width * rows);
    kernel.pack(v.transpose(), of_v);
    let gram = take(&mut room, count * count);
    gram.fill(T::ZERO);
    let transposed = MatMut::from_row_major_slice_mut(gram, count, count);
    match kernel.is_plain {
        true => blas::gemm(transposed, T::ONE, v, Op::Adjoint, v),
        false => add_dots(transposed, v, v),
    }
    let t = take(&mut room, count * count);
    triangle(t, gram, &coefficients[..count]);
    of_t.fill(T::ZERO);
    for (column, to) in t.chunks_exact(count).zip(of_t.chunks_exact_mut(width)) {
        to.iter_mut().zip(column).for_each(|(to, &t)| *to = -t);
    }
}

/// Makes some rows of V of a panel.
///
/// # Safety
/// As above.
pub unsafe fn make_panel<T: Scalar>(
    panel: &PanelReflectors<T>,
    kernel: Kernel,
    piece: &Piece,
    to: &mut [T],
    mut room: &mut [T],
) {
    let (rows, columns) = (piece.rows, panel_columns(kernel, panel.v.cols()));
    // SAFETY: the caller's promise.
    let all = unsafe { panel.v.read() };
    if piece.row >= all.ncols() && all.ncols() == columns {
        return kernel.pack(all.subrows(piece.row, rows), to);
    }
    // With ones and zeros.
    let v = take(&mut room, rows * columns);
    for (j, column) in v.chunks_exact_mut(rows).enumerate() {
        if j >= all.ncols() {
            column.fill(T::ZERO);
            continue;
        }
        column.copy_from_slice(&blas::column(all, j)[piece.row..][..rows]);
        for (i, x) in column.iter_mut().enumerate().take((j + 1).saturating_sub(piece.row)) {
            match (piece.row + i).cmp(&j) {
                Ordering::Less => *x = T::ZERO,
                Ordering::Equal => *x = T::ONE,
                Ordering::Greater => {}
            }
        }
    }
    kernel.pack(MatRef::from_column_major_slice(v, rows, columns), to);
}

/// Makes T of a panel.
///
/// # Safety
/// As above.
pub unsafe fn make_triangle<T: Scalar>(
    panel: &PanelReflectors<T>,
    kernel: Kernel,
    to: &mut [T],
    mut room: &mut [T],
) {
    let columns = panel_columns(kernel, panel.v.cols());
    // SAFETY: the caller's promise.
    let all = unsafe { panel.v.read() };
    let t = take(&mut room, columns * columns);
    t.fill(T::ZERO);
    for (j, column) in t.chunks_exact_mut(columns).enumerate().take(all.ncols()) {
        column[..=j].copy_from_slice(&blas::column(all, j)[..=j]);
    }
    kernel.pack(MatRef::from_column_major_slice(t, columns, columns), to);
}

/// T from the coefficients of reflectors and the lower triangle of V^T conj(V) (Schreiber and Van Loan,
/// SIAM J. Sci. Stat. Comput. 10, 1989). All are column by column.
pub fn triangle<T: Scalar>(t: &mut [T], gram: &[T], coefficients: &[T]) {
    let k = coefficients.len();
    t.fill(T::ZERO);
    for (j, &tau) in coefficients.iter().enumerate() {
        let (before, column) = t.split_at_mut(j * k);
        // T_j = -tau T G_j, with the triangle so far.
        for (l, earlier) in before.chunks_exact(k).enumerate() {
            let factor = -(tau * gram[j + l * k]);
            let pairs = column[..=l].iter_mut().zip(&earlier[..=l]);
            pairs.for_each(|(x, &t)| *x += factor * t);
        }
        column[j] = tau;
    }
}
