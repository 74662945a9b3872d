//! What the last finished call did and how long each part took, for `meshsolve.last_call()`.

use std::sync::Mutex;

use crate::log::{self, Event};

/// One call.
#[derive(Clone, Debug, Default)]
pub struct CallStats {
    pub routine: &'static str,
    pub dtype: &'static str,
    pub n: usize,
    pub rhs: usize,
    pub ranks: usize,
    pub lanes: usize,
    pub tiles: usize,
    pub tile: usize,
    pub scratch_bytes: usize,
    pub info: i32,
    /// Seconds of each phase, by name, in order.
    pub phases: Vec<(&'static str, f64)>,
}

static LAST: Mutex<Option<CallStats>> = Mutex::new(None);

pub fn record(stats: CallStats) {
    log::tell(|| Event::Call(stats.clone()));
    *LAST.lock().unwrap_or_else(|e| e.into_inner()) = Some(stats);
}

pub fn last() -> Option<CallStats> {
    LAST.lock().unwrap_or_else(|e| e.into_inner()).clone()
}
