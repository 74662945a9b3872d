//! A single thread writes these results after all workers have returned.

use bytemuck::Pod;

use super::job::Solver;
use super::slot::Kind;
use crate::call::Buffer;
use crate::device::memory;
use crate::error::Result;
use crate::scalar::{DType, Scalar};

impl<T: Scalar> Solver<T> {
    /// Writes a real number to the results of that kind, on all ranks.
    pub fn give_real(&self, kind: Kind, value: f64) -> Result<()> {
        match T::DTYPE.real() {
            DType::F32 => self.give(self.results(kind), value as f32),
            _ => self.give(self.results(kind), value),
        }
    }

    /// Writes the results of kind `Value`, in their order, on all ranks.
    pub fn give_values(&self, values: &[T]) -> Result<()> {
        let mut results = self.results(Kind::Value).zip(values.iter().cycle());
        results.try_for_each(|(buffer, value)| self.give(std::iter::once(buffer), *value))
    }

    /// Writes real numbers to the results of that kind, on all ranks.
    pub(super) fn give_reals(&self, kind: Kind, numbers: &[f64]) -> Result<()> {
        self.results(kind).try_for_each(|to| {
            // SAFETY: *order*: all workers have returned, and this is the only thread.
            unsafe {
                match T::DTYPE.real() {
                    DType::F32 => {
                        let narrow: Vec<_> = numbers.iter().map(|&x| x as f32).collect();
                        memory::write(self.memory(), &narrow, to.column())
                    }
                    _ => memory::write(self.memory(), numbers, to.column()),
                }
            }
        })
    }

    /// Writes LAPACK's `info`, on all ranks.
    pub(super) fn give_info(&self, info: i32) -> Result<()> {
        self.give(self.results(Kind::Info), info)
    }

    /// Writes a value to scalars.
    fn give<'s, V: Pod>(&self, mut to: impl Iterator<Item = &'s Buffer>, value: V) -> Result<()> {
        // SAFETY: *order*: all workers have returned, and this is the only thread.
        to.try_for_each(|to| unsafe { memory::write(self.memory(), &[value], to.column()) })
    }

    /// All results of a kind, rank by rank.
    fn results(&self, kind: Kind) -> impl Iterator<Item = &Buffer> {
        let slots = self.options.routine.signature.rets;
        let all = self.calls.iter().flat_map(move |call| slots.iter().zip(&call.rets));
        all.filter(move |(slot, _)| slot.kind == kind).map(|(_, buffer)| buffer)
    }

    /// Copies rank 0's results of a kind to the other ranks, in memory of the CPU.
    pub(super) fn share(&self, kind: Kind) -> Result<()> {
        let (slots, from) = (self.options.routine.signature.rets, &self.calls[0].rets);
        for to in self.calls[1..].iter().flat_map(|call| slots.iter().zip(from).zip(&call.rets)) {
            let ((slot, from), to) = to;
            if slot.kind == kind {
                // SAFETY: *memory* of buffers of equal shapes (checked), which XLA keeps apart.
                // *Order*: all workers have returned, and this is the only thread.
                unsafe {
                    self.memory().write(from.as_ptr(), (to.rank(), to.as_ptr()), from.bytes())?
                }
            }
        }
        Ok(())
    }

    /// Fills all results of a kind with NaN.
    pub(super) fn fill_nan(&self, kind: Kind) -> Result<()> {
        let (f32, f64) = (f32::NAN.to_ne_bytes(), f64::NAN.to_ne_bytes());
        let word: &[u8] = if T::DTYPE.real() == DType::F32 { &f32 } else { &f64 };
        self.results(kind).try_for_each(|x| {
            // SAFETY: *memory* of the buffer. *Order*: all workers have returned, and this is the
            // only thread.
            unsafe { self.memory().fill((x.rank(), x.as_ptr()), word, x.bytes() / word.len()) }
        })
    }
}
