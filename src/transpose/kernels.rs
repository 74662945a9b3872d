//! The transposition in registers of AVX2 and AVX-512, for the tables of
//! [`registers`](super::registers).

use super::memory::{LINE, prefetch_far};
use super::tables::{BITS, Rotation, Tables, Turn, Words};
use std::arch::x86_64::*;

/// A register. Its methods are inlined into a caller that has the instruction set.
trait Register: Copy {
    type Mask: Copy;

    /// # Safety
    /// The machine has the instruction set, here and below. `from` has a register of initialised
    /// bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `to` has room for a register.
    unsafe fn store(self, to: *mut u8);
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn mask(words: &Words) -> Self::Mask;
    /// The words of `other` where the mask is set.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn select(self, other: Self, mask: Self::Mask) -> Self;
    /// Word k becomes word from[k].
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn shuffle(self, from: Self) -> Self;
}

impl Register for __m512i {
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises the instruction set and the memory.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises the instruction set and the memory.
        unsafe { _mm512_storeu_si512(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn mask(words: &Words) -> __mmask16 {
        words.iter().rev().fold(0, |mask, word| mask << 1 | (word & 1) as __mmask16)
    }

    #[inline(always)]
    unsafe fn select(self, other: Self, mask: __mmask16) -> Self {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_mask_blend_epi32(mask, self, other) }
    }

    #[inline(always)]
    unsafe fn shuffle(self, from: Self) -> Self {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_permutexvar_epi32(from, self) }
    }
}

impl Register for __m256i {
    type Mask = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises the instruction set and the memory.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises the instruction set and the memory.
        unsafe { _mm256_storeu_si256(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn mask(words: &Words) -> Self {
        // SAFETY: the caller promises the instruction set and the memory.
        unsafe { Self::load(words.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn select(self, other: Self, mask: Self) -> Self {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm256_blendv_epi8(self, other, mask) }
    }

    #[inline(always)]
    unsafe fn shuffle(self, from: Self) -> Self {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm256_permutevar8x32_epi32(self, from) }
    }
}

/// Repeats the expression for every number below N, each time with a constant. Arrays that
/// constants index stay in registers; the compiler does not unroll long loops.
macro_rules! each {
    ($k:ident => $do:expr) => {
        each!($k => $do; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
            29 30 31)
    };
    ($k:ident => $do:expr; $($n:literal)*) => {
        $(if $n < N {
            const $k: usize = $n;
            $do
        })*
    };
}

/// Lane by lane, register k takes from register k + BY where the mask is set.
///
/// # Safety
/// The machine has the instruction set of R.
#[inline(always)]
unsafe fn shift<R: Register, const N: usize, const BY: usize>(x: [R; N], mask: R::Mask) -> [R; N] {
    let mut y = x;
    // SAFETY: the caller promises instruction set and memory.
    each!(K => unsafe { y[K] = x[K].select(x[(K + BY) % N], mask) });
    y
}

/// # Safety
/// The machine has the instruction set of R.
#[inline(always)]
unsafe fn rotate<R: Register, const N: usize>(
    mut x: [R; N],
    masks: &[R::Mask; BITS],
    bits: usize,
) -> [R; N] {
    // SAFETY: the caller promises instruction set and memory.
    unsafe {
        if bits > 0 {
            x = shift::<R, N, 1>(x, masks[0]);
        }
        if bits > 1 {
            x = shift::<R, N, 2>(x, masks[1]);
        }
        if bits > 2 {
            x = shift::<R, N, 4>(x, masks[2]);
        }
        if bits > 3 {
            x = shift::<R, N, 8>(x, masks[3]);
        }
    }
    x
}

/// Transposes as many structures as fill whole registers.
///
/// # Safety
/// As for [`Turn::run`], with N lines. The machine has the instruction set of R, and `tables` are
/// for R.
#[inline(always)]
unsafe fn kernel<R: Register, const N: usize>(turn: &Turn, tables: &Tables) {
    let bytes = size_of::<R>();
    let row = |i: usize| turn.rows.wrapping_add(i * bytes);
    let address = |rows: bool, i: usize| if rows { row(i) } else { turn.lines[i] };
    let advance = |rows: bool| if rows { N * bytes } else { bytes };
    let from: [*mut u8; N] = std::array::from_fn(|k| address(turn.split, tables.load[k]));
    let to: [*mut u8; N] = std::array::from_fn(|k| address(!turn.split, tables.store[k]));
    let (from_step, to_step) = (advance(turn.split), advance(!turn.split));
    let [before, after] = &tables.rotations;
    // SAFETY: the caller promises rows and lines; `shuffle` has at least as many words as a
    // register.
    unsafe {
        let masks = |r: &Rotation| std::array::from_fn(|k| R::mask(&r.masks[k]));
        let (first, second) = (masks(before), masks(after));
        for step in 0..turn.height / tables.lanes {
            for line in (0..N * bytes).step_by(LINE) {
                prefetch_far(turn.soon.wrapping_add(step * N * bytes + line));
            }
            let mut x = [R::load(from[0]); N];
            each!(K => x[K] = R::load(from[K].wrapping_add(step * from_step)));
            x = rotate(x, &first, before.bits);
            each!(K => x[K] = x[K].shuffle(R::load(tables.shuffle[K].as_ptr().cast())));
            x = rotate(x, &second, after.bits);
            each!(K => x[K].store(to[K].wrapping_add(step * to_step)));
        }
    }
}

/// Selects the kernel by the number of lines.
macro_rules! kernels {
    ($name:ident, $sized:ident, $register:ty, $feature:literal: $($n:literal)*) => {
        /// # Safety
        /// As for [`Turn::run`]. The machine has the instruction set, and the tables are for its
        /// registers.
        pub unsafe fn $name(turn: &Turn, tables: &Tables) {
            // SAFETY: the caller promises instruction set and memory.
            unsafe {
                match turn.lines.len() {
                    $($n => $sized::<$n>(turn, tables),)*
                    other => panic!("structures of {other} elements"),
                }
            }
        }

        #[target_feature(enable = $feature)]
        unsafe fn $sized<const N: usize>(turn: &Turn, tables: &Tables) {
            // SAFETY: the caller promises instruction set and memory.
            unsafe { kernel::<$register, N>(turn, tables) };
        }
    };
}
kernels!(avx512, avx512_sized, __m512i, "avx512f":
    2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
kernels!(avx2, avx2_sized, __m256i, "avx2":
    2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
