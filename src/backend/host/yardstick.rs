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
/// of a copy of the same array by as many.
pub fn transpose_seconds<E: transpose::Bits + Default + Sync>(
    plan: &transpose::Plan,
    threads: usize,
) -> (f64, f64) {
    let transposition = |data: &mut [E]| transpose::transpose_with(plan, data, threads);
    against_copy(plan.rows() * plan.cols(), threads, transposition)
}

/// The same for a square matrix of `order` rows that lie in `parts` places.
pub fn transpose_square_seconds<E: transpose::Bits + Default + Sync>(
    order: usize,
    parts: usize,
    threads: usize,
) -> (f64, f64) {
    let square = transpose::Square::new(order, parts, size_of::<E>());
    against_copy(order * order, threads, |data: &mut [E]| {
        let (units, piece) = (square.units(), data.len() / parts);
        // The last part comes first.
        let base = data.as_mut_ptr().expose_provenance();
        let part = move |p: usize| {
            std::ptr::with_exposed_provenance_mut(base + (parts - 1 - p) * piece * size_of::<E>())
        };
        std::thread::scope(|scope| {
            for lane in 0..threads {
                let mine = units * lane / threads..units * (lane + 1) / threads;
                // SAFETY: disjoint parts of `data`, which is borrowed; every unit runs once.
                scope.spawn(move || unsafe { square.run(mine, part) });
            }
        });
    })
}

/// Seconds of `work` on an array of `len` elements, and of a copy of it by `threads` threads: the faster
/// of an ordinary and of a streaming one, which does not read what it overwrites. Source and target
/// are alike in alignment, that of XLA's arrays, and in whatever pages the system gives.
fn against_copy<E: Copy + Default + Send + Sync>(
    len: usize,
    threads: usize,
    work: impl FnOnce(&mut [E]),
) -> (f64, f64) {
    const ALIGNMENT: usize = 64;
    let slack = ALIGNMENT / size_of::<E>();
    let (mut data, mut copy) = (vec![E::default(); len + slack], vec![E::default(); len + slack]);
    let aligned = |memory: &[E]| memory.as_ptr().align_offset(ALIGNMENT);
    let (start, target) = (aligned(&data), aligned(&copy));
    let (data, copy) = (&mut data[start..][..len], &mut copy[target..][..len]);
    // Written once, so that the memory exists: zeroed memory does not, until it is touched.
    data.fill(std::hint::black_box(E::default()));
    let begin = Instant::now();
    work(data);
    let worked = begin.elapsed().as_secs_f64();
    let mut copied = f64::INFINITY;
    // The first time makes the memory.
    for stream in [false, false, true] {
        let piece = len.div_ceil(threads).max(1);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in data.chunks(piece).zip(copy.chunks_mut(piece)) {
                let run =
                    if stream { stream_copy } else { |f: &[E], t: &mut [E]| t.copy_from_slice(f) };
                scope.spawn(move || run(from, to));
            }
        });
        copied = copied.min(begin.elapsed().as_secs_f64());
    }
    std::hint::black_box(&copy);
    (worked, copied)
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
