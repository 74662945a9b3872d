//! What a single thread writes to the results when all lanes have returned.

use super::job::Solver;
use super::operands::Kind;
use crate::call::Buffer;
use crate::scalar::{DType, Scalar};

impl<T: Scalar> Solver<T> {
    /// Gives a real number as the result of that kind, on all ranks.
    pub fn give_real(&self, value: f64) {
        for buffer in self.results(Kind::Real) {
            match T::DTYPE.real() {
                // SAFETY: a real scalar (checked), written by this thread alone.
                DType::F32 => unsafe { buffer.ptr.cast::<f32>().write(value as f32) },
                // SAFETY: as above.
                _ => unsafe { buffer.ptr.cast::<f64>().write(value) },
            }
        }
    }

    /// Gives the numbers that are results, in their order, on all ranks.
    pub fn give_values(&self, values: &[T]) {
        for (i, buffer) in self.results(Kind::Value).enumerate() {
            // SAFETY: a scalar of this dtype (checked), written by this thread alone.
            unsafe { buffer.ptr.cast::<T>().write(values[i % values.len()]) };
        }
    }

    /// Whether any result is a number of the matrix's dtype.
    pub fn gives_values(&self) -> bool {
        self.results(Kind::Value).next().is_some()
    }

    /// All results of a kind, rank by rank.
    pub(super) fn results(&self, kind: Kind) -> impl Iterator<Item = &Buffer> {
        let slots = self.options.verb.signature.rets;
        let all = self.calls.iter().flat_map(move |call| slots.iter().zip(&call.rets));
        all.filter(move |(slot, _)| slot.kind == kind).map(|(_, buffer)| buffer)
    }
}

/// Copies what rank 0 has to the others.
pub fn share<'a>(mut results: impl Iterator<Item = &'a Buffer>) {
    let Some(first) = results.next() else { return };
    for other in results {
        // SAFETY: equal shapes (checked), distinct results of XLA.
        unsafe { std::ptr::copy_nonoverlapping(first.ptr, other.ptr, first.bytes()) };
    }
}

/// Makes all of a result no number.
pub fn fill_nan<T: Scalar>(x: &Buffer) {
    let elements = x.dims.iter().product();
    if elements == 0 {
        return;
    }
    // SAFETY: a result of XLA of this dtype (checked) and size, written by this thread alone.
    unsafe { std::slice::from_raw_parts_mut(x.ptr.cast::<T>(), elements) }.fill(T::NAN);
}
