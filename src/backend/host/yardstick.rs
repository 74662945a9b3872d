//! What speeds are measured against, in the same process: faer's product.

use std::time::Instant;

use faer::{Accum, Mat, Par, linalg::matmul::matmul};

use crate::scalar::Scalar;

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
