//! Events of calls for Python's `logging`, while a listener exists. A queue connects the library's
//! threads, which never wait for Python, with one thread of Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::settings;
use crate::stats::{self, CallStats};

/// A stage of a call, as a part of its work.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub routine: &'static str,
    /// The order of A, or its columns.
    pub n: usize,
    pub stage: &'static str,
    /// The share of the work before the stage, and that of the stage.
    pub before: f64,
    pub part: f64,
}

/// How far a call is.
#[derive(Clone, Debug)]
pub struct Progress {
    pub task: Task,
    /// Of the work of the call.
    pub share: f64,
    /// Since the work began: all devices of this process had come.
    pub seconds: f64,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// A call has ended.
    Call(CallStats),
    /// A call that takes long has got on.
    Progress(Progress),
}

/// The interval of reports of progress; the first comes after it.
const LONG: Duration = Duration::from_secs(1);

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

/// Whether anybody sees reports of progress.
pub fn is_progress_wanted() -> bool {
    settings::log_progress() || is_on()
}

/// Reports that a call whose work began at `since` has done this share of a stage.
pub fn report(task: &Task, since: Instant, share: f64) {
    if !is_progress_wanted() || !is_due() {
        return;
    }
    let share = (task.before + task.part * share).clamp(0.0, 1.0);
    if settings::log_progress() {
        let Task { routine, n, stage, .. } = task;
        let percent = (100.0 * share).floor();
        eprintln!("meshsolve {routine}, n = {n}: {percent} % of the work, {stage}");
    }
    let seconds = since.elapsed();
    if seconds >= LONG {
        let seconds = seconds.as_secs_f64();
        tell(|| Event::Progress(Progress { task: *task, share, seconds }));
    }
}

/// At most once each `LONG`, in the whole process.
fn is_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(|e| e.into_inner());
    let due = last.is_none_or(|last| last.elapsed() >= LONG);
    if due {
        *last = Some(Instant::now());
    }
    due
}

/// Whether no event is kept, for tests.
#[cfg(feature = "internals")]
pub fn is_empty() -> bool {
    queue().is_empty()
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
