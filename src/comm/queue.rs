//! Work that workers take piece by piece, so that all end at about the same time although some are
//! slower, or have harder pieces.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The next piece of some work.
#[derive(Debug, Default)]
pub struct Queue(AtomicUsize);

impl Queue {
    /// Begins with other work. Workers meet before they take any.
    pub fn restart(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The next pieces of `all`: `most` of them, or fewer towards the end. `None` if none are left.
    pub fn take(&self, all: usize, most: usize, workers: usize) -> Option<Range<usize>> {
        let end = |first: usize| {
            let left = all.saturating_sub(first);
            (left > 0).then(|| first + most.min(left.div_ceil(2 * workers)))
        };
        let first = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        end(first).map(|end| first..end)
    }
}
