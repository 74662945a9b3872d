//! The kernels of `kernels/` as plain C++ on the host. The machine's C++ compiler builds them where
//! a source has changed. They are loaded and launched with fibers for threads (`emulate.h`).

use std::ffi::{CStr, CString, c_char, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use crate::kernels::entries;

/// The folders of kernels: the library's, and those with which benchmarks check.
const KERNELS: [&str; 2] = ["kernels", "benchmarks/native/kernels"];

type Launch = unsafe extern "C" fn(
    u32,
    u32,
    u64,
    i32,
    unsafe extern "C" fn(*mut c_void),
    *mut c_void,
) -> *const c_char;

/// Kernels built for a number of threads in a block.
pub struct Emulator {
    threads: u32,
    bulk_copies: bool,
    path: PathBuf,
    loaded: Library,
}

/// A handle of the dynamic loader; it is never closed.
#[derive(Clone, Copy)]
struct Library(*mut c_void);
// SAFETY: any thread may call the loader's functions.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Fast: blocks of 64 threads, the fewest that every kernel supports.
pub fn small() -> &'static Emulator {
    static EMULATOR: OnceLock<Emulator> = OnceLock::new();
    EMULATOR.get_or_init(|| Emulator::new(64))
}

/// The same on a device without bulk copies.
pub fn older() -> &'static Emulator {
    static EMULATOR: OnceLock<Emulator> = OnceLock::new();
    EMULATOR.get_or_init(|| {
        let Emulator { threads, ref path, loaded, .. } = *small();
        Emulator { threads, bulk_copies: false, path: path.clone(), loaded }
    })
}

/// Blocks of a device's size.
pub fn full() -> &'static Emulator {
    static EMULATOR: OnceLock<Emulator> = OnceLock::new();
    EMULATOR.get_or_init(|| Emulator::new(256))
}

impl Emulator {
    fn new(threads: u32) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{threads}"));
        std::fs::create_dir_all(&folder).expect("a folder for what is built");
        let library = folder.join("libkernels.so");
        // Several processes may build it.
        let lock = std::fs::File::create(folder.join("lock")).expect("a file to lock");
        lock.lock().expect("no other process builds it");
        let (stamp, now) = (folder.join("built-from"), fingerprint(root));
        if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&now) || !library.exists() {
            Self::build(root, &folder, threads);
            std::fs::write(stamp, now).expect("a file that says what it was built from");
        }
        let path = CString::new(library.to_str().expect("a path in UTF-8")).expect("a path");
        // SAFETY: `build` made this library; loading it runs no code of its own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        Emulator { threads, bulk_copies: true, path: library, loaded: Library(handle) }
    }

    fn build(root: &Path, folder: &Path, threads: u32) {
        let mut sources: Vec<_> =
            KERNELS.iter().flat_map(|kernels| files(&root.join(kernels))).collect();
        sources.retain(|path| path.extension().is_some_and(|kind| kind == "cu"));
        assert!(!sources.is_empty(), "no kernels");
        sources.extend(
            ["emulate.cc", "driver.cc", "queue.cc", "vendor.cc", "mg.cc", "nccl.cc"]
                .map(|file| root.join("tests/kernels").join(file)),
        );
        let table = entries::table(&KERNELS.map(|kernels| root.join(kernels)));
        std::fs::write(folder.join("entries.inc"), table).expect("a table for the driver");
        let object =
            |source: &Path| folder.join(source.file_name().expect("a name")).with_extension("o");
        let compile = |source: &Path| {
            let mut command = compiler();
            command.args(["-std=c++17", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
            // Pragmas are for the other compiler. A misaligned access ends in a trap, as on a
            // device.
            command.args(["-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE", "-fsanitize=undefined"]);
            command.args(["-fsanitize-undefined-trap-on-error", "-fno-strict-aliasing"]);
            command.arg("-ftls-model=initial-exec");
            command.arg(format!("-DTHREADS={threads}"));
            command
                .arg("-I")
                .arg(folder)
                .arg("-I")
                .arg(root.join("kernels"))
                .arg("-include")
                .arg(root.join("tests/kernels/emulate.h"));
            command.args(["-x", "c++", "-c"]).arg(source).arg("-o").arg(object(source));
            command.spawn().expect("g++ (or what CXX names) compiles the kernels for these tests")
        };
        let finish = |mut child: Child| assert!(child.wait().expect("a compiler").success());
        let running: Vec<_> = sources.iter().map(|source| compile(source)).collect();
        running.into_iter().for_each(finish);
        let mut command = compiler();
        command
            .arg("-shared")
            .arg("-o")
            .arg(folder.join("libkernels.so"))
            .args(sources.iter().map(|s| object(s)));
        finish(command.spawn().expect("g++ links the kernels for these tests"));
    }

    /// The path of the library, which is also that of the emulated driver.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An entry point. `F` is the type of the function.
    ///
    /// # Safety
    /// `F` has the parameters of the source.
    pub unsafe fn kernel<F: Copy>(&self, name: &str) -> F {
        assert!(size_of::<F>() == size_of::<*mut c_void>(), "the type of a function");
        let symbol = CString::new(name).expect("a name");
        // SAFETY: the library is never closed.
        let address = unsafe { libc::dlsym(self.loaded.0, symbol.as_ptr()) };
        assert!(!address.is_null(), "no kernel {name}");
        // SAFETY: the caller promises that `F` has the parameters of the source.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// Calls `body`, which calls a kernel, for every thread of a grid of `blocks`. `seed`
    /// determines the turns of the threads.
    pub fn launch(&self, blocks: u32, seed: u64, body: impl Fn()) {
        unsafe extern "C" fn call<B: Fn()>(body: *mut c_void) {
            // SAFETY: it is `body` below, which outlives the launch.
            unsafe { (*body.cast::<B>())() }
        }
        fn caller<B: Fn()>(_: &B) -> unsafe extern "C" fn(*mut c_void) {
            call::<B>
        }
        // SAFETY: the parameters are those of the function in `emulate.cc`.
        let launch: Launch = unsafe { self.kernel("emulate_launch") };
        let context = (&raw const body).cast_mut().cast();
        // SAFETY: `body` lives until all threads have ended; all run on this system thread.
        let error = unsafe {
            launch(blocks, self.threads, seed, self.bulk_copies.into(), caller(&body), context)
        };
        if !error.is_null() {
            // SAFETY: a string that lives until this thread launches again.
            panic!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
        }
    }
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).expect("a folder of sources");
    let mut files: Vec<_> = listed.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// The fingerprint of the compiler and of all sources, with the options: this file is one of them.
fn fingerprint(root: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    let version = compiler().arg("--version").output().expect("g++ (or what CXX names)");
    version.stdout.hash(&mut hasher);
    for folder in KERNELS.into_iter().chain(["tests/kernels"]) {
        for path in files(&root.join(folder)).iter().filter(|path| path.is_file()) {
            path.hash(&mut hasher);
            std::fs::read(path).expect("a source").hash(&mut hasher);
        }
    }
    format!("{:x}", hasher.finish())
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or_else(|| "g++".into()))
}
