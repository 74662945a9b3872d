//! Shared libraries found and loaded at run time. They are never unloaded: JAX uses the same ones.

use std::ffi::{CStr, CString, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::error::{Error, Kind, Result};

/// What to look for, and what to tell who does not have it.
pub struct Wanted<'a> {
    pub product: &'a str,
    /// Best first.
    pub sonames: &'a [&'a str],
    /// A function that every version has.
    pub witness: &'a CStr,
    /// Folders to look into before the dynamic loader is asked.
    pub folders: &'a [PathBuf],
    /// Folders to look into after it.
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
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The first of: what this process has loaded already (JAX loads its own by path, and the dynamic
    /// loader knows them by soname from then on); for each soname in turn `folders`, the dynamic
    /// loader's own search, `last_folders`.
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
        // SAFETY: a C string; the libraries that are opened here have initialisers of their vendor,
        // which JAX runs as well.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | flag) };
        let handle = NonNull::new(handle).ok_or_else(|| loader_error(name))?;
        let mut library = Library { handle, path: name.into() };
        let address = library
            .address(witness)
            .ok_or_else(|| format!("{}: has no {}", name.display(), witness.to_string_lossy()))?;
        let mut place = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `place` is written by dladdr if it returns other than zero; the file's name is a C
        // string that lives as long as the library, which is for ever.
        unsafe {
            if libc::dladdr(address.as_ptr(), place.as_mut_ptr()) != 0 {
                let file = CStr::from_ptr(place.assume_init().dli_fname);
                library.path = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes())).into();
            }
        }
        Ok(library)
    }

    /// Where the library lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn address(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, the name a C string.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }

    /// # Safety
    /// `F` is the type of a pointer to the function of that name.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address(name).ok_or_else(|| {
            let (path, name) = (self.path.display(), name.to_string_lossy());
            let text = format!("meshsolve: {path}: expected the function {name}, got none; install a newer version of this library");
            Error::new(Kind::FailedPrecondition, text)
        })?;
        // SAFETY: by contract `F` is a pointer to a function, of the same size.
        Ok(unsafe { transmute_copy(&address.as_ptr()) })
    }
}

/// Folders of installed toolkits.
pub fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let named = named.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    named.chain(["/usr/local/cuda".into()]).map(|folder| folder.join("lib64")).collect()
}

/// What the dynamic loader says of a name that is nowhere.
fn not_there(soname: &str) -> String {
    format!("{soname}: cannot open shared object file: No such file or directory")
}

fn loader_error(name: &Path) -> String {
    // SAFETY: dlerror gives null or a C string that is valid until this thread's next call of dl*.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
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

/// A table of the functions of a library, with their C types, and how to load it.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case)]
        #[derive(Debug)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &$crate::backend::cuda::load::Library) -> $crate::error::Result<Self> {
                $(
                    #[allow(non_snake_case)]
                    let $name = {
                        const NAME: &str = concat!(stringify!($name), "\0");
                        let name = std::ffi::CStr::from_bytes_until_nul(NAME.as_bytes());
                        // SAFETY: the type is that of the vendor's header.
                        unsafe { library.function(name.unwrap_or_default()) }?
                    };
                )*
                Ok(Functions { $($name,)* })
            }
        }
    };
}
pub(super) use functions;
