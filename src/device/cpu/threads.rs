//! Threads of the library. Their number grows on demand, so a job never waits for another.
//!
//! XLA's handlers must not block. Completing a promise runs the rest of your program, with its
//! blocking collectives, so that thread must have no other task. Hence the pool has no fixed size:
//! it starts a new thread instead of waiting for a busy one. Idle threads end after a while. The
//! oldest thread is taken first, so consecutive calls run on the same threads. The product kernel
//! packs into memory of each thread, and keeps that memory.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

type Task = Box<dyn FnOnce() + Send>;

/// The size that XLA gives its own threads. Completing a promise runs your program here.
const STACK: usize = 8 << 20;
const IDLE: Duration = Duration::from_secs(20);

/// The channel to each idle thread, by its age.
static STOCK: Mutex<BTreeMap<u64, Sender<Task>>> = Mutex::new(BTreeMap::new());
static STARTED: AtomicU64 = AtomicU64::new(0);

fn stock() -> MutexGuard<'static, BTreeMap<u64, Sender<Task>>> {
    STOCK.lock().unwrap_or_else(|e| e.into_inner())
}

/// A thread that waits for a task. It ends if this is dropped unused.
pub struct IdleThread(Sender<Task>);

impl IdleThread {
    pub fn run(self, task: impl FnOnce() + Send + 'static) {
        self.0.send(Box::new(task)).expect("a reserved thread waits for its task");
    }
}

/// Takes `count` threads, all or none.
pub fn reserve(count: usize) -> io::Result<Vec<IdleThread>> {
    let idle = || stock().pop_first().map(|(_, sender)| IdleThread(sender));
    (0..count).map(|_| idle().map_or_else(start, Ok)).collect()
}

fn start() -> io::Result<IdleThread> {
    let me = STARTED.fetch_add(1, Ordering::Relaxed);
    let (sender, first) = mpsc::channel::<Task>();
    let builder = thread::Builder::new().name("meshsolve".into()).stack_size(STACK);
    builder.spawn(move || {
        let mut task = first.recv().ok();
        while let Some(work) = task {
            // Tasks catch their own panics. This keeps the thread if one escapes.
            let _ = catch_unwind(AssertUnwindSafe(work));
            task = next_task(me);
        }
    })?;
    Ok(IdleThread(sender))
}

/// Waits in the stock for a task; `None` when the thread should end.
fn next_task(me: u64) -> Option<Task> {
    let (sender, tasks) = mpsc::channel();
    stock().insert(me, sender);
    match tasks.recv_timeout(IDLE) {
        Ok(task) => Some(task),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            stock().remove(&me);
            // Another thread may have just taken the sender: its task arrives. Else the channel is
            // closed.
            tasks.recv().ok()
        }
    }
}
