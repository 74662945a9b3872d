//! Runs, and those that have failed.

use std::collections::VecDeque;

use crate::error::{Error, Result};

/// The failed runs that are remembered for late ranks.
const REMEMBERED: usize = 16;

/// (run id, group)
pub type Key = (i64, i64);

/// Failed runs, with their first errors.
pub(super) struct Failures(VecDeque<(i64, Error)>);

impl Failures {
    pub(super) const fn new() -> Self {
        Failures(VecDeque::new())
    }

    /// The error of a run that has failed.
    pub(super) fn of(&self, run: i64) -> Result<()> {
        self.0.iter().find(|(failed, _)| *failed == run).map_or(Ok(()), |f| Err(f.1.clone()))
    }

    /// Remembers the first error of a run.
    pub(super) fn keep(&mut self, run: i64, error: &Error) {
        if self.of(run).is_ok() {
            self.0.truncate(REMEMBERED - 1);
            self.0.push_front((run, error.clone()));
        }
    }
}
