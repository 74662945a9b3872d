//! Shared libraries found and loaded at run time. They are never unloaded, because JAX uses the
//! same ones.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null};

use crate::error::{Error, Kind, Result};

/// The library to find, and the advice if it is missing.
pub struct Wanted<'a> {
    pub product: &'a str,
    /// The best one first.
    pub sonames: &'a [&'a str],
    /// A function that every version has.
    pub witness: &'a CStr,
    /// Folders to search before the dynamic loader does.
    pub folders: &'a [PathBuf],
    /// Folders to search after it.
    pub last_folders: &'a [PathBuf],
    pub remedy: &'a str,
}

#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    path: PathBuf,
}

// SAFETY: a handle of dlopen is valid in all threads, and is never closed.
unsafe impl Send for Library {}
// SAFETY: nothing changes a library after it is loaded.
unsafe impl Sync for Library {}

impl Library {
    /// The first of: a library that this process has already loaded; for each soname in turn
    /// `folders`, the dynamic loader's own search, `last_folders`. JAX loads its own by path, and
    /// the dynamic loader knows them by soname from then on.
    pub fn find(wanted: &Wanted) -> Result<Library> {
        let mut failures = Vec::new();
        for soname in wanted.sonames {
            if let Ok(library) = Library::open(soname, libc::RTLD_NOLOAD, wanted.witness) {
                return Ok(library);
            }
        }
        for soname in wanted.sonames {
            let in_folder = |folder: &PathBuf| Some(folder.join(soname)).filter(|p| p.exists());
            let first = wanted.folders.iter().filter_map(in_folder);
            let last = wanted.last_folders.iter().filter_map(in_folder);
            for path in first.chain([PathBuf::from(soname)]).chain(last) {
                match Library::open(&path, 0, wanted.witness) {
                    Ok(library) => return Ok(library),
                    Err(why) if why == not_there(soname) => {}
                    Err(why) => failures.push(why),
                }
            }
        }
        Err(missing(wanted, &failures))
    }

    /// The library at a path, or with a name for the dynamic loader.
    pub fn open(
        name: impl AsRef<Path>,
        flag: i32,
        witness: &CStr,
    ) -> std::result::Result<Library, String> {
        let name = name.as_ref();
        let c_name = CString::new(name.as_os_str().as_bytes())
            .map_err(|_| format!("{name:?}: no path has a NUL in it"))?;
        // SAFETY: a C string. The libraries that are opened here have initialisers of their vendor,
        // which JAX runs as well.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | flag) };
        let handle = NonNull::new(handle).ok_or_else(|| loader_error(name))?;
        let mut library = Library { handle, path: name.into() };
        let address = library
            .address(witness)
            .ok_or_else(|| format!("{}: has no {}", name.display(), witness.to_string_lossy()))?;
        let mut out = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr fills `out` if it returns non-zero. The file's name is a C string that
        // lives as long as the library, which stays loaded.
        unsafe {
            if libc::dladdr(address.as_ptr(), out.as_mut_ptr()) != 0 {
                let file = CStr::from_ptr(out.assume_init().dli_fname);
                library.path = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes())).into();
            }
        }
        Ok(library)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn address(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, the name a C string.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }

    /// A function that every supported version has.
    pub fn symbol(&self, name: &str) -> Result<Symbol> {
        self.newer(name)?.ok_or_else(|| {
            let path = self.path.display();
            let text = format!("meshsolve: {path}: expected the function {name}, got none; install a newer version of this library");
            Error::new(Kind::FailedPrecondition, text)
        })
    }

    /// A function that older versions lack.
    pub fn newer(&self, name: &str) -> Result<Option<Symbol>> {
        let name = CString::new(name).map_err(|_| Error::invalid("a name with NUL"))?;
        Ok(self.address(&name).map(Symbol))
    }
}

/// The address of a function in a library.
#[derive(Clone, Copy, Debug)]
pub struct Symbol(NonNull<c_void>);

// SAFETY: code, of a library that is never unloaded.
unsafe impl Send for Symbol {}
// SAFETY: nothing changes an address.
unsafe impl Sync for Symbol {}

impl Symbol {
    /// A pointer to it, as a C function with the parameters of `declared`'s result. `declared` is
    /// never called: cudarc's function would load a library by cudarc's rules.
    ///
    /// # Safety
    /// The symbol is the function that cudarc declares there.
    pub unsafe fn pointer<F: Declared>(self, _declared: impl FnOnce() -> F) -> F::Pointer {
        const { assert!(size_of::<F::Pointer>() == size_of::<*mut c_void>()) };
        // SAFETY: the caller promises this type; a pointer to a function, of the same size.
        unsafe { transmute_copy(&self.0) }
    }

    /// The library's text for a status, which `declared` may not know.
    ///
    /// # Safety
    /// As for [`Symbol::pointer`]. For every integer the function returns null or a C string of
    /// static storage.
    pub unsafe fn text<S: Returned<Value = c_int>>(
        self,
        _declared: impl FnOnce() -> unsafe fn(S) -> *const c_char,
        status: c_int,
    ) -> Option<String> {
        // SAFETY: the caller promises this type; an enumeration of C is an integer.
        let of: unsafe extern "C" fn(c_int) -> *const c_char = unsafe { transmute_copy(&self.0) };
        // SAFETY: the caller promises null or a C string.
        unsafe { text(of(status)) }
    }

    /// The same for a function that stores the text.
    ///
    /// # Safety
    /// As for [`Symbol::text`].
    pub unsafe fn text_there<S: Returned<Value = c_int>>(
        self,
        _declared: impl FnOnce() -> unsafe fn(S, *mut *const c_char) -> S,
        status: c_int,
    ) -> Option<String> {
        type Of = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        let mut there = null();
        // SAFETY: the caller promises this type; an enumeration of C is an integer.
        unsafe {
            let of: Of = transmute_copy(&self.0);
            of(status, &mut there);
            text(there)
        }
    }
}

/// # Safety
/// `at` is null or a C string.
pub unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: the caller promises null or a C string.
    unsafe { (!at.is_null()).then(|| CStr::from_ptr(at).to_string_lossy().into_owned()) }
}

/// A function as cudarc declares it.
pub trait Declared {
    /// The pointer to the C function.
    type Pointer: Copy;
}

/// The return type of such a function. A status is an integer: cudarc's enumerations lack values of
/// newer libraries, and may not hold them.
pub trait Returned {
    type Value;
}

macro_rules! statuses {
    ($($status:ty),*) => { $(impl Returned for $status { type Value = c_int; })* };
}
statuses!(
    cudarc::driver::sys::CUresult,
    cudarc::nvrtc::sys::nvrtcResult,
    cudarc::cublas::sys::cublasStatus_t,
    cudarc::cusolver::sys::cusolverStatus_t,
    cudarc::cusolvermg::sys::cusolverStatus_t,
    cudarc::nccl::sys::ncclResult_t
);

impl Returned for *const c_char {
    type Value = *const c_char;
}

/// For so many parameters and fewer.
macro_rules! declared {
    ($($first:ident $($parameter:ident)*)?) => {
        impl<R: Returned $(, $first $(, $parameter)*)?> Declared
            for unsafe fn($($first $(, $parameter)*)?) -> R
        {
            type Pointer = unsafe extern "C" fn($($first $(, $parameter)*)?) -> R::Value;
        }
        $(declared!($($parameter)*);)?
    };
}
declared!(A B C D E F G H I J K L M N O P Q S);

/// Folders of installed toolkits.
pub fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let named = named.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    named.chain(["/usr/local/cuda".into()]).map(|folder| folder.join("lib64")).collect()
}

/// The dynamic loader's message for a name that it does not find.
fn not_there(soname: &str) -> String {
    format!("{soname}: cannot open shared object file: No such file or directory")
}

fn loader_error(name: &Path) -> String {
    // SAFETY: dlerror gives null or a C string that is valid until this thread's next call of dl*.
    let text = unsafe { text(libc::dlerror()) };
    text.unwrap_or_else(|| format!("{}: cannot be loaded", name.display()))
}

fn missing(wanted: &Wanted, failures: &[String]) -> Error {
    let folders = |folders: &[PathBuf]| -> String {
        folders.iter().map(|f| format!(", {}", f.display())).collect()
    };
    let mut text = format!(
        "meshsolve: {}: expected {}, got none; tried what this process has loaded{}, the search path of \
         the dynamic loader{}",
        wanted.product,
        wanted.sonames.join(" or "),
        folders(wanted.folders),
        folders(wanted.last_folders),
    );
    if !failures.is_empty() {
        text += &format!(" ({})", failures.join("; "));
    }
    Error::new(Kind::FailedPrecondition, format!("{text}; {}", wanted.remedy))
}

/// A table of functions of a library, for [`call`], and its constructor.
#[cfg_attr(feature = "internals", macro_export)]
macro_rules! functions {
    ($($name:ident)*) => {
        #[allow(non_snake_case)]
        #[derive(Clone, Copy, Debug)]
        struct Functions {
            $($name: $crate::device::cuda::load::Symbol,)*
        }

        impl Functions {
            fn of(library: &$crate::device::cuda::load::Library) -> $crate::error::Result<Self> {
                Ok(Functions { $($name: library.symbol(stringify!($name))?,)* })
            }
        }
    };
}

/// Calls a function of a table, with the parameters that `sys`, cudarc's module of the library,
/// declares. `as` names another function with the same ones.
#[cfg_attr(feature = "internals", macro_export)]
macro_rules! call {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::device::cuda::load::call!($table, $name as $name($($argument),*))
    };
    ($table:expr, $name:ident as $declared:ident($($argument:expr),*)) => {{
        let function = $table.$name.pointer(|| {
            let declared: unsafe fn($($crate::device::cuda::load::any!($argument)),*) -> _ =
                sys::$declared;
            declared
        });
        function($($argument),*)
    }};
}

/// A type that the compiler infers.
#[cfg_attr(feature = "internals", macro_export)]
macro_rules! any {
    ($argument:expr) => {
        _
    };
}

#[cfg(feature = "internals")]
pub use {any, call, functions};
#[cfg(not(feature = "internals"))]
pub(crate) use {any, call, functions};
