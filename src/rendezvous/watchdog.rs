//! All open rendezvous of the process: one thread knows their deadlines, and the failure of a run
//! ends those of the run.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, Once, Weak};
use std::time::Instant;

use super::runs::{Failures, Key};
use crate::error::{Error, Result};

/// A deadline; the number distinguishes equal instants.
pub(super) type Ticket = (Instant, u64);

/// What ends while it waits for ranks.
pub(super) trait Ends: Send + Sync {
    /// The deadline of rendezvous `key` has passed, unless it is a later one with another ticket.
    fn expire(&self, key: Key, ticket: Ticket);

    /// Another call of the run has failed.
    fn fail(&self, run: i64, error: Error);
}

/// XLA gives each launch of the process a run id of its own.
struct Watched {
    tickets: u64,
    open: BTreeMap<Ticket, (Weak<dyn Ends>, Key)>,
    failed: Failures<Error>,
}

static WATCHED: Mutex<Watched> =
    Mutex::new(Watched { tickets: 0, open: BTreeMap::new(), failed: Failures::new() });
static CHANGED: Condvar = Condvar::new();
static START: Once = Once::new();

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Expires the rendezvous `key` of `open` at `deadline`, unless `forget` gets the ticket before. An
/// error if a call of the run has failed.
pub(super) fn watch(deadline: Instant, open: Weak<dyn Ends>, key: Key) -> Result<Ticket> {
    START.call_once(|| {
        // Without this thread calls still work; they wait without a limit.
        let _ = std::thread::Builder::new().name("meshsolve-watch".into()).spawn(run);
    });
    let mut watched = watched();
    watched.failed.of(key.0)?;
    watched.tickets += 1;
    let ticket = (deadline, watched.tickets);
    watched.open.insert(ticket, (open, key));
    if watched.open.first_key_value().is_some_and(|(first, _)| *first == ticket) {
        CHANGED.notify_one();
    }
    Ok(ticket)
}

/// Drops the deadline of a rendezvous that is over.
pub(super) fn forget(ticket: Ticket) {
    watched().open.remove(&ticket);
}

/// A call of `run` has failed, so its program ends on the devices that know it. They do not come to
/// the program's other calls: no device may wait there, now or later.
pub fn end(run: i64, error: &Error) {
    let mut watched = watched();
    watched.failed.keep(run, error);
    let of_run = watched.open.values().filter(|(_, key)| key.0 == run);
    let waiting: Vec<_> = of_run.filter_map(|(open, _)| open.upgrade()).collect();
    drop(watched);
    waiting.into_iter().for_each(|open| open.fail(run, error.clone()));
}

fn run() {
    let mut guard = watched();
    loop {
        let now = Instant::now();
        guard = match guard.open.first_key_value().map(|(key, _)| key.0) {
            None => CHANGED.wait(guard).unwrap_or_else(|e| e.into_inner()),
            Some(next) if next > now => {
                CHANGED.wait_timeout(guard, next - now).unwrap_or_else(|e| e.into_inner()).0
            }
            Some(_) => {
                let due = guard.open.pop_first();
                drop(guard);
                if let Some((ticket, (open, key))) = due
                    && let Some(open) = open.upgrade()
                {
                    open.expire(key, ticket);
                }
                watched()
            }
        };
    }
}
