//! Access to the memory of a call's operands and results. A single thread reads and writes it
//! before and after the workers run.

use crate::error::Result;

/// Addresses are those of operands, results and scratch of one call.
pub trait Memory: Send + Sync {
    /// Reads `count` pieces of `size` bytes, `stride` bytes apart, one after the other.
    ///
    /// # Safety
    /// The pieces exist, no thread writes them meanwhile, and `to` has room.
    unsafe fn read(
        &self,
        from: *const u8,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()>;
    /// Copies bytes from the CPU's memory.
    ///
    /// # Safety
    /// Both ranges have as many bytes, and no other thread uses them meanwhile.
    unsafe fn write(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;
    /// Copies one range to several, none of which overlaps another. Each may belong to another
    /// rank.
    ///
    /// # Safety
    /// As for `write`.
    unsafe fn spread(&self, from: *const u8, to: &[*mut u8], bytes: usize) -> Result<()>;
    /// Writes a word of 4 or 8 bytes `count` times.
    ///
    /// # Safety
    /// As for `write`.
    unsafe fn fill(&self, to: *mut u8, word: &[u8], count: usize) -> Result<()>;
}

/// Memory that this process can address directly.
pub struct CpuMemory;

// SAFETY (all of this impl): the caller promises ranges of its own.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Memory for CpuMemory {
    unsafe fn read(
        &self,
        from: *const u8,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()> {
        for i in 0..count {
            let (from, to) = (from.wrapping_add(i * stride), to.wrapping_add(i * size));
            unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
        }
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    unsafe fn spread(&self, from: *const u8, to: &[*mut u8], bytes: usize) -> Result<()> {
        to.iter().try_for_each(|&to| unsafe { self.write(from, to, bytes) })
    }

    unsafe fn fill(&self, to: *mut u8, word: &[u8], count: usize) -> Result<()> {
        unsafe { std::slice::from_raw_parts_mut(to, word.len() * count) }
            .chunks_exact_mut(word.len())
            .for_each(|chunk| chunk.copy_from_slice(word));
        Ok(())
    }
}

/// `count` values that are `stride` values apart.
///
/// # Safety
/// The values exist, and any bits make a T.
pub unsafe fn read<T: Copy>(
    memory: &dyn Memory,
    from: *const T,
    stride: usize,
    count: usize,
) -> Result<Vec<T>> {
    let (size, mut values) = (size_of::<T>(), Vec::<T>::with_capacity(count));
    if count > 0 {
        // SAFETY: the caller promises the values; the vector has room.
        unsafe {
            memory.read(from.cast(), size, stride * size, count, values.as_mut_ptr().cast())?;
            values.set_len(count);
        }
    }
    Ok(values)
}

/// One value.
///
/// # Safety
/// As for [`read`].
pub unsafe fn read_one<T: Copy>(memory: &dyn Memory, from: *const T) -> Result<T> {
    // SAFETY: the caller promises the value.
    Ok(unsafe { read(memory, from, 1, 1) }?[0])
}

/// # Safety
/// `to` has room for it.
pub unsafe fn write_one<T: Copy>(memory: &dyn Memory, value: T, to: *mut T) -> Result<()> {
    // SAFETY: the caller promises room; `value` is local.
    unsafe { memory.write((&raw const value).cast(), to.cast(), size_of::<T>()) }
}
