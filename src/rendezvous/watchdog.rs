//! One thread that knows the deadlines of all open rendezvous.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, Once, Weak};
use std::time::Instant;

/// A deadline; the number distinguishes equal instants.
pub(super) type Ticket = (Instant, u64);
type Deadlines = BTreeMap<Ticket, (Weak<dyn Expires>, (i64, i64))>;

/// Rendezvous that end when their deadlines pass.
pub(super) trait Expires: Send + Sync {
    /// The deadline of rendezvous `key` has passed, unless it is a later one with another ticket.
    fn expire(&self, key: (i64, i64), ticket: Ticket);
}

static DEADLINES: Mutex<(u64, Deadlines)> = Mutex::new((0, BTreeMap::new()));
static CHANGED: Condvar = Condvar::new();
static START: Once = Once::new();

fn deadlines() -> MutexGuard<'static, (u64, Deadlines)> {
    DEADLINES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Expires the rendezvous `key` of `open` at `deadline`, unless `forget` gets the ticket before.
pub(super) fn watch(deadline: Instant, open: Weak<dyn Expires>, key: (i64, i64)) -> Ticket {
    START.call_once(|| {
        // Without this thread calls still work; they wait without a limit.
        let _ = std::thread::Builder::new().name("meshsolve-watch".into()).spawn(run);
    });
    let mut guard = deadlines();
    let (count, map) = &mut *guard;
    *count += 1;
    let ticket = (deadline, *count);
    map.insert(ticket, (open, key));
    if map.first_key_value().is_some_and(|(first, _)| *first == ticket) {
        CHANGED.notify_one();
    }
    ticket
}

/// Drops the deadline of a rendezvous that is over.
pub(super) fn forget(ticket: Ticket) {
    deadlines().1.remove(&ticket);
}

fn run() {
    let mut guard = deadlines();
    loop {
        let now = Instant::now();
        guard = match guard.1.first_key_value().map(|(key, _)| key.0) {
            None => CHANGED.wait(guard).unwrap_or_else(|e| e.into_inner()),
            Some(next) if next > now => {
                CHANGED.wait_timeout(guard, next - now).unwrap_or_else(|e| e.into_inner()).0
            }
            Some(_) => {
                let due = guard.1.pop_first();
                drop(guard);
                if let Some((ticket, (open, key))) = due
                    && let Some(open) = open.upgrade()
                {
                    open.expire(key, ticket);
                }
                deadlines()
            }
        };
    }
}
