//! The order in which a process serves its calls.
//!
//! Independent calls reach processes in different order. Each has a *ticket*, a number that all
//! processes share. Process 0 serves tickets in the order in which they arrive there, and announces
//! each. The others serve what is announced, and wait until it has arrived.
//!
//! A ticket that has arrived at process 0 has its operands there. So whatever it depends on has ended
//! or is announced earlier. As handlers never block, it arrives at the others, too.

use std::collections::VecDeque;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// Calls that have arrived, by ticket.
pub struct Order<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

struct State<V> {
    arrived: VecDeque<(i64, V)>,
    is_closed: bool,
}

impl<V> Default for Order<V> {
    fn default() -> Self {
        let state = State { arrived: VecDeque::new(), is_closed: false };
        Order { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<V> Order<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A call arrives. It comes back if no call is served any more.
    pub fn arrive(&self, ticket: i64, call: V) -> Option<V> {
        let mut state = self.state();
        if state.is_closed {
            return Some(call);
        }
        state.arrived.push_back((ticket, call));
        drop(state);
        self.changed.notify_all();
        None
    }

    /// Waits for the first call that has arrived, and leaves it there. None if none will.
    pub fn first(&self) -> Option<i64> {
        let mut state = self.state();
        loop {
            match state.arrived.front() {
                Some((ticket, _)) => return Some(*ticket),
                None if state.is_closed => return None,
                None => state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Waits until the call with a ticket has arrived, and takes it. None if it will not.
    pub fn take(&self, ticket: i64) -> Option<V> {
        let mut state = self.state();
        loop {
            if let Some(at) = state.arrived.iter().position(|(other, _)| *other == ticket) {
                return state.arrived.remove(at).map(|(_, call)| call);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// No further call arrives. Those that have are served, if they are announced.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes all calls that have arrived.
    pub fn drain(&self) -> Vec<V> {
        self.state().arrived.drain(..).map(|(_, call)| call).collect()
    }
}
