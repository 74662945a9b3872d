//! A line of memory in registers, for the three instruction sets of the CPU kernels.
//!
//! Methods are inlined into a caller that has the instruction set: see [`fine`](super::fine) and
//! [`tiles`](super::tiles).

use super::memory::LINE;

/// One line: 64 bytes.
pub trait Vector: Copy {
    /// # Safety
    /// The machine has the instruction set; `from` has 64 initialised bytes, at any alignment.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// The machine has the instruction set; `to` has room for 64 bytes, at any alignment.
    unsafe fn store(self, to: *mut u8);
    /// The bits of `other` where `mask` is set, else those of `self`.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn blend(self, other: Self, mask: Self) -> Self;
    /// One step of a transposition. It cuts both lines into pieces of B = 4, 8, 16 or 32 bytes.
    /// Then it exchanges the odd pieces of `self` with the even ones of `other`.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn trade<const B: usize>(self, other: Self) -> (Self, Self);
}

impl Vector for [u64; 8] {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises the bytes.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises room.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        std::array::from_fn(|k| self[k] ^ ((self[k] ^ other[k]) & mask[k]))
    }

    #[inline(always)]
    unsafe fn trade<const B: usize>(self, other: Self) -> (Self, Self) {
        let words = B / 8;
        if words > 0 {
            let even = |k: usize| if k & words == 0 { self[k] } else { other[k - words] };
            let odd = |k: usize| if k & words == 0 { self[k + words] } else { other[k] };
            return (std::array::from_fn(even), std::array::from_fn(odd));
        }
        // The first half of a word in memory is its low half; `to_le` ensures that.
        let low = 0xFFFF_FFFF;
        let (a, b) = (self.map(u64::to_le), other.map(u64::to_le));
        let even: Self = std::array::from_fn(|k| (a[k] & low) | (b[k] << 32));
        let odd: Self = std::array::from_fn(|k| (a[k] >> 32) | (b[k] & !low));
        (even.map(u64::from_le), odd.map(u64::from_le))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Vector, Work, with};
    use std::arch::x86_64::*;

    impl Vector for [__m256i; 2] {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller promises AVX2 and the bytes.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller promises AVX2 and room.
            unsafe {
                _mm256_storeu_si256(to.cast(), self[0]);
                _mm256_storeu_si256(to.add(32).cast(), self[1]);
            }
        }

        #[inline(always)]
        unsafe fn blend(self, other: Self, mask: Self) -> Self {
            // SAFETY: the caller promises AVX2.
            unsafe {
                [
                    _mm256_blendv_epi8(self[0], other[0], mask[0]),
                    _mm256_blendv_epi8(self[1], other[1], mask[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn trade<const B: usize>(self, other: Self) -> (Self, Self) {
            let ([a, b], [c, d]) = (self, other);
            // SAFETY: the caller promises AVX2.
            let half = |x: __m256i, y: __m256i| unsafe {
                match B {
                    4 => (
                        _mm256_blend_epi32::<0xAA>(x, _mm256_slli_epi64::<32>(y)),
                        _mm256_blend_epi32::<0xAA>(_mm256_srli_epi64::<32>(x), y),
                    ),
                    8 => (_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y)),
                    _ => (
                        _mm256_permute2x128_si256::<0x20>(x, y),
                        _mm256_permute2x128_si256::<0x31>(x, y),
                    ),
                }
            };
            if B == 32 {
                return ([a, c], [b, d]);
            }
            let ((e, f), (g, h)) = (half(a, c), half(b, d));
            ([e, g], [f, h])
        }
    }

    impl Vector for __m512i {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller promises AVX-512 and the bytes.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller promises AVX-512 and room.
            unsafe { _mm512_storeu_si512(to.cast(), self) };
        }

        #[inline(always)]
        unsafe fn blend(self, other: Self, mask: Self) -> Self {
            // SAFETY: the caller promises AVX-512. The immediate is mask ? other : self.
            unsafe { _mm512_ternarylogic_epi64::<0xCA>(mask, other, self) }
        }

        #[inline(always)]
        unsafe fn trade<const B: usize>(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller promises AVX-512.
            unsafe {
                match B {
                    4 => (
                        _mm512_mask_shuffle_epi32::<0xA0>(self, 0xAAAA, other),
                        _mm512_mask_shuffle_epi32::<0xF5>(other, 0x5555, self),
                    ),
                    8 => (_mm512_unpacklo_epi64(self, other), _mm512_unpackhi_epi64(self, other)),
                    16 => {
                        let even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
                        let odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
                        (
                            _mm512_permutex2var_epi64(self, even, other),
                            _mm512_permutex2var_epi64(self, odd, other),
                        )
                    }
                    _ => (
                        _mm512_shuffle_i64x2::<0x44>(self, other),
                        _mm512_shuffle_i64x2::<0xEE>(self, other),
                    ),
                }
            }
        }
    }

    /// # Safety
    /// As for [`Work::run`].
    #[target_feature(enable = "avx512f")]
    pub unsafe fn avx512<const S: usize>(work: impl Work<S>) {
        // SAFETY: the caller promises it.
        unsafe { with::<__m512i, S>(work) }
    }

    /// # Safety
    /// As for [`Work::run`].
    #[target_feature(enable = "avx2")]
    pub unsafe fn avx2<const S: usize>(work: impl Work<S>) {
        // SAFETY: the caller promises it.
        unsafe { with::<[__m256i; 2], S>(work) }
    }
}

/// Work on elements of S bytes, for every instruction set.
pub trait Work<const S: usize> {
    /// Does it; K elements fill a line. It is `inline(always)`.
    ///
    /// # Safety
    /// The machine has the instruction set of V. The type says what else.
    unsafe fn run<V: Vector, const K: usize>(self);
}

/// # Safety
/// As for [`Work::run`].
#[inline(always)]
pub unsafe fn with<V: Vector, const S: usize>(work: impl Work<S>) {
    // SAFETY: the caller promises it.
    unsafe {
        match S {
            4 => work.run::<V, { LINE / 4 }>(),
            8 => work.run::<V, { LINE / 8 }>(),
            _ => work.run::<V, { LINE / 16 }>(),
        }
    }
}

/// Does the work with the widest registers of the machine.
///
/// # Safety
/// As for [`Work::run`], apart from the instruction set.
pub unsafe fn with_widest<const S: usize>(work: impl Work<S>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises the rest; the CPU has these sets.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            return x86::avx512(work);
        }
        if is_x86_feature_detected!("avx2") {
            return x86::avx2(work);
        }
    }
    // SAFETY: the caller promises it.
    unsafe { with::<[u64; 8], S>(work) }
}
