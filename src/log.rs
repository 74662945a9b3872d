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
mod tests {
    use super::*;

    /// One test, because the queue is the process's.
    #[test]
    fn events_are_kept_while_somebody_listens() {
        let panel = |done| move || Event::Panel { done, total: LIMIT + 1 };
        tell(panel(7));
        assert!(next().is_none());
        listen(true);
        let fetched = std::thread::spawn(next);
        tell(panel(1));
        assert!(matches!(fetched.join().unwrap(), Some(Event::Panel { done: 1, .. })));
        (0..LIMIT + 1).for_each(|done| tell(panel(done)));
        let waits = std::thread::spawn(|| {
            let mut seen = Vec::new();
            while let Some(Event::Panel { done, .. }) = next() {
                seen.push(done);
            }
            seen
        });
        while !queue().is_empty() {
            std::thread::yield_now();
        }
        listen(false);
        assert_eq!(waits.join().unwrap(), (1..LIMIT + 1).collect::<Vec<_>>());
    }
}
