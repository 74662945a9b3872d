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

/// Seconds of an in-place transposition of elements of type E as `plan` says by `threads` threads, and
/// of a copy of the same array by as many: the faster of an ordinary and of a streaming one, which
/// does not read what it overwrites.
pub fn transpose_seconds<E: transpose::Bits + Default + Sync>(
    plan: &transpose::Plan,
    threads: usize,
) -> (f64, f64) {
    let (rows, cols) = (plan.rows(), plan.cols());
    // Written once, so that the memory exists: zeroed memory does not, until it is touched.
    let mut data = vec![E::default(); rows * cols];
    data.fill(std::hint::black_box(E::default()));
    let start = Instant::now();
    transpose::transpose_with(plan, &mut data, threads);
    let transposed = start.elapsed().as_secs_f64();
    let mut copy = vec![E::default(); rows * cols];
    let mut copied = f64::INFINITY;
    // The first time makes the memory.
    for stream in [false, false, true] {
        let piece = data.len().div_ceil(threads).max(1);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in data.chunks(piece).zip(copy.chunks_mut(piece)) {
                let run =
                    if stream { stream_copy } else { |f: &[E], t: &mut [E]| t.copy_from_slice(f) };
                scope.spawn(move || run(from, to));
            }
        });
        copied = copied.min(start.elapsed().as_secs_f64());
    }
    std::hint::black_box(&copy);
    (transposed, copied)
}

/// Copies past the caches where the processor offers that.
fn stream_copy<E: Copy>(from: &[E], to: &mut [E]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let step = 16 / size_of::<E>();
        let head = to.as_ptr().cast::<u8>().align_offset(16).div_ceil(size_of::<E>());
        let middle = to.len().saturating_sub(head) / step * step;
        if (to.as_ptr() as usize).is_multiple_of(size_of::<E>()) && middle > 0 {
            to[..head].copy_from_slice(&from[..head]);
            for i in (head..head + middle).step_by(step) {
                // SAFETY: 16 bytes within both slices; the target is aligned to 16.
                unsafe {
                    let line = _mm_loadu_si128(from.as_ptr().add(i).cast::<__m128i>());
                    _mm_stream_si128(to.as_mut_ptr().add(i).cast::<__m128i>(), line);
                }
            }
            // SAFETY: part of the instruction set that every x86-64 has.
            unsafe { _mm_sfence() };
            let done = head + middle;
            return to[done..].copy_from_slice(&from[done..]);
        }
    }
    to.copy_from_slice(from);
}
