//! The driver library: the version of CUDA for which it takes cubins, and whether it works.

use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};

use cudarc::driver::sys;

use super::load::{Library, Wanted, call, functions};
use crate::error::{Error, Kind, Result};

functions! { cuDriverGetVersion cuInit cuDeviceGetCount cuGetErrorName cuGetErrorString }

/// A function that every version has.
const WITNESS: &CStr = c"cuDriverGetVersion";

const REMEDY: &str = "install the driver of the GPU; in a container, start it with the GPUs (for Docker \
    --gpus all). Without a GPU nothing is missing: meshsolve works on CPU devices";

#[derive(Debug)]
pub struct Driver {
    loaded: Library,
    functions: Functions,
    /// CUDA (major, minor).
    pub version: (i32, i32),
}

impl Driver {
    /// Loads the library and reads its version. This starts no work on any device.
    pub fn find() -> Result<Driver> {
        Driver::of(Library::find(&Wanted {
            product: "NVIDIA driver",
            sonames: &["libcuda.so.1"],
            witness: WITNESS,
            folders: &[],
            last_folders: &[PathBuf::from("/usr/lib/wsl/lib")],
            remedy: REMEDY,
        })?)
    }

    pub fn at(path: &Path) -> Result<Driver> {
        let library = Library::open(path, 0, WITNESS).map_err(|why| {
            let text = "expected a library that loads, got";
            let message = format!("meshsolve: NVIDIA driver: {text} {why}; {REMEDY}");
            Error::new(Kind::FailedPrecondition, message)
        })?;
        Driver::of(library)
    }

    fn of(library: Library) -> Result<Driver> {
        let functions = Functions::of(&library)?;
        let mut driver = Driver { loaded: library, functions, version: (0, 0) };
        let mut version = 0;
        // SAFETY: writes a local variable.
        let status = unsafe { call!(driver.functions, cuDriverGetVersion(&mut version)) };
        driver.check("cuDriverGetVersion", status)?;
        driver.version = (version / 1000, version % 1000 / 10);
        Ok(driver)
    }

    pub fn path(&self) -> &Path {
        self.loaded.path()
    }

    pub fn loaded(&self) -> &Library {
        &self.loaded
    }

    /// Initialises the driver and counts the devices that this process may use.
    pub fn devices(&self) -> Result<usize> {
        // SAFETY: 0 is the only valid value of the flags.
        self.check("cuInit", unsafe { call!(self.functions, cuInit(0)) })?;
        let mut count = 0;
        // SAFETY: writes a local variable.
        let status = unsafe { call!(self.functions, cuDeviceGetCount(&mut count)) };
        self.check("cuDeviceGetCount", status)?;
        Ok(count.max(0) as usize)
    }

    /// A status as the driver describes it: number, name, text.
    pub(super) fn text(&self, status: c_int) -> String {
        // SAFETY: functions of the driver; their texts live as long as the driver is loaded.
        let (name, text) = unsafe {
            let Functions { cuGetErrorName: name, cuGetErrorString: text, .. } = self.functions;
            (
                name.text_there(|| sys::cuGetErrorName, status),
                text.text_there(|| sys::cuGetErrorString, status),
            )
        };
        let name = name.unwrap_or("unknown error".into());
        let text = text.unwrap_or_default();
        format!("{status} {name} ({text})")
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let message = format!(
            "meshsolve: NVIDIA driver {}: expected {function} to succeed, got {}; \
             see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES hides the GPUs",
            self.path().display(),
            self.text(status),
        );
        Err(Error::new(Kind::FailedPrecondition, message))
    }
}
