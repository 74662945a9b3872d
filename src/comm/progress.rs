//! A counter that only grows and that threads wait for, and a barrier of threads. Both can be
//! stopped.
//!
//! Contract. `announce(c)` publishes everything the caller wrote before it to every thread whose
//! `wait(c' <= c)` returns `Ok`. A waiter spins briefly (tile kernels take tens of microseconds),
//! then sleeps. If workers outnumber cores, a waiter therefore does not take the time of others. One
//! with patience first goes on for that time, and lets other threads run between its looks. No
//! wake-up is lost: the waiter registers, fences, then reads the count. The announcer stores the
//! count, fences, then reads the registrations. The fence that comes second sees the other thread's
//! write. `tests/loom` checks it.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, atomic};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, atomic};
use std::time::{Duration, Instant};

use atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use super::{Step, Stopped};

#[cfg(loom)]
const SPINS: usize = 0;
#[cfg(not(loom))]
const SPINS: usize = 400;

pub struct Progress {
    count: AtomicUsize,
    stopped: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    patience: Duration,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            count: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            patience: Duration::ZERO,
        }
    }
}

impl Progress {
    /// With this patience.
    pub fn patient(patience: Duration) -> Self {
        Progress { patience, ..Progress::default() }
    }

    /// Raises the count to `count`. Only one thread at a time may announce.
    pub fn announce(&self, count: usize) {
        self.count.store(count, Ordering::Release);
        self.wake_sleepers();
    }

    /// Makes every present and future wait return `Stopped`.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake_sleepers();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub fn wait(&self, count: usize) -> Step {
        if let Some(step) = self.spin(count) {
            return step;
        }
        let since = Instant::now();
        while since.elapsed() < self.patience {
            std::thread::yield_now();
            if let Some(step) = self.spin(count) {
                return step;
            }
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        let step = loop {
            if let Some(step) = self.state(count) {
                break step;
            }
            guard = self.wake.wait(guard).unwrap_or_else(|e| e.into_inner());
        };
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        step
    }

    fn spin(&self, count: usize) -> Option<Step> {
        for _ in 0..SPINS {
            if let Some(step) = self.state(count) {
                return Some(step);
            }
            std::hint::spin_loop();
        }
        None
    }

    fn state(&self, count: usize) -> Option<Step> {
        if self.is_stopped() {
            Some(Err(Stopped))
        } else if self.count.load(Ordering::Acquire) >= count {
            Some(Ok(()))
        } else {
            None
        }
    }

    fn wake_sleepers(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(self.lock.lock().unwrap_or_else(|e| e.into_inner()));
            self.wake.notify_all();
        }
    }
}

/// A reusable barrier of `parties` threads.
pub struct Barrier {
    parties: usize,
    arrived: AtomicUsize,
    passed: Progress,
}

impl Barrier {
    pub fn new(parties: usize) -> Self {
        Barrier::patient(parties, Duration::ZERO)
    }

    /// Whose waits have this patience.
    pub fn patient(parties: usize, patience: Duration) -> Self {
        Barrier { parties, arrived: AtomicUsize::new(0), passed: Progress::patient(patience) }
    }

    pub fn wait(&self) -> Step {
        let ticket = self.arrived.fetch_add(1, Ordering::AcqRel);
        let round = ticket / self.parties + 1;
        if ticket % self.parties + 1 == self.parties {
            self.passed.announce(round);
        }
        self.passed.wait(round)
    }

    pub fn stop(&self) {
        self.passed.stop();
    }

    pub fn is_stopped(&self) -> bool {
        self.passed.is_stopped()
    }
}
