//! State that the workers of one call share: phases, barriers, LAPACK's `info`, and the reason of
//! a stop.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::Stopped;
use super::phase::Phases;
use super::progress::Barrier;
use super::queue::Queue;
use super::slots::Slots;
use crate::error::Error;
use crate::settings;
use crate::trace::CallTrace;

/// Limits for workers that wait for each other in every column of a panel of LU.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// The most workers: no more than can run at the same time.
    pub workers: usize,
    /// The fewest rows of each worker.
    pub rows: usize,
    /// Multiplications of float64 that a worker does in the time of a barrier. On two cores a
    /// barrier with its exchange takes 1 us; with more workers it takes longer.
    pub barrier_cost: f64,
}

impl Default for Sharing {
    fn default() -> Self {
        Sharing { workers: usize::MAX, rows: 64, barrier_cost: 80e3 }
    }
}

/// How long workers that can all run at the same time look for each other before they sleep. A kernel
/// may wake a worker on the core of another and leave it there for tens of milliseconds, while a core
/// is idle (`benchmarks/NOTES.md`).
const PATIENCE: Duration = Duration::from_millis(2);

pub struct Communicator {
    workers: usize,
    sharing: Sharing,
    phases: Phases,
    barrier: Barrier,
    queue: Queue,
    slots: Vec<Slots>,
    /// Twice LAPACK's `info`; one less where its pivot is not finite.
    info: AtomicUsize,
    failure: Mutex<Option<Error>>,
    trace: Option<CallTrace>,
}

impl Communicator {
    pub fn new(workers: usize) -> Self {
        Communicator {
            workers,
            sharing: Sharing::default(),
            phases: Phases::new(workers),
            barrier: Barrier::new(workers),
            queue: Queue::default(),
            slots: (0..workers).map(|_| Slots::default()).collect(),
            info: AtomicUsize::new(0),
            failure: Mutex::new(None),
            trace: None,
        }
    }

    /// For the workers of a call on this machine.
    pub fn of_call(workers: usize, trace: Option<CallTrace>) -> Self {
        let sharing = Sharing { workers: settings::cores(), ..Sharing::default() };
        Communicator::new(workers).with_sharing(sharing).with_trace(trace)
    }

    /// Before any worker waits.
    pub fn with_sharing(self, sharing: Sharing) -> Self {
        let patience = if self.workers <= sharing.workers { PATIENCE } else { Duration::ZERO };
        let phases = Phases::patient(self.workers, patience);
        let barrier = Barrier::patient(self.workers, patience);
        Communicator { sharing, phases, barrier, ..self }
    }

    /// Adds the trace of the call, if there is one.
    pub fn with_trace(self, trace: Option<CallTrace>) -> Self {
        Communicator { trace, ..self }
    }

    pub fn trace(&self) -> Option<&CallTrace> {
        self.trace.as_ref()
    }

    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    pub fn workers(&self) -> usize {
        self.workers
    }

    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// For work that all workers take piece by piece.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn slots(&self, worker: usize) -> &Slots {
        &self.slots[worker]
    }

    /// Wakes every waiting worker; all their waits return `Stopped` from now on.
    pub fn stop(&self) {
        self.phases.stop();
        self.barrier.stop();
    }

    /// Whether all waits return `Stopped`. No result that is computed from now on is used.
    pub fn is_stopped(&self) -> bool {
        self.barrier.is_stopped()
    }

    /// Records LAPACK's `info`, stops the workers, and returns `Stopped` for the caller to pass on.
    pub fn give_up(&self, info: usize, is_finite: bool) -> Stopped {
        self.report(info, is_finite);
        self.stop();
        Stopped
    }

    /// Records a failure of the machine, if it is the first one, and stops the workers.
    pub fn fail(&self, error: Error) -> Stopped {
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
        self.stop();
        Stopped
    }

    /// The first failure of the machine, if one occurred.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Records LAPACK's `info` and whether its pivot is finite; the smallest one counts.
    pub fn report(&self, info: usize, is_finite: bool) {
        let report = 2 * info - usize::from(!is_finite);
        let smaller = |known: usize| (known == 0 || report < known).then_some(report);
        let _ = self.info.fetch_update(Ordering::AcqRel, Ordering::Acquire, smaller);
    }

    /// 0, or the order of the leading minor that is singular or not positive definite.
    pub fn info(&self) -> usize {
        self.info.load(Ordering::Acquire).div_ceil(2)
    }

    /// Whether `info` reports a pivot that is not finite.
    pub fn met_no_number(&self) -> bool {
        self.info.load(Ordering::Acquire) % 2 == 1
    }
}
