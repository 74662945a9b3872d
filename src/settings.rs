//! Process-wide settings, read from the environment once and never written to it:
//! `MESHSOLVE_TIMEOUT` (seconds a call waits for all its devices), `MESHSOLVE_THREADS` (threads of
//! one call), `MESHSOLVE_LOG=progress` (panel k of K on standard error).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const DEFAULT_TIMEOUT_SECONDS: f64 = 120.0;

fn timeout_millis() -> &'static AtomicU64 {
    static MILLIS: OnceLock<AtomicU64> = OnceLock::new();
    MILLIS.get_or_init(|| {
        let seconds = parsed("MESHSOLVE_TIMEOUT", |&s: &f64| s > 0.0 && s.is_finite());
        AtomicU64::new((seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS) * 1e3) as u64)
    })
}

/// How long the devices that have arrived wait for the others.
pub fn timeout() -> Duration {
    Duration::from_millis(timeout_millis().load(Relaxed))
}

pub fn set_timeout(timeout: Duration) {
    timeout_millis().store(timeout.as_millis() as u64, Relaxed);
}

/// Threads that one call may use: `MESHSOLVE_THREADS`, else what the machine offers this process.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        parsed("MESHSOLVE_THREADS", |&t: &usize| t > 0)
            .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
            .unwrap_or(1)
    })
}

/// Whether `MESHSOLVE_LOG` asks for progress lines.
pub fn log_progress() -> bool {
    static LOG: OnceLock<bool> = OnceLock::new();
    *LOG.get_or_init(|| std::env::var("MESHSOLVE_LOG").is_ok_and(|v| v == "progress"))
}

/// The value of environment variable `name`; one that cannot be used is named on standard error
/// and ignored, because no user call has the fault.
fn parsed<V: std::str::FromStr>(name: &str, usable: impl Fn(&V) -> bool) -> Option<V> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok().filter(usable);
    if value.is_none() {
        eprintln!("meshsolve: {name}={text:?} is not a positive number; the default is used");
    }
    value
}
