//! Runs a job on its workers and gives every rank the same outcome. Contract in README.md.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::call::Job;
use crate::comm::progress::Progress;
use crate::device::cpu::{float_mode::FloatMode, threads};
use crate::error::{Error, Kind, Result};

/// Tells one device the outcome; may run that device's program.
pub type Reply = Box<dyn FnOnce(Result<()>) + Send>;

/// What the workers of one call share.
struct Conduct {
    running: AtomicUsize,
    outcome: Mutex<Result<()>>,
    decided: Progress,
}

/// A call whose workers are at work.
type AtWork = (Arc<Conduct>, Weak<dyn Job>);

/// All calls of the process.
struct Calls {
    /// A job is borrowed from here only while the lock is held, and its last worker takes it out before
    /// it lets go of the job.
    running: Vec<AtWork>,
    /// Whether none begins any more.
    closed: bool,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { running: Vec::new(), closed: false });

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(|e| e.into_inner())
}

impl Calls {
    /// Ends those whose workers are at work. Workers stop where they next wait for each other.
    fn end(&self, text: &str) -> usize {
        for (shared, job) in &self.running {
            if let Some(job) = job.upgrade() {
                shared.note(&*job, Ok(Err(Error::new(Kind::Cancelled, text))), "a call");
            }
        }
        self.running.len()
    }
}

/// Ends every call whose workers are at work with an error on all its ranks; how many there were.
pub fn cancel() -> usize {
    calls().end("meshsolve: the call was ended by meshsolve.cancel()")
}

const CLOSED: &str = "meshsolve: the call was ended because the process ends";

/// The same before the process ends: calls that would begin later are ended, too.
pub fn close() -> usize {
    let mut calls = calls();
    calls.closed = true;
    calls.end(CLOSED)
}

/// Starts all workers of `job`, or none; each of `replies` then gets the outcome on a thread of its
/// own. Returns at once.
pub fn conduct(job: Arc<dyn Job>, replies: Vec<Reply>) {
    let workers = job.workers();
    let threads = match threads::reserve(workers.max(replies.len())) {
        Ok(threads) => threads,
        Err(e) => {
            drop(job);
            let text = format!("meshsolve: {workers} threads for a call cannot be started: {e}");
            return answer_all(replies, Err(Error::new(Kind::ResourceExhausted, text)));
        }
    };
    let shared = Arc::new(Conduct {
        running: AtomicUsize::new(workers),
        outcome: Mutex::new(Ok(())),
        decided: Progress::default(),
    });
    let mut calls = calls();
    calls.running.push((shared.clone(), Arc::downgrade(&job)));
    if calls.closed {
        calls.end(CLOSED);
    }
    drop(calls);
    let callers_mode = FloatMode::current();
    let mut replies = replies.into_iter();
    for (worker, thread) in threads.into_iter().enumerate() {
        let (shared, reply) = (shared.clone(), replies.next());
        let job = (worker < workers).then(|| job.clone());
        thread.run(move || {
            if let Some(job) = job {
                shared.run_worker(job, worker);
            }
            if let Some(reply) = reply {
                // Never stopped: the last worker always decides.
                let _ = shared.decided.wait(1);
                let outcome = shared.outcome().clone();
                callers_mode.enter();
                reply(outcome);
            }
        });
    }
}

impl Conduct {
    fn outcome(&self) -> MutexGuard<'_, Result<()>> {
        self.outcome.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn run_worker(&self, job: Arc<dyn Job>, worker: usize) {
        FloatMode::IEEE.enter();
        let run = catch_unwind(AssertUnwindSafe(|| job.run(worker)));
        self.note(&*job, run, &format!("worker {worker} of a call"));
        if self.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        calls().running.retain(|(other, _)| !std::ptr::eq(&**other, self));
        if self.outcome().is_ok() {
            let finish = catch_unwind(AssertUnwindSafe(|| job.finish()));
            self.note(&*job, finish, "finishing a call");
        }
        // The other workers have nothing left to do but to let go of the job; then its memory is free
        // before anybody is told.
        while Arc::strong_count(&job) > 1 {
            std::thread::yield_now();
        }
        drop(job);
        self.decided.announce(1);
    }

    /// Keeps the first failure and wakes the other workers.
    fn note(&self, job: &dyn Job, result: std::thread::Result<Result<()>>, origin: &str) {
        let result = result.unwrap_or_else(|panic| Err(Error::from_panic(origin, &*panic)));
        if result.is_err() {
            let mut outcome = self.outcome();
            if outcome.is_ok() {
                *outcome = result;
            }
            drop(outcome);
            job.stop();
        }
    }
}

/// Gives every one of `replies` the outcome, each on a thread of its own.
pub fn answer_all(replies: Vec<Reply>, outcome: Result<()>) {
    match threads::reserve(replies.len()) {
        Ok(threads) => {
            for (thread, reply) in threads.into_iter().zip(replies) {
                let outcome = outcome.clone();
                thread.run(move || reply(outcome));
            }
        }
        // No threads to be had: the machine is at its end, and an answer matters more than its thread.
        Err(_) => replies.into_iter().for_each(|reply| reply(outcome.clone())),
    }
}
