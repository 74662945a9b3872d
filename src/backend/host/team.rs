//! What the lanes of one call share: their signals, their barrier, and why they stopped.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::progress::{Barrier, Progress};
use crate::backend::{Signal, Stopped};

pub struct Team {
    lanes: usize,
    panels: Progress,
    solved: Progress,
    partial_sums: Vec<Progress>,
    barrier: Barrier,
    info: AtomicUsize,
}

impl Team {
    pub fn new(lanes: usize) -> Self {
        Team {
            lanes,
            panels: Progress::default(),
            solved: Progress::default(),
            partial_sums: (0..lanes).map(|_| Progress::default()).collect(),
            barrier: Barrier::new(lanes),
            info: AtomicUsize::new(0),
        }
    }

    pub fn lanes(&self) -> usize {
        self.lanes
    }

    pub fn signal(&self, signal: Signal) -> &Progress {
        match signal {
            Signal::Panels => &self.panels,
            Signal::PartialSums(lane) => &self.partial_sums[lane],
            Signal::Solved => &self.solved,
        }
    }

    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Wakes every waiting lane; all their waits return `Stopped` from now on.
    pub fn stop(&self) {
        self.panels.stop();
        self.solved.stop();
        self.partial_sums.iter().for_each(Progress::stop);
        self.barrier.stop();
    }

    /// Records LAPACK's `info` and stops the lanes.
    pub fn give_up(&self, info: usize) -> Stopped {
        self.report(info);
        self.stop();
        Stopped
    }

    /// Records LAPACK's `info`, of which the smallest counts.
    pub fn report(&self, info: usize) {
        let smaller = |known: usize| (known == 0 || info < known).then_some(info);
        let _ = self.info.fetch_update(Ordering::AcqRel, Ordering::Acquire, smaller);
    }

    /// 0, or the order of the leading minor that is not positive definite, or is singular.
    pub fn info(&self) -> usize {
        self.info.load(Ordering::Acquire)
    }
}
