//! The order in which a process serves its calls.
//!
//! Independent calls reach processes in different order. Each has a *ticket*, a number that all
//! processes share. Process 0 serves tickets in the order in which they arrive there, and announces
//! each. The others serve what is announced, and wait until it has arrived.
//!
//! A ticket that has arrived at process 0 has its operands there. So whatever it depends on has ended
//! or is announced earlier. As handlers never block, it arrives at the others, too.
//!
//! A call that fails does so on all processes, before the next is announced. It ends its run, so that
//! no device may come to the run's other calls. Those that have arrived come back.

use std::collections::VecDeque;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::rendezvous::{Failures, Key};

/// Calls that have arrived, by their run on this process and their ticket.
pub struct Order<V, E> {
    state: Mutex<State<V, E>>,
    changed: Condvar,
}

struct State<V, E> {
    arrived: VecDeque<(Key, V)>,
    failed: Failures<E>,
    /// Why no call is served any more.
    closed: Option<E>,
}

impl<V, E: Clone> Default for Order<V, E> {
    fn default() -> Self {
        let state = State { arrived: VecDeque::new(), failed: Failures::new(), closed: None };
        Order { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<V, E: Clone> Order<V, E> {
    fn state(&self) -> MutexGuard<'_, State<V, E>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A call arrives. It comes back with an error if its run has failed, or none is served any more.
    pub fn arrive(&self, key: Key, call: V) -> Result<(), (V, E)> {
        let mut state = self.state();
        if let Some(error) = state.closed.clone().or_else(|| state.failed.of(key.0).err()) {
            return Err((call, error));
        }
        state.arrived.push_back((key, call));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the first call that has arrived, and leaves it there. None if none will.
    pub fn first(&self) -> Option<i64> {
        let mut state = self.state();
        loop {
            match state.arrived.front() {
                Some(((_, ticket), _)) => return Some(*ticket),
                None if state.closed.is_some() => return None,
                None => state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Waits until the call with a ticket has arrived, and takes it with its run. None if it will not.
    pub fn take(&self, ticket: i64) -> Option<(i64, V)> {
        let mut state = self.state();
        loop {
            if let Some(at) = state.arrived.iter().position(|(key, _)| key.1 == ticket) {
                return state.arrived.remove(at).map(|((run, _), call)| (run, call));
            }
            if state.closed.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// A call of a run has failed. Returns those of the run that have arrived; later ones come back.
    pub fn fail(&self, run: i64, error: &E) -> Vec<V> {
        let mut state = self.state();
        state.failed.keep(run, error);
        let arrived = std::mem::take(&mut state.arrived).into_iter();
        let (ended, others): (VecDeque<_>, _) = arrived.partition(|(key, _)| key.0 == run);
        state.arrived = others;
        ended.into_iter().map(|(_, call)| call).collect()
    }

    /// No further call arrives. Those that have are served, if they are announced.
    pub fn close(&self, error: E) {
        self.state().closed = Some(error);
        self.changed.notify_all();
    }

    /// Takes all calls that have arrived.
    pub fn drain(&self) -> Vec<V> {
        self.state().arrived.drain(..).map(|(_, call)| call).collect()
    }
}
