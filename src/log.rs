//! What calls tell Python's `logging` while somebody listens: a queue between the library's threads,
//! which never wait for Python, and one thread of Python's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::stats::CallStats;

#[derive(Clone, Debug)]
pub enum Event {
    /// A call is over.
    Call(CallStats),
    /// A factorisation that takes long has done so many of its panels.
    Panel { done: usize, total: usize },
}

/// Events that nobody has fetched yet; beyond these the oldest are dropped.
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

/// Whether events are kept. Turned off, whoever waits for one is woken.
pub fn listen(on: bool) {
    let _queue = queue();
    LISTENING.store(on, Relaxed);
    CHANGED.notify_all();
}

/// Keeps an event, if anybody listens.
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

/// The oldest event, which is waited for as long as anybody listens; `None` when none is left and
/// nobody does.
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
