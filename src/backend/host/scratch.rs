//! The memory of one call beside its operands, allocated before the lanes start.

use std::marker::PhantomData;

use crate::error::{Error, Kind, Result};
use crate::scalar::Scalar;

/// Zeroed memory that lanes share by agreement of the phases.
pub struct Scratch<T> {
    base: *mut T,
    elements: usize,
    owner: PhantomData<T>,
}

// SAFETY: memory that this object owns; the phases of the routine say which lane uses which part.
unsafe impl<T: Send> Send for Scratch<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Scratch<T> {}

impl<T: Scalar> Scratch<T> {
    pub fn new(elements: usize) -> Result<Self> {
        let mut memory: Vec<T> = Vec::new();
        memory.try_reserve_exact(elements).map_err(|e| {
            let bytes = elements * size_of::<T>();
            let text = format!("meshsolve: {bytes} bytes of scratch cannot be had: {e}");
            Error::new(Kind::ResourceExhausted, text)
        })?;
        memory.resize(elements, T::ZERO);
        let base = Box::into_raw(memory.into_boxed_slice()).cast();
        Ok(Scratch { base, elements, owner: PhantomData })
    }

    pub fn bytes(&self) -> usize {
        self.elements * size_of::<T>()
    }

    pub fn at(&self, element: usize) -> *mut T {
        assert!(element <= self.elements, "inside the scratch");
        self.base.wrapping_add(element)
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.base, self.elements);
        // SAFETY: made by `Box::into_raw` from a slice of this length.
        drop(unsafe { Box::from_raw(slice) });
    }
}
