//! The scratch of a call, allocated before the workers start.
//!
//! It has pages of its own, and the next call reuses the last ones. `malloc` would keep freed
//! memory for the thread that asked. Each call may ask on another thread of XLA, so up to eight
//! scratches for each core stayed resident.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard};

use memmap2::MmapMut;

use crate::error::{Error, Kind, Result};
use crate::scalar::Scalar;

/// A call leaves at most this many bytes of scratch to the next one.
const KEPT_BYTES: usize = 16 << 20;

static KEPT: Mutex<Option<MmapMut>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<MmapMut>> {
    KEPT.lock().unwrap_or_else(|e| e.into_inner())
}

/// Memory that workers share by agreement of the phases. Its initial content is undefined.
pub struct Scratch<T> {
    pages: Option<MmapMut>,
    base: *mut T,
    elements: usize,
    of: PhantomData<T>,
}

// SAFETY: this object owns the memory; the phases of the routine assign its parts to workers.
unsafe impl<T: Send> Send for Scratch<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Scratch<T> {}

impl<T: Scalar> Scratch<T> {
    pub fn new(elements: usize) -> Result<Self> {
        let bytes = elements.saturating_mul(size_of::<T>());
        let enough = |pages: &MmapMut| pages.len() >= bytes;
        let kept = kept().take().filter(enough);
        let mut pages = kept.map_or_else(|| MmapMut::map_anon(bytes), Ok).map_err(|e| {
            let text = format!("meshsolve: {bytes} bytes of scratch cannot be had: {e}");
            Error::new(Kind::ResourceExhausted, text)
        })?;
        let base = pages.as_mut_ptr().cast();
        Ok(Scratch { pages: Some(pages), base, elements, of: PhantomData })
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
        let longer =
            |pages: &MmapMut| kept().as_ref().is_none_or(|other| other.len() < pages.len());
        let pages = self.pages.take().filter(|pages| pages.len() <= KEPT_BYTES && longer(pages));
        if pages.is_some() {
            *kept() = pages;
        }
    }
}

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
