//! Parts of contiguous elements as vectors. Everything here is inlined into functions with the
//! instructions of `simd`.

use bytemuck::Zeroable;
use pulp::{Simd, WithSimd};

use crate::scalar::{Lanes, Scalar, Vector};

/// Does `work` with the vectors of this processor, or gives it back where there are none.
pub fn with_vectors<W: WithSimd>(work: W) -> Result<W::Output, W> {
    #[cfg(target_arch = "x86_64")]
    match pulp::Arch::new() {
        pulp::Arch::V4(simd) => return Ok(Simd::vectorize(simd, work)),
        pulp::Arch::V3(simd) => return Ok(Simd::vectorize(simd, work)),
        _ => {}
    }
    Err(work)
}

/// Elements of a vector.
#[inline(always)]
pub const fn length<T: Scalar, S: Simd>() -> usize {
    size_of::<Vector<T, S>>() / size_of::<T>()
}

/// Real numbers of an element.
const fn parts<T: Scalar>() -> usize {
    size_of::<T>() / size_of::<T::Real>()
}

#[inline(always)]
pub fn zero<T: Scalar, S: Simd>(simd: S) -> Vector<T, S> {
    T::Real::splat(simd, Zeroable::zeroed())
}

/// The first `count` elements at `at`, at most those of a vector, and zeros after them.
///
/// # Safety
/// They are there.
#[inline(always)]
pub unsafe fn load<T: Scalar, S: Simd>(simd: S, at: *const T, count: usize) -> Vector<T, S> {
    if count == length::<T, S>() {
        // SAFETY: the caller promises a whole vector.
        return unsafe { at.cast::<Vector<T, S>>().read_unaligned() };
    }
    // SAFETY: the caller promises these elements, which consist of real numbers.
    T::Real::load_part(simd, unsafe { std::slice::from_raw_parts(at.cast(), count * parts::<T>()) })
}

/// Writes what `load` reads.
///
/// # Safety
/// As there, and they are this thread's.
#[inline(always)]
pub unsafe fn store<T: Scalar, S: Simd>(simd: S, at: *mut T, count: usize, vector: Vector<T, S>) {
    if count == length::<T, S>() {
        // SAFETY: the caller promises a whole vector.
        return unsafe { at.cast::<Vector<T, S>>().write_unaligned(vector) };
    }
    // SAFETY: the caller promises these elements, which consist of real numbers.
    let to = unsafe { std::slice::from_raw_parts_mut(at.cast(), count * parts::<T>()) };
    T::Real::store_part(simd, to, vector);
}
