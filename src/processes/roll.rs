//! Which processes wait for long. Each tells the others by MPI in which step it waits, from another
//! thread than the one that calls ScaLAPACK. So each can name those that do not wait.

use std::sync::{Mutex, OnceLock};

use super::mpi::Communicator;
use crate::error::Result;

struct Roll {
    ranks: Communicator,
    /// The last step in which each process has waited for long.
    steps: Vec<u64>,
}

static ROLL: OnceLock<Mutex<Roll>> = OnceLock::new();

/// Begins with a communicator of its own, on which several threads may call MPI.
pub fn open(ranks: Communicator) {
    let steps = vec![0; ranks.size()];
    ROLL.get_or_init(|| Mutex::new(Roll { ranks, steps }));
}

/// Tells the others that this process waits in a step. Returns the processes from which it has not
/// heard that they wait in it, or in a later one. `None` if MPI has not begun, has ended, or is for one
/// thread.
pub fn absent(step: u64) -> Option<Vec<usize>> {
    let mut roll = ROLL.get()?.lock().unwrap_or_else(|e| e.into_inner());
    if roll.ranks.mpi().is_over().unwrap_or(true) {
        return None;
    }
    roll.call(step).ok()?;
    Some((0..roll.steps.len()).filter(|&rank| roll.steps[rank] < step).collect())
}

impl Roll {
    fn call(&mut self, step: u64) -> Result<()> {
        let own = self.ranks.rank();
        let others = (0..self.ranks.size()).filter(|&rank| rank != own);
        if self.steps[own] < step {
            self.steps[own] = step;
            // MPI reads it when the other process asks for it, so it stays.
            let step: &'static u64 = Box::leak(Box::new(step));
            others.clone().try_for_each(|rank| self.ranks.leave(step, rank))?;
        }
        for rank in others {
            while let Some(step) = self.ranks.take_left(rank)? {
                self.steps[rank] = self.steps[rank].max(step);
            }
        }
        Ok(())
    }
}
