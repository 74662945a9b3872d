//! Columns that depend on those before them, seen in the triangle R of A = Q R.

use crate::comm::Step;
use crate::device::Worker;
use crate::matrix::Cells;
use crate::scalar::{DType, Scalar};

/// Reports the first of some columns of R that depends on those before, or is not finite: |R_jj| is
/// at most min(m, n sqrt(m)) eps times the norm of the column, for A of m x n. The first of `r` is
/// column `first`, and the rows above it are there.
pub fn find_dependent<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    r: Cells<T>,
    first: usize,
    (m, n): (usize, usize),
) -> Step {
    let unit = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    let (rows, columns, count) = (m as f64, n as f64, r.cols());
    let bar = rows.min(columns * rows.sqrt()) * unit;
    let mut diagonal = vec![T::ZERO; count];
    worker.get(r.sub(first, 0, count, count).diagonal(), &mut diagonal)?;
    // No column has a larger norm, so most need no look at their own.
    let most = worker.squares(r.sub(0, 0, first + count, count))?.root();
    for (j, entry) in diagonal.into_iter().enumerate() {
        if entry.modulus() > bar * most {
            continue;
        }
        let norm = worker.squares(r.sub(0, j, first + j + 1, 1))?.root();
        let is_free = entry.modulus() > bar * norm;
        // What is no number is not free either.
        if !is_free {
            worker.report(first + j + 1, entry);
            break;
        }
    }
    Ok(())
}
