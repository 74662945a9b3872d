//! The driver library: which version of CUDA it takes cubins of, and whether it works.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::ptr::null;

use super::load::{Library, Wanted, functions};
use crate::error::{Error, Kind, Result};

functions! {
    cuDriverGetVersion(*mut c_int) -> c_int;
    cuInit(c_uint) -> c_int;
    cuDeviceGetCount(*mut c_int) -> c_int;
    cuGetErrorName(c_int, *mut *const c_char) -> c_int;
    cuGetErrorString(c_int, *mut *const c_char) -> c_int;
}

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
    /// Loads the library and asks for its version, which starts nothing on any device.
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

    /// The driver at a path.
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
        // SAFETY: the argument is a valid place.
        let status = unsafe { (driver.functions.cuDriverGetVersion)(&mut version) };
        driver.check("cuDriverGetVersion", status)?;
        driver.version = (version / 1000, version % 1000 / 10);
        Ok(driver)
    }

    pub fn path(&self) -> &Path {
        self.loaded.path()
    }

    pub(super) fn loaded(&self) -> &Library {
        &self.loaded
    }

    /// Initialises the driver and counts the devices that this process may use.
    pub fn devices(&self) -> Result<usize> {
        // SAFETY: 0 is the only value that flags may have.
        self.check("cuInit", unsafe { (self.functions.cuInit)(0) })?;
        let mut count = 0;
        // SAFETY: the argument is a valid place.
        let status = unsafe { (self.functions.cuDeviceGetCount)(&mut count) };
        self.check("cuDeviceGetCount", status)?;
        Ok(count.max(0) as usize)
    }

    /// A status in the driver's own words: number, name, text.
    pub(super) fn says(&self, status: c_int) -> String {
        let text = |get: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = null();
            // SAFETY: the place is valid; what the driver writes there is null or a C string of static
            // storage.
            unsafe {
                get(status, &mut text);
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
            }
        };
        let name = text(self.functions.cuGetErrorName).unwrap_or("unknown error".into());
        let says = text(self.functions.cuGetErrorString).unwrap_or_default();
        format!("{status} {name} ({says})")
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let message = format!(
            "meshsolve: NVIDIA driver {}: expected {function} to succeed, got {}; \
             see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES hides the GPUs",
            self.path().display(),
            self.says(status),
        );
        Err(Error::new(Kind::FailedPrecondition, message))
    }
}
