//! The table of routines. A routine reads its attributes once per call site (`configure`). It turns
//! the parts of all devices into a job per call (`prepare`). To add one, add an entry here, an
//! algorithm in `algorithms` and a Python function; never C++.

use std::sync::Arc;
use std::time::Instant;

use crate::call::{Attributes, Call, Job};
use crate::error::{Error, Result};
use crate::processes::Work;

mod description;
mod on_cuda;
pub mod solver;
mod ticket;
mod transpose;

pub use description::{Array, Description};
pub use on_cuda::{CudaArrival, OnCuda, Part};

pub trait Routine: Sync {
    fn name(&self) -> &'static str;
    fn description(&self) -> Description;
    fn configure(&'static self, attributes: &dyn Attributes) -> Result<Box<dyn Configured>>;
}

/// A routine with its attributes.
pub trait Configured: Send + Sync {
    /// Checks all buffers against each other and makes the job. `calls` is in rank order; `since`
    /// is the time of the first arrival.
    fn prepare(&self, calls: Vec<Call>, since: Instant) -> Result<Arc<dyn Job>>;

    /// The same for one call site on CUDA devices, with what its ranks exchange.
    fn on_cuda(&self) -> Box<dyn OnCuda>;

    /// The same where the ranks are processes, if they are.
    fn across(&self) -> Option<&dyn Across> {
        None
    }
}

/// A routine with its attributes, for processes.
pub trait Across: Send + Sync {
    /// Checks the buffers of this process' devices, and makes its work of a call of `world` devices.
    /// `calls` is in rank order.
    fn prepare(&self, world: usize, calls: Vec<Call>) -> Result<Box<dyn Work>>;
}

/// All routines.
pub fn table() -> impl Iterator<Item = &'static dyn Routine> {
    let others: [&'static dyn Routine; 2] = [&transpose::Transpose, &ticket::Ticket];
    solver::solvers().map(|routine| routine as &dyn Routine).chain(others).chain(added())
}

/// Adds a routine, for tests.
#[cfg(feature = "internals")]
pub fn add(routine: &'static dyn Routine) {
    ADDED.get_or_init(|| routine);
}

#[cfg(feature = "internals")]
static ADDED: std::sync::OnceLock<&'static dyn Routine> = std::sync::OnceLock::new();

#[cfg(feature = "internals")]
fn added() -> Option<&'static dyn Routine> {
    ADDED.get().copied()
}

#[cfg(not(feature = "internals"))]
fn added() -> Option<&'static dyn Routine> {
    None
}

/// The attributes of every call site: the routine and the number of devices.
pub struct Site {
    pub routine: &'static str,
    pub world: usize,
    pub configured: Box<dyn Configured>,
}

impl Site {
    pub fn new(attributes: &dyn Attributes) -> Result<Site> {
        let name = attributes.text("routine").unwrap_or_default();
        let Some(routine) = table().find(|r| r.name() == name) else {
            let known: Vec<_> = table().map(|r| r.name()).collect();
            return Err(Error::invalid(format!(
                "meshsolve: attribute `routine`: expected a string, one of {known:?}, got {name:?}"
            )));
        };
        let counted = Counted::new(attributes);
        let world = counted.int("world").unwrap_or(0);
        if !(1..=1 << 16).contains(&world) {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: attribute `world`: expected the number of devices on the mesh axis \
                 as an int64, got {world}"
            )));
        }
        let configured = routine.configure(&counted)?;
        counted.check_all_known(name.as_str())?;
        Ok(Site { routine: routine.name(), world: world as usize, configured })
    }
}

/// Remembers which attributes exist and have been read, so that a misspelt one is an error.
struct Counted<'a> {
    inner: &'a dyn Attributes,
    found: std::cell::RefCell<Vec<String>>,
}

impl<'a> Counted<'a> {
    fn new(inner: &'a dyn Attributes) -> Self {
        Counted { inner, found: vec!["routine".to_string()].into() }
    }

    fn note<V>(&self, name: &str, value: Option<V>) -> Option<V> {
        let mut found = self.found.borrow_mut();
        if value.is_some() && !found.iter().any(|f| f == name) {
            found.push(name.to_string());
        }
        value
    }

    fn check_all_known(&self, routine: &str) -> Result<()> {
        let found = self.found.borrow();
        if found.len() == self.inner.count() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "meshsolve.{routine}: {} attributes were given, of which only {found:?} are known and of \
             the right type (int64 or string); check the spelling of the others",
            self.inner.count()
        )))
    }
}

impl Attributes for Counted<'_> {
    fn int(&self, name: &str) -> Option<i64> {
        self.note(name, self.inner.int(name))
    }
    fn text(&self, name: &str) -> Option<String> {
        self.note(name, self.inner.text(name))
    }
    fn count(&self) -> usize {
        self.inner.count()
    }
}
