//! Access to the memory of a call's operands and results. A single thread reads and writes it
//! before and after the workers run.

use bytemuck::Pod;

use crate::error::Result;
use crate::matrix::Cells;

/// The rank that has some memory, and its address there.
pub type Place = (usize, *mut u8);

/// The operands, results and scratch of one call.
pub trait Memory: Send + Sync {
    /// Reads `count` pieces of `size` bytes, `stride` bytes apart, one after the other.
    ///
    /// # Safety
    /// The pieces exist, no thread writes them meanwhile, and `to` has room.
    unsafe fn read(
        &self,
        from: Place,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()>;
    /// Copies bytes from the CPU's memory.
    ///
    /// # Safety
    /// Both ranges have as many bytes, and no other thread uses them meanwhile.
    unsafe fn write(&self, from: *const u8, to: Place, bytes: usize) -> Result<()>;
    /// Writes a word of 4 or 8 bytes `count` times.
    ///
    /// # Safety
    /// As for `write`.
    unsafe fn fill(&self, to: Place, word: &[u8], count: usize) -> Result<()>;
}

/// Memory that this process can address directly.
pub struct CpuMemory;

impl Memory for CpuMemory {
    unsafe fn read(
        &self,
        (_, from): Place,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()> {
        for i in 0..count {
            let (from, to) = (from.wrapping_add(i * stride), to.wrapping_add(i * size));
            // SAFETY: the caller promises the pieces, and room for them.
            unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
        }
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, (_, to): Place, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises both ranges, for its sole use.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    unsafe fn fill(&self, (_, to): Place, word: &[u8], count: usize) -> Result<()> {
        // SAFETY: the caller promises the range, for its sole use.
        unsafe { std::slice::from_raw_parts_mut(to, word.len() * count) }
            .chunks_exact_mut(word.len())
            .for_each(|chunk| chunk.copy_from_slice(word));
        Ok(())
    }
}

fn place<T>(cells: Cells<T>) -> Place {
    (cells.rank(), cells.as_ptr().cast())
}

/// The values of a column.
///
/// # Safety
/// The column is of this memory. *Order* (see [`Cells`]): nothing writes it meanwhile.
pub unsafe fn read<T: Pod>(memory: &dyn Memory, from: Cells<T>) -> Result<Vec<T>> {
    assert_eq!(from.cols(), 1, "a column");
    let (size, mut values) = (size_of::<T>(), vec![T::zeroed(); from.rows()]);
    if !values.is_empty() {
        let to = values.as_mut_ptr().cast();
        // SAFETY: *memory* of the view; the caller promises *order*; `values` has room.
        unsafe {
            memory.read(place(from), size, from.row_stride() * size, from.rows(), to)?;
        }
    }
    Ok(values)
}

/// Writes values to the first rows of a contiguous column.
///
/// # Safety
/// The column is of this memory. *Order* (see [`Cells`]): nothing else accesses it meanwhile.
pub unsafe fn write<T: Pod>(memory: &dyn Memory, values: &[T], to: Cells<T>) -> Result<()> {
    let to = to.by_columns(values.len(), 1, values.len());
    // SAFETY: *memory* of the view, which has as many values; the caller promises *order*.
    unsafe { memory.write(values.as_ptr().cast(), place(to), size_of_val(values)) }
}
