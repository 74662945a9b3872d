//! The path of the cache's folder, and whether only this user can write there.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open folder of this user. It stays the folder that was checked, whatever happens to its name.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: File,
}

/// The folder by the environment (a map from a variable's name): `MESHSOLVE_CACHE_DIR`, none if
/// that is empty. Else `meshsolve/kernels` in `XDG_CACHE_HOME` or in `.cache` of `HOME`.
pub fn choose(environment: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    if let Some(own) = environment("MESHSOLVE_CACHE_DIR") {
        let own = PathBuf::from(own);
        return match own.as_os_str().is_empty() {
            true => Err("MESHSOLVE_CACHE_DIR is empty".into()),
            false if own.is_absolute() => Ok(own),
            false => Err(format!(
                "MESHSOLVE_CACHE_DIR: expected an absolute path, got {:?}",
                own.display().to_string()
            )),
        };
    }
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|caches| caches.join("meshsolve/kernels"))
        .ok_or_else(|| {
            "no absolute path in MESHSOLVE_CACHE_DIR, XDG_CACHE_HOME or HOME; set MESHSOLVE_CACHE_DIR".into()
        })
}

impl Folder {
    /// Opens the folder, and creates it if it is absent. Refuses one that others own or may enter.
    pub fn open(path: &Path) -> Result<Folder, String> {
        let failed = |what: &str, error: std::io::Error| {
            format!("{}: cannot be {what}: {error}; set MESHSOLVE_CACHE_DIR", path.display())
        };
        let open = || File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path);
        let open = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
                made.map_err(|error| failed("made", error))?;
                open()
            }
            opened => opened,
        };
        let open = open.map_err(|error| failed("opened", error))?;
        let found = open.metadata().map_err(|error| failed("examined", error))?;
        // SAFETY: geteuid always succeeds.
        let user = unsafe { libc::geteuid() };
        if found.uid() != user {
            return Err(format!(
                "{}: expected a folder of user {user}, got one of user {}; set MESHSOLVE_CACHE_DIR to a \
                 folder of your own",
                path.display(),
                found.uid()
            ));
        }
        let mode = found.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(format!(
                "{0}: expected a folder that only its owner may enter (mode 700), got mode {mode:o}; \
                 chmod 700 {0}, or set MESHSOLVE_CACHE_DIR",
                path.display()
            ));
        }
        Ok(Folder { path: path.into(), open })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder, as a path.
    pub fn itself(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.open.as_raw_fd()).into()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.itself().join(name)
    }
}
