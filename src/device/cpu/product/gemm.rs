//! Products of any matrices, packed piece by piece.

use faer::MatMut;
use faer::MatRef;
use faer::reborrow::ReborrowMut;

use super::{DEEPEST, Packed, Units, multiply, multiply_columns};
use crate::device::Op;
use crate::scalar::Scalar;

/// Below these sizes faer is faster, because it reads small matrices without packing.
const LEAST_LINES: usize = 64;
const LEAST_ELEMENTS: usize = 32 << 10;
const LEAST_DEPTH: usize = 16;
/// Up to so many units of rows the columns of the right factor are not packed.
const MOST_UNPACKED: usize = 6;

/// The pieces of a product that are packed at a time.
#[derive(Clone, Copy)]
pub struct Blocks {
    units: Units,
    /// Steps of the inner dimension, rows and columns of the result.
    depth: usize,
    rows: usize,
    cols: usize,
}

impl Blocks {
    /// For `C <- C + alpha L R` with the inner dimension `depth`; `None` where faer is faster, or
    /// the kernel does not do it. `memory` is for packed rows and columns.
    pub fn new<T: Scalar>(
        c: &MatMut<T>,
        alpha: T,
        depth: usize,
        units: Units,
        memory: [usize; 2],
    ) -> Option<Self> {
        let contiguous = c.row_stride() == 1 || c.col_stride() == 1;
        let fits = (memory[0] / units.rows).min(memory[1] / units.cols);
        let deep = depth.min(DEEPEST).min(fits);
        let (rows, cols) = c.shape();
        let is_large = rows.min(cols) >= LEAST_LINES && rows * cols >= LEAST_ELEMENTS;
        let pays = is_large && deep >= LEAST_DEPTH;
        let is_sign = alpha == T::ONE || alpha == -T::ONE;
        (contiguous && pays && is_sign).then(|| Blocks {
            units,
            depth: deep,
            rows: (memory[0] / deep / units.rows * units.rows).min(units.rows_in_cache::<T>(deep)),
            cols: memory[1] / deep / units.cols * units.cols,
        })
    }
}

/// `C <- C + op(A) B`, or minus if `negated`. `memory` is that of `blocks`.
pub fn gemm<T: Scalar>(
    c: MatMut<T>,
    negated: bool,
    a: MatRef<T>,
    op: Op,
    b: MatRef<T>,
    blocks: Blocks,
    memory: [&mut [T]; 2],
) {
    let a = if op.transposes() { a.transpose() } else { a };
    if c.row_stride() == 1 {
        by_blocks(c, negated, [a, b.transpose()], [op.conjugates(), false], blocks, memory);
    } else {
        // C^T <- C^T + B^T op(A)^T.
        let factors = [b.transpose(), a];
        by_blocks(c.transpose_mut(), negated, factors, [false, op.conjugates()], blocks, memory);
    }
}

/// `C <- C +- L R^T`, the rows of L and of R conjugated or not.
fn by_blocks<T: Scalar>(
    mut c: MatMut<T>,
    negated: bool,
    [l, r]: [MatRef<T>; 2],
    conjugated: [bool; 2],
    blocks: Blocks,
    memory: [&mut [T]; 2],
) {
    let (rows, cols, depth) = (c.nrows(), c.ncols(), l.ncols());
    let [left, right] = memory;
    let is_low = rows <= blocks.rows.min(MOST_UNPACKED * blocks.units.rows);
    if is_low && r.col_stride() == 1 && !conjugated[1] {
        for from in (0..depth).step_by(blocks.depth) {
            let deep = blocks.depth.min(depth - from);
            let part = l.subcols(from, deep);
            let of_left = Packed::new(part, conjugated[0], blocks.units.rows, left);
            let part = r.subcols(from, deep).transpose();
            multiply_columns(c.rb_mut(), negated, &of_left, part, blocks.units.cols, right);
        }
        return;
    }
    for from in (0..depth).step_by(blocks.depth) {
        let deep = blocks.depth.min(depth - from);
        for col in (0..cols).step_by(blocks.cols) {
            let part = r.submatrix(col, from, blocks.cols.min(cols - col), deep);
            let of_right = Packed::new(part, conjugated[1], blocks.units.cols, right);
            for row in (0..rows).step_by(blocks.rows) {
                let part = l.submatrix(row, from, blocks.rows.min(rows - row), deep);
                let of_left = Packed::new(part, conjugated[0], blocks.units.rows, left);
                let c = c.rb_mut().submatrix_mut(row, col, of_left.lines(), of_right.lines());
                multiply(c, negated, &of_left, 0, &of_right);
            }
        }
    }
}
