//! Phases of a call. A phase has counters of its own, one for each worker, which begin at zero. So
//! no algorithm knows what was counted before it.
//!
//! All workers enter the same phases in the same order. The first to enter makes the counters.
//! Those of a phase that all have entered are freed with its last [`Phase`].

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use super::progress::Progress;
use super::{Signal, Step};

/// On cache lines of its own.
#[repr(align(128))]
struct Counter(Progress);

type Counters = Arc<[Counter]>;

/// A worker's access to the counters of a phase.
#[derive(Clone)]
pub struct Phase {
    number: usize,
    signal: Signal,
    counters: Counters,
}

impl Phase {
    /// The number of phases that each worker has entered before this one.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What its counters count.
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Raises the counter of worker `me`, who calls this. It publishes what the worker wrote before.
    pub fn announce(&self, me: usize, count: usize) {
        self.counters[me].0.announce(count);
    }

    /// Waits until the counter of a worker has reached `count`.
    pub fn wait(&self, worker: usize, count: usize) -> Step {
        self.counters[worker].0.wait(count)
    }
}

/// The phases of the workers of one call.
pub struct Phases {
    workers: usize,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the first phase that some worker has yet to enter.
    first: usize,
    /// That phase and those after it, each with what it counts and how many workers have entered.
    begun: VecDeque<(Counters, Signal, usize)>,
    /// All phases that workers may wait in.
    live: Vec<Weak<[Counter]>>,
    stopped: bool,
}

impl Phases {
    pub fn new(workers: usize) -> Self {
        Phases::patient(workers, Duration::ZERO)
    }

    /// Whose waits have this patience.
    pub fn patient(workers: usize, patience: Duration) -> Self {
        Phases { workers, patience, state: Mutex::default() }
    }

    /// A worker that has entered `number` phases enters the next one.
    pub fn enter(&self, number: usize, signal: Signal) -> Phase {
        let mut state = self.state();
        let index = number - state.first;
        if index == state.begun.len() {
            let counter = |_| Counter(Progress::patient(self.patience));
            let counters: Counters = (0..self.workers).map(counter).collect();
            if state.stopped {
                counters.iter().for_each(|counter| counter.0.stop());
            }
            state.live.retain(|phase| phase.strong_count() > 0);
            state.live.push(Arc::downgrade(&counters));
            state.begun.push_back((counters, signal, 0));
        }
        let (counters, first, entered) = &mut state.begun[index];
        assert_eq!(*first, signal, "all workers enter the same phases");
        *entered += 1;
        let counters = counters.clone();
        if state.begun[0].2 == self.workers {
            state.begun.pop_front();
            state.first += 1;
        }
        Phase { number, signal, counters }
    }

    /// Makes every present and future wait in a phase return `Stopped`.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for phase in state.live.iter().filter_map(Weak::upgrade) {
            phase.iter().for_each(|counter| counter.0.stop());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}
