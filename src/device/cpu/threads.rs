//! Threads of the library: a stock that grows on demand, so that a job never waits behind another.
//!
//! XLA's handlers must not block, and a promise must be completed on a thread that nobody else needs
//! (completing it runs the rest of the user's program, blocking collectives included). Hence no fixed
//! pool: a thread that is busy is never waited for, a new one is started instead. Idle threads leave
//! after a while. The oldest thread is taken first, so that workers of one call after another run on the
//! same threads: the product kernel packs into memory of each thread, and keeps it.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

type Task = Box<dyn FnOnce() + Send>;

/// What XLA gives its own threads: completing a promise runs the user's program here.
const STACK: usize = 8 << 20;
const IDLE: Duration = Duration::from_secs(20);

/// The way to each idle thread, by its age.
static STOCK: Mutex<BTreeMap<u64, Sender<Task>>> = Mutex::new(BTreeMap::new());
static STARTED: AtomicU64 = AtomicU64::new(0);

fn stock() -> MutexGuard<'static, BTreeMap<u64, Sender<Task>>> {
    STOCK.lock().unwrap_or_else(|e| e.into_inner())
}

/// A thread that is waiting for a task and has nothing else to do; dropped unused, it ends.
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
            // Tasks catch their own panics; this keeps the thread should one slip through.
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
            // Taken in the last instant: the task is on its way. Otherwise disconnected now.
            tasks.recv().ok()
        }
    }
}
