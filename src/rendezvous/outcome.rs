//! Runs a job on its workers and gives every rank the same outcome. README.md has the contract.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::call::Job;
use crate::comm::progress::Progress;
use crate::device::cpu::{float_mode::FloatMode, threads};
use crate::error::{Error, Kind, Result};

/// Reports the outcome to one device; it may run that device's program.
pub type Reply = Box<dyn FnOnce(Result<()>) + Send>;

/// State that the workers of one call share.
struct Conduct {
    running: AtomicUsize,
    outcome: Mutex<Result<()>>,
    decided: Progress,
}

/// A call with running workers.
type AtWork = (Arc<Conduct>, Weak<dyn Job>);

/// All calls of the process.
struct Calls {
    /// A job may be borrowed from here only under the lock. Its last worker removes it before
    /// dropping the job.
    running: Vec<AtWork>,
    /// Whether later calls end at once.
    closed: bool,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { running: Vec::new(), closed: false });

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(|e| e.into_inner())
}

impl Calls {
    /// Cancels all running calls. Workers stop where they next wait for each other.
    fn end(&self, text: &str) -> usize {
        for (shared, job) in &self.running {
            if let Some(job) = job.upgrade() {
                shared.note(&*job, Ok(Err(Error::new(Kind::Cancelled, text))), "a call");
            }
        }
        self.running.len()
    }
}

/// Ends every running call with an error on all its ranks. Returns the number of these calls.
pub fn cancel() -> usize {
    calls().end("meshsolve: the call was ended by meshsolve.cancel()")
}

/// The error of calls that end with the process.
pub const CLOSED: &str = "meshsolve: the call was ended because the process ends";

/// As `cancel`, before the process ends; it ends later calls too.
pub fn close() -> usize {
    let mut calls = calls();
    calls.closed = true;
    calls.end(CLOSED)
}

/// Starts all workers of `job`, or none. Each of `replies` then gets the outcome on a thread of its
/// own. It returns at once.
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
                // This wait is never stopped: the last worker always decides.
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
        // SAFETY: `conduct` starts one thread for each number, and the last one finishes the job.
        let run = catch_unwind(AssertUnwindSafe(|| unsafe { job.run(worker) }));
        self.note(&*job, run, &format!("worker {worker} of a call"));
        if self.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        calls().running.retain(|(other, _)| !std::ptr::eq(&**other, self));
        if self.outcome().is_ok() {
            let finish = catch_unwind(AssertUnwindSafe(|| job.finish()));
            self.note(&*job, finish, "finishing a call");
        }
        // The other workers only have to drop the job. Its memory is then free before a device gets
        // the outcome.
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
        // The machine has no threads left. An answer matters more than its thread.
        Err(_) => replies.into_iter().for_each(|reply| reply(outcome.clone())),
    }
}
