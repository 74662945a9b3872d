//! Devices whose host threads wait: each brings a parcel, and all get what the last one makes of
//! them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};

use super::collect::{Complete, Rendezvous, Waiter};
use super::runs::Key;
use crate::error::{Error, Result};

/// A parcel, or what is made of all. Their types are the routine's; a call site has one routine.
type Value = Box<dyn Any + Send>;

/// The place where a host thread waits for its value.
#[derive(Clone, Default)]
pub struct Slot(Arc<(Mutex<Option<Result<Value>>>, Condvar)>);

/// The rendezvous of host threads.
pub type Hosts = Rendezvous<Value, Slot>;

impl Slot {
    fn fill(&self, value: Result<Value>) {
        let (slot, filled) = &*self.0;
        *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(value);
        filled.notify_one();
    }

    fn wait(&self) -> Result<Value> {
        let (slot, filled) = &*self.0;
        let mut value = slot.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            match value.take() {
                Some(value) => return value,
                None => value = filled.wait(value).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }
}

impl Waiter for Slot {
    fn refuse(all: Vec<Self>, error: Error) {
        all.iter().for_each(|slot| slot.fill(Err(error.clone())));
    }
}

fn typed<V: 'static>(value: Value) -> V {
    *value.downcast().expect("all ranks of a call site run one routine")
}

impl Hosts {
    /// Waits until all ranks of a group have come. The last one passes their parcels, in rank order,
    /// to `make`; all get its value. An error or a panic there is that of all, as is one of a rank
    /// that has failed or does not come in time.
    pub fn gather<V: Send + 'static, S: Clone + Send + 'static>(
        self: &Arc<Self>,
        key: Key,
        place: (usize, i32),
        parcel: V,
        make: impl FnOnce(Vec<V>) -> Result<S>,
    ) -> Result<S> {
        let slot = Slot::default();
        if let Some(complete) = self.arrive(key, place, Box::new(parcel), slot.clone()) {
            let Complete { parcels, waiters, .. } = complete;
            let made = || make(parcels.into_iter().map(typed).collect());
            let made = catch_unwind(AssertUnwindSafe(made)).unwrap_or_else(|panic| {
                Err(Error::from_panic("what ranks have in common", &*panic))
            });
            for waiter in waiters {
                waiter.fill(made.clone().map(|value| Box::new(value) as Value));
            }
        }
        slot.wait().map(typed)
    }
}
