//! Process-wide settings. The library reads the environment once and never writes to it:
//! - `MESHSOLVE_TIMEOUT` (seconds a call waits for all its devices)
//! - `MESHSOLVE_THREADS` (threads of one call)
//! - `MESHSOLVE_LOG=progress` (the share of the work on standard error)
//! - `MESHSOLVE_TRACE` (a file with the work of the workers over time)
//! - `MESHSOLVE_PANELS` (how panels go from one CUDA device to the others)
//! - `MESHSOLVE_FLOAT64` (whether CUDA's libraries may emulate float64)

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

fn timeout_millis() -> &'static AtomicU64 {
    static MILLIS: OnceLock<AtomicU64> = OnceLock::new();
    MILLIS.get_or_init(|| {
        let seconds = parsed("MESHSOLVE_TIMEOUT", |&s: &f64| usable_timeout(s).is_some());
        let timeout = seconds.and_then(usable_timeout).unwrap_or(DEFAULT_TIMEOUT);
        AtomicU64::new(timeout.as_millis() as u64)
    })
}

/// How long the devices that have arrived wait for the others.
pub fn timeout() -> Duration {
    Duration::from_millis(timeout_millis().load(Relaxed))
}

/// A number of seconds as a limit: from a millisecond to about thirty years.
pub fn usable_timeout(seconds: f64) -> Option<Duration> {
    (1e-3..1e9).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

pub fn set_timeout(timeout: Duration) {
    timeout_millis().store(timeout.as_millis() as u64, Relaxed);
}

/// `MESHSOLVE_THREADS`, if you set it.
pub fn threads_asked_for() -> Option<usize> {
    static THREADS: OnceLock<Option<usize>> = OnceLock::new();
    *THREADS.get_or_init(|| parsed("MESHSOLVE_THREADS", |&t: &usize| t > 0))
}

/// The limit of threads of one call: the setting, else the number of cores of this process.
pub fn threads() -> usize {
    threads_asked_for().unwrap_or_else(cores)
}

/// The number of threads that can run at the same time; 1 if unknown.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into))
}

/// Whether `MESHSOLVE_LOG` asks for progress lines.
pub fn log_progress() -> bool {
    static LOG: OnceLock<bool> = OnceLock::new();
    *LOG.get_or_init(|| std::env::var("MESHSOLVE_LOG").is_ok_and(|v| v == "progress"))
}

/// The file that `MESHSOLVE_TRACE` names.
pub fn trace() -> Option<PathBuf> {
    std::env::var_os("MESHSOLVE_TRACE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// How panels of a factorisation go from the CUDA device that factors them to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelTransport {
    /// Each device copies what it needs.
    #[default]
    Copies,
    /// Broadcasts of NCCL.
    Nccl,
}

impl FromStr for PanelTransport {
    type Err = ();

    fn from_str(text: &str) -> Result<PanelTransport, ()> {
        match text {
            "copies" => Ok(PanelTransport::Copies),
            "nccl" => Ok(PanelTransport::Nccl),
            _ => Err(()),
        }
    }
}

pub fn panels() -> PanelTransport {
    static PANELS: OnceLock<PanelTransport> = OnceLock::new();
    *PANELS.get_or_init(|| parsed("MESHSOLVE_PANELS", |_| true).unwrap_or_default())
}

/// How CUDA's libraries multiply float64 and complex128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Float64 {
    /// With the device's units for float64.
    #[default]
    Native,
    /// With integers, where the library finds that faster.
    Emulated,
}

impl FromStr for Float64 {
    type Err = ();

    fn from_str(text: &str) -> Result<Float64, ()> {
        match text {
            "native" => Ok(Float64::Native),
            "emulated" => Ok(Float64::Emulated),
            _ => Err(()),
        }
    }
}

impl Float64 {
    pub fn name(self) -> &'static str {
        match self {
            Float64::Native => "native",
            Float64::Emulated => "emulated",
        }
    }
}

fn emulated() -> &'static AtomicBool {
    static EMULATED: OnceLock<AtomicBool> = OnceLock::new();
    EMULATED.get_or_init(|| {
        let asked: Option<Float64> = parsed("MESHSOLVE_FLOAT64", |_| true);
        AtomicBool::new(asked == Some(Float64::Emulated))
    })
}

pub fn float64() -> Float64 {
    if emulated().load(Relaxed) { Float64::Emulated } else { Float64::Native }
}

/// Sets the mode for later calls.
pub fn set_float64(math: Float64) {
    emulated().store(math == Float64::Emulated, Relaxed);
}

/// The value of environment variable `name`. It reports an unusable value on standard error and
/// ignores it, because no user call has the fault.
fn parsed<V: FromStr>(name: &str, usable: impl Fn(&V) -> bool) -> Option<V> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok().filter(usable);
    if value.is_none() {
        eprintln!("meshsolve: {name}={text:?} is nothing that can be used; the default is used");
    }
    value
}
