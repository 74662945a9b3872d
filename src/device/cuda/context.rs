//! Contexts of devices: the driver and the libraries work on the one that is current on a thread.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys;

use super::driver::Driver;
use super::handle::Handle;
use super::load::{call, functions};
use crate::error::{Error, Kind, Result};

functions! { cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 }

const OUT_OF_MEMORY: c_int = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int;

pub type Context = Handle<sys::CUcontext>;

/// The contexts of a driver.
pub struct Contexts {
    driver: Driver,
    functions: Functions,
}

/// A device through one of its contexts.
pub struct DeviceContext {
    contexts: Arc<Contexts>,
    /// CUDA's number of the device in this process.
    number: c_int,
    context: Context,
}

impl DeviceContext {
    pub(super) fn new(contexts: Arc<Contexts>, number: c_int, context: Context) -> Self {
        DeviceContext { contexts, number, context }
    }

    pub(super) fn handle(&self) -> Context {
        self.context
    }

    pub fn number(&self) -> c_int {
        self.number
    }

    /// The device's name in messages.
    pub fn name(&self) -> String {
        format!("CUDA device {}", self.number)
    }

    /// Makes the device's context current on this thread for a while, for libraries that use it.
    pub fn enter(&self) -> Result<Entered<'_>> {
        self.contexts.enter(&self.name(), self.context)
    }
}

impl Contexts {
    pub(super) fn new(driver: Driver) -> Result<Contexts> {
        let functions = Functions::of(driver.loaded())?;
        Ok(Contexts { driver, functions })
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(super) fn enter(&self, what: &str, context: Context) -> Result<Entered<'_>> {
        // SAFETY: `Devices` promises that the context is never destroyed.
        let status = unsafe { call!(self.functions, cuCtxPushCurrent_v2(context.raw())) };
        self.check(what, "cuCtxPushCurrent", status)?;
        Ok(Entered(self))
    }

    /// `what` names the purpose of the call.
    pub(super) fn check(&self, what: &str, function: &str, status: c_int) -> Result<()> {
        let (kind, remedy) = match status {
            0 => return Ok(()),
            OUT_OF_MEMORY => (
                Kind::ResourceExhausted,
                "free memory of the device: other processes' is in nvidia-smi, JAX's in \
                 device.memory_stats()",
            ),
            _ => (
                Kind::Internal,
                "an error of work that was given to the device before may show only here: run the program \
                 with CUDA_LAUNCH_BLOCKING=1. If it is meshsolve's, please report it",
            ),
        };
        let text = self.driver.text(status);
        let message =
            format!("meshsolve: {what}: expected {function} to succeed, got {text}; {remedy}");
        Err(Error::new(kind, message))
    }
}

/// Makes a device's context current on this thread. Dropping this restores the previous one.
pub struct Entered<'a>(&'a Contexts);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut context = null_mut();
        // SAFETY: writes a local variable. An error has no remedy.
        unsafe { call!(self.0.functions, cuCtxPopCurrent_v2(&mut context)) };
    }
}
