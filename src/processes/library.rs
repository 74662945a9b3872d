//! Libraries of MPI and ScaLAPACK, loaded at run time. Their names are global, as those of
//! ScaLAPACK find MPI's and LAPACK's that way. They are never unloaded.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{Error, Kind, Result};

/// Loads a library by its path, or by a name for the dynamic loader.
pub fn load(name: &Path) -> Result<()> {
    let c_name = CString::new(name.as_os_str().as_bytes())
        .map_err(|_| Error::invalid("meshsolve: the name of a library has a NUL in it"))?;
    // Some libraries of MKL find each other only when they are used.
    let opened = [libc::RTLD_NOW, libc::RTLD_LAZY].into_iter().any(|when| {
        // SAFETY: a C string. The user has named this library, with its initialisers.
        !unsafe { libc::dlopen(c_name.as_ptr(), when | libc::RTLD_GLOBAL) }.is_null()
    });
    if opened {
        return Ok(());
    }
    // SAFETY: dlerror gives null or a C string that is valid until this thread's next call of dl*.
    let why = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    let why = why.unwrap_or_else(|| "no reason given".into());
    let text =
        format!("meshsolve: {}: expected a library, which cannot be loaded: {why}", name.display());
    Err(Error::new(Kind::FailedPrecondition, text))
}

/// The address of a global name.
pub fn find(name: &str) -> Option<NonNull<c_void>> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string; the handle of the default search order.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// The same of a function that must be there.
pub fn expect(name: &str) -> Result<NonNull<c_void>> {
    find(name).ok_or_else(|| {
        let text = format!(
            "meshsolve: expected the function {name} in the libraries of MPI and ScaLAPACK, got none; \
             name other libraries in MESHSOLVE_SCALAPACK"
        );
        Error::new(Kind::FailedPrecondition, text)
    })
}

/// A table of C functions that return an integer, or nothing. `load` takes what precedes each name.
macro_rules! functions {
    ($table:ident { $($field:ident = $name:literal($($argument:ty),* $(,)?);)* }) => {
        #[derive(Clone, Copy)]
        pub struct $table {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)*
        }

        impl $table {
            pub fn load(prefix: &str) -> $crate::error::Result<Self> {
                Ok($table {
                    $($field: {
                        let address = $crate::processes::library::expect(&format!("{prefix}{}", $name))?;
                        // SAFETY: the function of that name, whose parameters its documentation
                        // gives. A function without a result leaves the register of one undefined,
                        // and nothing reads it.
                        unsafe {
                            std::mem::transmute::<
                                std::ptr::NonNull<std::ffi::c_void>,
                                unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;
