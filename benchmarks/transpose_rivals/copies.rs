//! Copies of memory: ordinary ones, and streaming ones, which bypass the caches and do not read the
//! target.

use crate::threads::shared_out;

pub fn copy(from: &[u8], to: &mut [u8], threads: usize, streaming: bool) {
    // Whole pages, so that two threads never write to one cache line.
    let piece = from.len().div_ceil(threads).next_multiple_of(4096);
    shared_out(from.chunks(piece).zip(to.chunks_mut(piece)), |(from, to)| {
        if streaming { stream(from, to) } else { to.copy_from_slice(from) }
    });
}

/// A copy that bypasses the caches where the processor supports that.
#[inline]
pub fn stream(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const STEP: usize = 16;
        let head = to.as_ptr().align_offset(STEP).min(to.len());
        let end = head + (to.len() - head) / STEP * STEP;
        to[..head].copy_from_slice(&from[..head]);
        for k in (head..end).step_by(STEP) {
            // SAFETY: 16 bytes within both slices; the target is aligned to 16.
            unsafe {
                let bits = _mm_loadu_si128(from.as_ptr().add(k).cast::<__m128i>());
                _mm_stream_si128(to.as_mut_ptr().add(k).cast::<__m128i>(), bits);
            }
        }
        to[end..].copy_from_slice(&from[end..]);
        // The end of the thread orders these stores before reads of other threads: no fence here.
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}
