//! Runs, and those that have failed.

use std::collections::VecDeque;

/// The failed runs that are remembered for late ranks.
const REMEMBERED: usize = 16;

/// The run id, and what distinguishes the calls of one site in it: a group, or a ticket.
pub type Key = (i64, i64);

/// Failed runs, with their first errors.
pub struct Failures<E>(VecDeque<(i64, E)>);

impl<E: Clone> Failures<E> {
    pub const fn new() -> Self {
        Failures(VecDeque::new())
    }

    /// The error of a run that has failed.
    pub fn of(&self, run: i64) -> Result<(), E> {
        self.0.iter().find(|(failed, _)| *failed == run).map_or(Ok(()), |f| Err(f.1.clone()))
    }

    /// Remembers the first error of a run.
    pub fn keep(&mut self, run: i64, error: &E) {
        if self.of(run).is_ok() {
            self.0.truncate(REMEMBERED - 1);
            self.0.push_front((run, error.clone()));
        }
    }
}
