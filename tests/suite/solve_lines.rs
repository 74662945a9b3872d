//! Triangular solves of tiles, with the kernel and by faer: all sides, triangles and operations, by
//! rows and by columns, with numbers of lines around those that the kernel takes and packs at a time.

use crate::common::for_all_scalars;
use faer::Mat;
use meshsolve::comm::Communicator;
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::device::{Device, Op, Side, Triangle};
use meshsolve::matrix::Cells;
use meshsolve::scalar::{DType, Scalar};

/// The triangle, with NaN in the other half and where ones are implied.
fn triangle<T: Scalar>(n: usize, triangle: Triangle) -> Mat<T> {
    Mat::from_fn(n, n, |i, j| match (i == j, (i > j) == triangle.is_lower()) {
        (true, _) if triangle.has_ones() => T::NAN,
        (true, _) => T::of_parts(4.0 + (i % 3) as f64, 0.0),
        (false, true) => T::of_parts(((i * 3 + j) % 7) as f64 / 56.0, ((i + j) % 5) as f64 / 80.0),
        (false, false) => T::NAN,
    })
}

fn entry<T: Scalar>(t: &Mat<T>, of: Triangle, op: Op, i: usize, j: usize) -> T {
    let (i, j) = if op.transposes() { (j, i) } else { (i, j) };
    let x = match (i == j, (i > j) == of.is_lower()) {
        (true, _) if of.has_ones() => T::ONE,
        (true, _) | (false, true) => t[(i, j)],
        (false, false) => T::ZERO,
    };
    if op.conjugates() { T::conj_impl(&x) } else { x }
}

fn solves<T: Scalar>() {
    use Op::{Adjoint, Conjugate, None, Transpose};
    let (n, bound) = (37, if T::DTYPE.real() == DType::F32 { 1e-4 } else { 1e-12 });
    let all = [Triangle::Lower, Triangle::UnitLower, Triangle::Upper, Triangle::UnitUpper];
    let left = [None, Conjugate, Transpose, Adjoint].map(|op| (Side::Left, op));
    let cases = left.into_iter().chain([(Side::Right, None), (Side::Right, Adjoint)]);
    for ((side, op), of) in cases.flat_map(|case| all.map(|of| (case, of))) {
        for (lines, by_rows, kernel) in [47, 48, 950]
            .into_iter()
            .flat_map(|l| [(l, false, true), (l, true, true), (l, false, false)])
        {
            let t = triangle::<T>(n, of);
            let x =
                |line: usize, p: usize| T::of_parts(((line * 5 + p) % 9) as f64, (line % 4) as f64);
            // The line of B for a line of X, on either side.
            let b = |line: usize, p: usize| {
                (0..n).fold(T::ZERO, |sum, q| {
                    let (i, j) = if side == Side::Left { (p, q) } else { (q, p) };
                    sum + entry(&t, of, op, i, j) * x(line, q)
                })
            };
            let (rows, cols) = if side == Side::Left { (n, lines) } else { (lines, n) };
            let at = |i: usize, j: usize| if side == Side::Left { (j, i) } else { (i, j) };
            let index = |i: usize, j: usize| if by_rows { i * cols + j } else { j * rows + i };
            let mut memory = vec![T::ZERO; rows * cols];
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let (line, p) = at(i, j);
                memory[index(i, j)] = b(line, p);
            }
            let mut of_t: Vec<T> = (0..n * n).map(|e| t[(e % n, e / n)]).collect();
            let mut scratch = vec![T::NAN; scratch_elements::<T>(40, 1)];
            let comm = Communicator::new(1);
            // SAFETY: *order*: the only worker.
            let worker = unsafe { CpuWorker::new(&comm, 0, 40, Cells::of(&mut scratch)) };
            let mut worker = if kernel { worker } else { worker.without_kernel() };
            let cells = Cells::of(&mut memory);
            let cells = if by_rows {
                cells.by_rows(rows, cols)
            } else {
                cells.by_columns(rows, cols, rows)
            };
            worker.trsm(side, Cells::of(&mut of_t).by_columns(n, n, n), of, op, cells);
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let (line, p) = at(i, j);
                let error = (memory[index(i, j)] + -x(line, p)).magnitude();
                let case = format!("{side:?} {of:?} {op:?} {lines} {by_rows} {kernel} ({i}, {j})");
                assert!(error < bound, "{:?} {case}: {error}", T::DTYPE);
            }
        }
    }
}

for_all_scalars!(solves);
