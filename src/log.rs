//! Events of calls for Python's `logging`, while a listener exists. A queue connects the library's
//! threads, which never wait for Python, with one thread of Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::stats::{self, CallStats};

#[derive(Clone, Debug)]
pub enum Event {
    /// A call has ended.
    Call(CallStats),
    /// A long factorisation has finished `done` of its `total` panels.
    Panel { done: usize, total: usize },
}

/// The most events that the queue keeps; then it drops the oldest.
const LIMIT: usize = 4096;

static LISTENING: AtomicBool = AtomicBool::new(false);
static QUEUE: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, VecDeque<Event>> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

pub fn is_on() -> bool {
    LISTENING.load(Relaxed)
}

/// Sets whether events are kept. Turning this off wakes a thread that waits for one.
pub fn listen(on: bool) {
    let _queue = queue();
    LISTENING.store(on, Relaxed);
    CHANGED.notify_all();
}

/// Keeps an event, if a listener exists.
pub fn tell(event: impl FnOnce() -> Event) {
    if !is_on() {
        return;
    }
    let event = event();
    let mut queue = queue();
    if queue.len() == LIMIT {
        queue.pop_front();
    }
    queue.push_back(event);
    CHANGED.notify_one();
}

/// Records a call that has ended.
pub fn record(call: CallStats) {
    tell(|| Event::Call(call.clone()));
    stats::keep(call);
}

/// The oldest event. It waits for one while a listener exists; `None` if none is left and no
/// listener exists.
pub fn next() -> Option<Event> {
    let mut queue = queue();
    while queue.is_empty() && is_on() {
        queue = CHANGED.wait(queue).unwrap_or_else(|e| e.into_inner());
    }
    queue.pop_front()
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
