//! Distributes work to new threads.

use std::ops::Range;

/// 0..count in `threads` parts of nearly equal length.
pub fn parts(count: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
    let at = move |k: usize| (count as u128 * k as u128 / threads as u128) as usize;
    (0..threads).map(move |k| at(k)..at(k + 1))
}

/// Runs each part on its own thread.
pub fn shared_out<P: Send>(parts: impl Iterator<Item = P>, run: impl Fn(P) + Sync) {
    std::thread::scope(|scope| {
        for part in parts {
            let run = &run;
            scope.spawn(move || run(part));
        }
    });
}
