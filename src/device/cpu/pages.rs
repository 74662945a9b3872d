//! Large pages of memory. A matrix by columns is read some rows at a time, so each access is in another
//! page of 4096 bytes, and the processor's table of pages has room for 1500 to 3000 of them.

/// The fewest bytes that are worth it.
const LEAST: usize = 4 << 20;

/// Asks the operating system for large pages for these bytes. It gives them to memory that nobody has
/// written yet, and may give none. No content changes.
pub fn prefer_large(first: *mut u8, bytes: usize) {
    if bytes < LEAST {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        // SAFETY: it only asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
        let skipped = first.align_offset(page).min(bytes);
        let (at, whole) = (first.wrapping_add(skipped), (bytes - skipped) / page * page);
        // SAFETY: a hint for whole pages, which keeps what they hold. Where it is refused, pages stay small.
        unsafe { libc::madvise(at.cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = first;
}
