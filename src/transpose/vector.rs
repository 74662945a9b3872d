//! A line of memory in registers, for the three instruction sets the host kernels know.
//!
//! Methods are inlined into a caller that has the instruction set: see [`fine`](super::fine).

/// One line: 64 bytes.
pub trait Vector: Copy {
    /// # Safety
    /// The machine has the instruction set; 64 initialised bytes, at any alignment.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// The machine has the instruction set; 64 bytes, at any alignment.
    unsafe fn store(self, to: *mut u8);
    /// The bits of `other` where `mask` is set, else those of `self`.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn blend(self, other: Self, mask: Self) -> Self;
}

/// Whatever the compiler makes of it.
impl Vector for [u64; 8] {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: promised by the caller.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: promised by the caller.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        std::array::from_fn(|k| self[k] ^ ((self[k] ^ other[k]) & mask[k]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// AVX2.
    impl Vector for [__m256i; 2] {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: promised by the caller.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: promised by the caller.
            unsafe {
                _mm256_storeu_si256(to.cast(), self[0]);
                _mm256_storeu_si256(to.add(32).cast(), self[1]);
            }
        }

        #[inline(always)]
        unsafe fn blend(self, other: Self, mask: Self) -> Self {
            // SAFETY: promised by the caller.
            unsafe {
                [
                    _mm256_blendv_epi8(self[0], other[0], mask[0]),
                    _mm256_blendv_epi8(self[1], other[1], mask[1]),
                ]
            }
        }
    }

    /// AVX-512.
    impl Vector for __m512i {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: promised by the caller.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: promised by the caller.
            unsafe { _mm512_storeu_si512(to.cast(), self) };
        }

        #[inline(always)]
        unsafe fn blend(self, other: Self, mask: Self) -> Self {
            // SAFETY: promised by the caller. The immediate is mask ? other : self.
            unsafe { _mm512_ternarylogic_epi64::<0xCA>(mask, other, self) }
        }
    }
}
