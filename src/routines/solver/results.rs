//! A single thread writes these results after all workers have returned.

use super::job::Solver;
use super::operands::Kind;
use crate::call::Buffer;
use crate::device::memory::write_one;
use crate::error::Result;
use crate::scalar::{DType, Scalar};

impl<T: Scalar> Solver<T> {
    /// Writes a real number to the result of that kind, on all ranks.
    pub fn give_real(&self, value: f64) -> Result<()> {
        self.results(Kind::Real).try_for_each(|buffer| match T::DTYPE.real() {
            // SAFETY: a real scalar (checked). Only this thread writes it.
            DType::F32 => unsafe { write_one(self.memory(), value as f32, buffer.ptr.cast()) },
            // SAFETY: as above.
            _ => unsafe { write_one(self.memory(), value, buffer.ptr.cast()) },
        })
    }

    /// Writes the results of kind `Value`, in their order, on all ranks.
    pub fn give_values(&self, values: &[T]) -> Result<()> {
        self.results(Kind::Value).enumerate().try_for_each(|(i, buffer)| {
            // SAFETY: a scalar of this dtype (checked). Only this thread writes it.
            unsafe { write_one(self.memory(), values[i % values.len()], buffer.ptr.cast()) }
        })
    }

    /// Writes LAPACK's `info`, on all ranks.
    pub(super) fn give_info(&self, info: i32) -> Result<()> {
        // SAFETY: int32 scalars (checked). Only this thread writes them.
        let give = |b: &Buffer| unsafe { write_one(self.memory(), info, b.ptr.cast()) };
        self.results(Kind::Info).try_for_each(give)
    }

    /// Whether any result is a number of the matrix's dtype.
    pub fn gives_values(&self) -> bool {
        self.results(Kind::Value).next().is_some()
    }

    /// All results of a kind, rank by rank.
    fn results(&self, kind: Kind) -> impl Iterator<Item = &Buffer> {
        let slots = self.options.verb.signature.rets;
        let all = self.calls.iter().flat_map(move |call| slots.iter().zip(&call.rets));
        all.filter(move |(slot, _)| slot.kind == kind).map(|(_, buffer)| buffer)
    }

    /// Copies rank 0's result of a kind to the other ranks.
    pub(super) fn share(&self, kind: Kind) -> Result<()> {
        let mut results = self.results(kind);
        let Some(first) = results.next() else { return Ok(()) };
        let others: Vec<_> = results.map(|other| other.ptr).collect();
        // SAFETY: equal shapes (checked); XLA's results are distinct.
        unsafe { self.memory().spread(first.ptr, &others, first.bytes()) }
    }

    /// Fills all results of a kind with NaN.
    pub(super) fn fill_nan(&self, kind: Kind) -> Result<()> {
        let (f32, f64) = (f32::NAN.to_ne_bytes(), f64::NAN.to_ne_bytes());
        let word: &[u8] = if T::DTYPE.real() == DType::F32 { &f32 } else { &f64 };
        self.results(kind).try_for_each(|x| {
            // SAFETY: a result of XLA whose real parts have this width. Only this thread writes it.
            unsafe { self.memory().fill(x.ptr, word, x.bytes() / word.len()) }
        })
    }
}
