//! Columns that depend on those before them, seen in the triangle R of A = Q R.

use crate::comm::Step;
use crate::device::{Squares, Worker};
use crate::matrix::Cells;
use crate::scalar::{DType, Scalar};

/// Reports the first of some columns of R that depends on those before, or is not finite: |R_jj| is
/// at most min(m, n sqrt(m)) eps times the norm of the column, for A of m x n. Column `first` is the
/// first of these, and `above` are their rows before that. The others are `blocks` of rows, from the
/// diagonal to the last column.
pub fn find_dependent<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    above: Option<Cells<T>>,
    blocks: &[Cells<T>],
    first: usize,
    (m, n): (usize, usize),
) -> Step {
    let unit = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    let (rows, columns) = (m as f64, n as f64);
    let bar = rows.min(columns * rows.sqrt()) * unit;
    // No column has a larger norm, so most need no look at their own.
    let mut most = Squares::default();
    for &block in above.iter().chain(blocks) {
        most = most.and(worker.squares(block)?);
    }
    let most = most.root();
    let count = blocks.first().map_or(0, Cells::cols);
    for (i, block) in blocks.iter().enumerate() {
        let (k, before) = (block.rows(), count - block.cols());
        let mut diagonal = vec![T::ZERO; k];
        worker.get(block.sub(0, 0, k, k).diagonal(), &mut diagonal)?;
        for (row, entry) in diagonal.into_iter().enumerate() {
            if entry.modulus() > bar * most {
                continue;
            }
            let j = before + row;
            let mut norm = Squares::default();
            for part in above.iter().chain(&blocks[..i]) {
                norm = norm.and(worker.squares(part.column(j + part.cols() - count))?);
            }
            let norm = norm.and(worker.squares(block.sub(0, row, row + 1, 1))?).root();
            // What is no number is not free either.
            let is_free = entry.modulus() > bar * norm;
            if !is_free {
                worker.report(first + j + 1, entry);
                return Ok(());
            }
        }
    }
    Ok(())
}
