//! What speeds are measured against, in the same process: faer's product, and a copy of memory.

use std::time::Instant;

use faer::{Accum, Mat, Par, linalg::matmul::matmul};

use crate::scalar::Scalar;
use crate::transpose;

/// Seconds of one n x n x n product by faer on `threads` threads: the yardstick of all speed ratios.
pub fn gemm_seconds<T: Scalar>(n: usize, threads: usize) -> f64 {
    let entry = |i: usize, j: usize, p: usize, q: usize| {
        let value = ((i * p + j * q) % 101) as f64 / 101.0;
        T::from_f64_impl(value)
    };
    let a = Mat::<T>::from_fn(n, n, |i, j| entry(i, j, 7, 13));
    let b = Mat::<T>::from_fn(n, n, |i, j| entry(i, j, 11, 5));
    let mut c = Mat::<T>::zeros(n, n);
    let par = if threads > 1 { Par::rayon(threads) } else { Par::Seq };
    let start = Instant::now();
    matmul(c.as_mut(), Accum::Replace, a.as_ref(), b.as_ref(), T::ONE, par);
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(c.as_ref());
    seconds
}

/// Seconds of the in-place transposition of a row-major rows x cols array of elements of type E by
/// `threads` threads, and of a copy of the same array by as many.
pub fn transpose_seconds<E: transpose::Bits + Default + Sync>(
    rows: usize,
    cols: usize,
    threads: usize,
) -> (f64, f64) {
    // Written once, so that the memory exists: zeroed memory does not, until it is touched.
    let mut data = vec![E::default(); rows * cols];
    data.fill(std::hint::black_box(E::default()));
    let start = Instant::now();
    transpose::transpose_in_place(&mut data, rows, cols, threads);
    let transposed = start.elapsed().as_secs_f64();
    let mut copy = vec![E::default(); rows * cols];
    let mut copied = f64::INFINITY;
    for _ in 0..2 {
        // The first time makes the memory.
        let piece = data.len().div_ceil(threads).max(1);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in data.chunks(piece).zip(copy.chunks_mut(piece)) {
                scope.spawn(move || to.copy_from_slice(from));
            }
        });
        copied = start.elapsed().as_secs_f64();
    }
    std::hint::black_box(&copy);
    (transposed, copied)
}
