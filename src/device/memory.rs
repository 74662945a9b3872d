//! The memory that the operands and results of a call lie in, as far as a single thread reads and writes
//! it before and after the workers' work.

use crate::error::Result;

/// Addresses are those of operands, results and scratch of one call.
pub trait Memory: Send + Sync {
    /// Reads `count` times `size` bytes that lie `stride` bytes apart, one after the other.
    ///
    /// # Safety
    /// They are there, nobody writes them meanwhile, and at `to` there is room.
    unsafe fn read(
        &self,
        from: *const u8,
        size: usize,
        stride: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<()>;
    /// From the host's memory.
    ///
    /// # Safety
    /// There are as many bytes, which nobody else uses meanwhile.
    unsafe fn write(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;
    /// From one place to others, of which none overlaps another one; each may be another rank's.
    ///
    /// # Safety
    /// As for `write`.
    unsafe fn spread(&self, from: *const u8, to: &[*mut u8], bytes: usize) -> Result<()>;
    /// Writes a word of 4 or 8 bytes again and again.
    ///
    /// # Safety
    /// As for `write`.
    unsafe fn fill(&self, to: *mut u8, word: &[u8], count: usize) -> Result<()>;
}

/// Memory that this process can follow addresses into.
pub struct CpuMemory;

// SAFETY (all of this impl): promised by the callers.
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

/// `count` values that lie `stride` values apart.
///
/// # Safety
/// They are there, and any bits make a T.
pub unsafe fn read<T: Copy>(
    memory: &dyn Memory,
    from: *const T,
    stride: usize,
    count: usize,
) -> Result<Vec<T>> {
    let (size, mut values) = (size_of::<T>(), Vec::<T>::with_capacity(count));
    if count > 0 {
        // SAFETY: promised by the caller; the vector has room.
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
    // SAFETY: promised by the caller.
    Ok(unsafe { read(memory, from, 1, 1) }?[0])
}

/// # Safety
/// There is room for it.
pub unsafe fn write_one<T: Copy>(memory: &dyn Memory, value: T, to: *mut T) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe { memory.write((&raw const value).cast(), to.cast(), size_of::<T>()) }
}
