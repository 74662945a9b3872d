//! Figures of the last finished call and the time of each part, for `meshsolve.last_call()`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

#[derive(Clone, Debug, Default)]
pub struct CallStats {
    pub routine: &'static str,
    pub dtype: &'static str,
    pub n: usize,
    pub rhs: usize,
    pub ranks: usize,
    /// Devices of the ranks' kind that the process sees; 0 if unknown.
    pub visible: usize,
    pub workers: usize,
    pub tiles: usize,
    pub tile: usize,
    pub scratch_bytes: usize,
    /// How float64 is multiplied: "native" or "emulated".
    pub float64: &'static str,
    pub info: i32,
    /// Seconds of each phase, by name, in order.
    pub phases: Vec<(&'static str, f64)>,
}

static LAST: Mutex<Option<CallStats>> = Mutex::new(None);

/// Keeps the figures of a call that has ended.
pub fn keep(stats: CallStats) {
    *LAST.lock().unwrap_or_else(|e| e.into_inner()) = Some(stats);
}

/// The smallest order for which the library reports a call on one of several devices.
const LARGE: usize = 2048;

/// CPU devices and CUDA devices that the process sees.
static VISIBLE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

pub fn set_visible(on_cuda: bool, devices: usize) {
    VISIBLE[usize::from(on_cuda)].store(devices, Relaxed);
}

pub fn visible(on_cuda: bool) -> usize {
    VISIBLE[usize::from(on_cuda)].load(Relaxed)
}

/// Informs the user of a call.
type Tell = fn(&CallStats);

static TELL: OnceLock<Tell> = OnceLock::new();

/// Sets the function that reports, once in the process, that one of several devices solves a large
/// matrix alone.
pub fn tell_of_one_device(tell: Tell) {
    let _ = TELL.set(tell);
}

/// Call this before a call of one device begins.
pub fn begins_alone(call: &CallStats) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let is_reported = call.visible > 1 && call.n >= LARGE;
    if let Some(tell) = TELL.get().filter(|_| is_reported && !TOLD.swap(true, Relaxed)) {
        tell(call);
    }
}

pub fn last() -> Option<CallStats> {
    LAST.lock().unwrap_or_else(|e| e.into_inner()).clone()
}
