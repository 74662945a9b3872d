//! NVRTC: compiles a source text to a cubin for one architecture, without a GPU or a toolkit.

use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use cudarc::nvrtc::sys;

use super::driver::Driver;
use super::load::{Library, Wanted, call, functions, toolkits};
use crate::error::{Error, Kind, Result};

/// CUDA's major versions, newest first.
const MAJORS: [i32; 2] = [13, 12];

const REMEDY: &str = "install JAX with its CUDA libraries, pip install \"jax[cuda13]\" or \"jax[cuda12]\", \
    or NVRTC alone, pip install nvidia-cuda-nvrtc (CUDA 13) or nvidia-cuda-nvrtc-cu12 (CUDA 12)";

functions! {
    nvrtcVersion nvrtcGetNumSupportedArchs nvrtcGetSupportedArchs nvrtcGetErrorString nvrtcCreateProgram
    nvrtcDestroyProgram nvrtcCompileProgram nvrtcGetProgramLogSize nvrtcGetProgramLog nvrtcGetCUBINSize
    nvrtcGetCUBIN
}

/// One translation unit. Headers are (name as included, text).
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub name: &'a str,
    pub source: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub options: &'a [&'a str],
}

/// The result of a compilation, and the compiler's warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub cubin: Vec<u8>,
    pub log: String,
}

#[derive(Debug)]
pub struct Nvrtc {
    loaded: Library,
    functions: Functions,
    /// CUDA (major, minor).
    pub version: (i32, i32),
    /// Numbers of the architectures that it compiles for: 80 for sm_80.
    pub architectures: Vec<i32>,
}

impl Nvrtc {
    /// The best NVRTC of this machine. With a driver, one that makes cubins for it: of its major
    /// version of CUDA or of an older one.
    pub fn find(folders: &[PathBuf], driver: Option<&Driver>) -> Result<Nvrtc> {
        let newest = driver.map_or(MAJORS[0], |driver| driver.version.0);
        let sonames: Vec<String> =
            MAJORS.iter().filter(|&&m| m <= newest).map(|m| format!("libnvrtc.so.{m}")).collect();
        if let Some(driver) = driver.filter(|_| sonames.is_empty()) {
            let message = format!(
                "meshsolve: NVIDIA driver {}: expected CUDA {} or newer, got {}.{}; install a newer driver",
                driver.path().display(),
                MAJORS[MAJORS.len() - 1],
                driver.version.0,
                driver.version.1,
            );
            return Err(Error::new(Kind::FailedPrecondition, message));
        }
        let product = match driver {
            Some(driver) => {
                format!("NVRTC for a driver of CUDA {}.{}", driver.version.0, driver.version.1)
            }
            None => "NVRTC".into(),
        };
        Nvrtc::of(Library::find(&Wanted {
            product: &product,
            sonames: &sonames.iter().map(String::as_str).collect::<Vec<_>>(),
            witness: c"nvrtcVersion",
            folders,
            last_folders: &toolkits(),
            remedy: REMEDY,
        })?)
    }

    pub fn at(path: &Path) -> Result<Nvrtc> {
        let library = Library::open(path, 0, c"nvrtcVersion").map_err(|why| {
            let message =
                format!("meshsolve: NVRTC: expected a library that loads, got {why}; {REMEDY}");
            Error::new(Kind::FailedPrecondition, message)
        })?;
        Nvrtc::of(library)
    }

    fn of(library: Library) -> Result<Nvrtc> {
        let functions = Functions::of(&library)?;
        let mut nvrtc =
            Nvrtc { loaded: library, functions, version: (0, 0), architectures: Vec::new() };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: writes local variables. The vector has room for the count that the library gave.
        unsafe {
            let f = &nvrtc.functions;
            nvrtc.check("nvrtcVersion", call!(f, nvrtcVersion(&mut major, &mut minor)))?;
            let status = call!(f, nvrtcGetNumSupportedArchs(&mut count));
            nvrtc.check("nvrtcGetNumSupportedArchs", status)?;
            let mut architectures = vec![0; count.max(0) as usize];
            let status = call!(f, nvrtcGetSupportedArchs(architectures.as_mut_ptr()));
            nvrtc.check("nvrtcGetSupportedArchs", status)?;
            nvrtc.architectures = architectures;
        }
        nvrtc.version = (major, minor);
        Ok(nvrtc)
    }

    pub fn path(&self) -> &Path {
        self.loaded.path()
    }

    /// Distinguishes builds of NVRTC. It names no patch level, but its size differs.
    pub fn fingerprint(&self) -> String {
        let bytes = std::fs::metadata(self.path()).map_or(0, |file| file.len());
        format!("NVRTC {}.{}, {bytes} bytes", self.version.0, self.version.1)
    }

    /// Compiles for an architecture such as `sm_90` or `sm_90a`.
    pub fn compile(&self, program: &Program, arch: &str) -> Result<Compiled> {
        self.expect_known(program.name, arch)?;
        let text = |text: &str| {
            CString::new(text).map_err(|_| {
                let name = program.name;
                Error::invalid(format!("meshsolve: {name}: expected a source without NUL, got one"))
            })
        };
        let (source, name) = (text(program.source)?, text(program.name)?);
        let texts = program.headers.iter().map(|h| text(h.1)).collect::<Result<Vec<_>>>()?;
        let names = program.headers.iter().map(|h| text(h.0)).collect::<Result<Vec<_>>>()?;
        let architecture = format!("--gpu-architecture={arch}");
        let options = program.options.iter().copied().chain([architecture.as_str()]);
        let options = options.map(text).collect::<Result<Vec<_>>>()?;
        let [texts, names, options] = [&texts, &names, &options]
            .map(|list| list.iter().map(|text| text.as_ptr()).collect::<Vec<_>>());

        let mut running = Running { nvrtc: self, program: null_mut() };
        // SAFETY: C strings and lists of them that outlive the calls, with their lengths.
        let status = unsafe {
            let (source, name, count) = (source.as_ptr(), name.as_ptr(), texts.len() as c_int);
            let (program, texts, names) = (&mut running.program, texts.as_ptr(), names.as_ptr());
            call!(self.functions, nvrtcCreateProgram(program, source, name, count, texts, names))
        };
        self.check("nvrtcCreateProgram", status)?;
        // SAFETY: the program exists until `running` goes; the list outlives the call.
        let status = unsafe {
            let count = options.len() as c_int;
            call!(self.functions, nvrtcCompileProgram(running.program, count, options.as_ptr()))
        };
        let log = running.bytes(
            // SAFETY: the program exists; `bytes` passes a local variable.
            |program, size| unsafe { call!(self.functions, nvrtcGetProgramLogSize(program, size)) },
            // SAFETY: the program exists; `bytes` passes room for the size that it got.
            |program, to| unsafe { call!(self.functions, nvrtcGetProgramLog(program, to)) },
        )?;
        let log = String::from_utf8_lossy(&log).trim_matches(['\0', '\n']).to_owned();
        if status != 0 {
            let message = format!(
                "meshsolve: {}: expected NVRTC {}.{} ({}) to compile it for {arch}, got {}; with a kernel \
                 of meshsolve this is a defect, please report it with the log:\n{log}",
                program.name,
                self.version.0,
                self.version.1,
                self.path().display(),
                self.text(status),
            );
            return Err(Error::new(Kind::Internal, message));
        }
        let cubin = running.bytes(
            // SAFETY: the program exists; `bytes` passes a local variable.
            |program, size| unsafe { call!(self.functions, nvrtcGetCUBINSize(program, size)) },
            // SAFETY: the program exists; `bytes` passes room for the size that it got.
            |program, to| unsafe { call!(self.functions, nvrtcGetCUBIN(program, to)) },
        )?;
        Ok(Compiled { cubin, log })
    }

    fn expect_known(&self, name: &str, arch: &str) -> Result<()> {
        if self.architectures.contains(&number(name, arch)?) {
            return Ok(());
        }
        let all: Vec<_> = self.architectures.iter().map(|n| format!("sm_{n}")).collect();
        let message = format!(
            "meshsolve: {name}: arch: expected one that NVRTC {}.{} ({}) compiles for, {}, got {arch}; \
             another version of CUDA may know it, pip install --upgrade \"jax[cuda13]\" or \"jax[cuda12]\"",
            self.version.0,
            self.version.1,
            self.path().display(),
            all.join(", "),
        );
        Err(Error::new(Kind::FailedPrecondition, message))
    }

    fn text(&self, status: c_int) -> String {
        // SAFETY: for every number the function gives null or a C string of static storage.
        let text =
            unsafe { self.functions.nvrtcGetErrorString.text(|| sys::nvrtcGetErrorString, status) };
        text.unwrap_or_else(|| format!("error {status}"))
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let message = format!(
            "meshsolve: NVRTC {}: expected {function} to succeed, got {}; {REMEDY}",
            self.path().display(),
            self.text(status)
        );
        Err(Error::new(Kind::FailedPrecondition, message))
    }
}

/// Number of an architecture: 90 for `sm_90` and `sm_90a`.
pub fn number(name: &str, arch: &str) -> Result<i32> {
    let digits = arch.strip_prefix("sm_").map(|a| a.strip_suffix(['a', 'f']).unwrap_or(a));
    let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|d| d.parse().ok()).ok_or_else(|| {
        let text = "expected an architecture such as sm_90";
        Error::invalid(format!(
            "meshsolve: {name}: arch: {text}, got {arch:?}; of a JAX device it is \"sm_\" and \
             device.compute_capability without the dot"
        ))
    })
}

/// A program that NVRTC holds. Dropping this destroys it.
struct Running<'a> {
    nvrtc: &'a Nvrtc,
    program: sys::nvrtcProgram,
}

impl Running<'_> {
    fn bytes(
        &self,
        size: impl FnOnce(sys::nvrtcProgram, &mut usize) -> c_int,
        get: impl FnOnce(sys::nvrtcProgram, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>> {
        let mut count = 0;
        self.nvrtc.check("the size of a result", size(self.program, &mut count))?;
        let mut bytes = vec![0u8; count];
        self.nvrtc.check("a result", get(self.program, bytes.as_mut_ptr().cast()))?;
        Ok(bytes)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program exists and is not used again. Its error has no remedy.
            unsafe { call!(self.nvrtc.functions, nvrtcDestroyProgram(&mut self.program)) };
        }
    }
}
