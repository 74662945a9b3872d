//! The scratch of a call, allocated before the workers start.
//!
//! It has pages of its own, and the next call reuses the last ones. `malloc` would keep freed
//! memory for the thread that asked. Each call may ask on another thread of XLA, so up to eight
//! scratches for each core stayed resident.

use std::sync::{Mutex, MutexGuard};

use bytemuck::Pod;
use memmap2::{MmapOptions, MmapRaw};

use crate::error::{Error, Kind, Result};
use crate::layout::Layout;
use crate::matrix::Cells;

/// A call leaves at most this many bytes of scratch to the next one.
pub const KEPT_BYTES: usize = 16 << 20;

static KEPT: Mutex<Option<MmapRaw>> = Mutex::new(None);

pub fn kept() -> MutexGuard<'static, Option<MmapRaw>> {
    KEPT.lock().unwrap_or_else(|e| e.into_inner())
}

/// Memory for the workers of a call. Its initial content is undefined.
pub struct Scratch {
    pages: Option<MmapRaw>,
    bytes: usize,
}

impl Scratch {
    pub fn new(bytes: usize) -> Result<Self> {
        let enough = |pages: &MmapRaw| pages.len() >= bytes;
        let kept = kept().take().filter(enough);
        let new = || Ok(MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?));
        let pages = kept.map_or_else(new, Ok).map_err(|e: std::io::Error| {
            let text = format!("meshsolve: {bytes} bytes of scratch cannot be had: {e}");
            Error::new(Kind::ResourceExhausted, text)
        })?;
        Ok(Scratch { pages: Some(pages), bytes })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many numbers from byte `at` on, as a column.
    pub fn cells<T: Pod>(&self, at: usize, count: usize) -> Cells<'_, T> {
        let bytes = count.checked_mul(size_of::<T>()).expect("a size");
        assert!(at <= self.bytes && bytes <= self.bytes - at, "inside the scratch");
        assert!(at.is_multiple_of(align_of::<T>()), "an aligned element");
        let first = self.pages.as_ref().expect("pages until the end").as_mut_ptr();
        // SAFETY: *memory* of these pages, which outlive the views. Any bits are a T.
        unsafe { Cells::new(first.wrapping_add(at).cast(), &Layout::left((count, 1)), 0) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let longer =
            |pages: &MmapRaw| kept().as_ref().is_none_or(|other| other.len() < pages.len());
        let pages = self.pages.take().filter(|pages| pages.len() <= KEPT_BYTES && longer(pages));
        if pages.is_some() {
            *kept() = pages;
        }
    }
}
