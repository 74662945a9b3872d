//! Compiled kernels on disk. An entry is written next to its place and then renamed. So a reader
//! sees a whole entry or none, even while others write. An entry that is not whole counts as absent
//! and is rewritten. A fault of the cache fails no call. You may delete the folder at any time.

pub mod entry;
mod folder;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::nvrtc::Compiled;
pub use folder::{Folder, choose};

/// Files of killed processes are removed after this time.
const ABANDONED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub struct Cache(Folder);

/// The contents of the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub entries: usize,
    pub bytes: u64,
    /// Entries that will be rewritten.
    pub damaged: usize,
}

impl Cache {
    pub fn open(path: &Path) -> Result<Cache, String> {
        let cache = Cache(Folder::open(path)?);
        cache.remove_abandoned();
        Ok(cache)
    }

    /// The cache of this process, opened at first use; else why there is none. Standard error gets
    /// that, too, unless you have disabled the cache.
    pub fn of_process() -> Result<&'static Cache, &'static str> {
        static CACHE: OnceLock<Result<Cache, String>> = OnceLock::new();
        let cache = CACHE.get_or_init(|| {
            let environment = |name: &str| std::env::var_os(name);
            let cache = choose(environment).and_then(|path| Cache::open(&path));
            if let Err(why) = &cache
                && environment("MESHSOLVE_CACHE_DIR") != Some(OsString::new())
            {
                eprintln!(
                    "meshsolve: CUDA kernels are compiled anew in each process, not cached: {why}"
                );
            }
            cache
        });
        cache.as_ref().map_err(String::as_str)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The result for this key; `None` if it is absent or not whole.
    pub fn load(&self, key: &[u8]) -> Option<Compiled> {
        let bytes = fs::read(self.0.file(&name(key))).ok()?;
        let (found, compiled) = entry::decode(&bytes)?;
        (found == key).then_some(compiled)
    }

    pub fn store(&self, key: &[u8], compiled: &Compiled) -> Result<(), String> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let name = name(key);
        // Process numbers are not unique across containers that share the folder; the time differs.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (process, turn) = (std::process::id(), WRITTEN.fetch_add(1, Relaxed));
        let extra = self.0.file(&format!("{name}.{process}.{now}.{turn}{BESIDE}"));
        let written = (|| {
            let mut file =
                fs::File::options().write(true).create_new(true).mode(0o600).open(&extra)?;
            file.write_all(&entry::encode(key, compiled))?;
            fs::rename(&extra, self.0.file(&name))
        })();
        written.map_err(|error| {
            let _ = fs::remove_file(&extra);
            format!("{}: an entry cannot be written: {error}", self.path().display())
        })
    }

    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for (name, path) in self.files() {
            if name.ends_with(ENTRY) {
                let bytes = fs::read(path).unwrap_or_default();
                census.entries += 1;
                census.bytes += bytes.len() as u64;
                census.damaged += usize::from(entry::decode(&bytes).is_none());
            }
        }
        census
    }

    fn remove_abandoned(&self) {
        for (name, path) in self.files() {
            let age = || fs::metadata(&path).ok()?.modified().ok()?.elapsed().ok();
            if name.ends_with(BESIDE) && age().is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = (String, std::path::PathBuf)> {
        let files = fs::read_dir(self.0.itself()).into_iter().flatten().flatten();
        files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()))
    }
}

const ENTRY: &str = ".cubin";
const BESIDE: &str = ".new";

fn name(key: &[u8]) -> String {
    format!("{:032x}{ENTRY}", entry::Hash::of(key))
}
