//! The CUDA part of `meshsolve._core`: what `python -m meshsolve.info` tells, and kernels compiled on
//! request. `folders` are those of the libraries that pip has installed, which Python knows.

use std::path::PathBuf;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use meshsolve::device::cuda::cache::Cache;
use meshsolve::device::cuda::driver::Driver;
use meshsolve::device::cuda::kernels::{self, Cached};
use meshsolve::device::cuda::nvrtc::{Compiled, Nvrtc, Program};
use meshsolve::device::cuda::panel;
use meshsolve::device::cuda::yardstick::{Request, Yardstick};
use meshsolve::device::cuda::{process, sources};
use meshsolve::error::{Error, Kind, Result};
use meshsolve::rendezvous::cuda_ranks as several;
use meshsolve::transpose::Algorithm;

/// An error of the library as Python has it.
fn raised(error: Error) -> PyErr {
    match error.kind {
        Kind::InvalidArgument => PyValueError::new_err(error.message),
        _ => PyRuntimeError::new_err(error.message),
    }
}

/// Names of the kernels, for `compile_kernel`.
#[pyfunction]
fn kernel_names() -> Vec<&'static str> {
    sources::names().collect()
}

/// Compile a kernel for an architecture ("sm_90"), by way of the cache, with the best NVRTC or with the one
/// at the path `library`.
#[pyfunction]
#[pyo3(signature = (name, arch, folders, library=None))]
fn compile_kernel<'py>(
    py: Python<'py>,
    name: &str,
    arch: &str,
    folders: Vec<PathBuf>,
    library: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let program = sources::kernel(name).ok_or_else(|| {
        let names: Vec<_> = sources::names().collect();
        let (names, remedy) = (names.join(", "), "name one of them");
        PyValueError::new_err(format!(
            "meshsolve.compile_kernel: name: expected one of {names}, got {name:?}; {remedy}"
        ))
    })?;
    compile(py, program, arch, &folders, library, true)
}

/// Compile a text as a kernel of the library is compiled, without the cache; `headers` are (name, text).
#[pyfunction]
#[pyo3(signature = (name, source, headers, arch, folders, library=None))]
fn compile_source<'py>(
    py: Python<'py>,
    name: &str,
    source: &str,
    headers: Vec<(String, String)>,
    arch: &str,
    folders: Vec<PathBuf>,
    library: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let headers: Vec<_> = headers.iter().map(|(n, text)| (n.as_str(), text.as_str())).collect();
    let program = Program { name, source, headers: &headers, options: sources::OPTIONS };
    compile(py, &program, arch, &folders, library, false)
}

fn compile<'py>(
    py: Python<'py>,
    program: &Program,
    arch: &str,
    folders: &[PathBuf],
    library: Option<PathBuf>,
    with_cache: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let compile = || -> Result<_> {
        let nvrtc = match library {
            Some(path) => Nvrtc::at(&path)?,
            None => Nvrtc::find(folders, Driver::find().ok().as_ref())?,
        };
        let cache = if with_cache { Cache::of_process() } else { Err("not asked for") };
        let compiled = kernels::compile(program, arch, &nvrtc, cache)?;
        Ok((nvrtc, compiled))
    };
    let (nvrtc, (Compiled { cubin, log }, cached)) = py.detach(compile).map_err(raised)?;
    let says = PyDict::new(py);
    says.set_item("cubin", PyBytes::new(py, &cubin))?;
    says.set_item("log", log)?;
    says.set_item("nvrtc", nvrtc.path().display().to_string())?;
    says.set_item("version", nvrtc.version)?;
    let cached = match cached {
        Cached::Found => "found".into(),
        Cached::Stored => "stored".into(),
        Cached::Not(why) => format!("not: {why}"),
    };
    says.set_item("cached", cached)?;
    Ok(says)
}

/// The driver and NVRTC: path, version, devices and architectures, or a message why not.
#[pyfunction]
fn cuda_libraries(py: Python<'_>, folders: Vec<PathBuf>) -> PyResult<Bound<'_, PyDict>> {
    let (driver, devices, nvrtc) = py.detach(|| {
        let driver = Driver::find();
        let devices = driver.as_ref().ok().map(Driver::devices);
        let nvrtc = Nvrtc::find(&folders, driver.as_ref().ok());
        (driver, devices, nvrtc)
    });
    let both = PyDict::new(py);
    let library = |name: &str, path: &std::path::Path, (major, minor): (i32, i32)| {
        let says = PyDict::new(py);
        says.set_item("path", path.display().to_string())?;
        says.set_item("version", format!("{major}.{minor}"))?;
        both.set_item(name, &says)?;
        PyResult::Ok(says)
    };
    match driver {
        Ok(driver) => {
            let says = library("driver", driver.path(), driver.version)?;
            match devices {
                Some(Ok(count)) => says.set_item("devices", count)?,
                Some(Err(why)) => says.set_item("devices", why.message)?,
                None => {}
            }
        }
        Err(why) => both.set_item("driver", why.message)?,
    }
    match nvrtc {
        Ok(nvrtc) => {
            let says = library("nvrtc", nvrtc.path(), nvrtc.version)?;
            says.set_item("architectures", &nvrtc.architectures)?;
        }
        Err(why) => both.set_item("nvrtc", why.message)?,
    }
    Ok(both)
}

/// The cache of compiled kernels: its folder and what is there, or why there is none.
#[pyfunction]
fn kernel_cache(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let says = PyDict::new(py);
    match Cache::of_process() {
        Ok(cache) => {
            let census = py.detach(|| cache.census());
            says.set_item("folder", cache.path().display().to_string())?;
            says.set_item("entries", census.entries)?;
            says.set_item("bytes", census.bytes)?;
            says.set_item("damaged", census.damaged)?;
        }
        Err(why) => says.set_item("not_used", why)?,
    }
    Ok(says)
}

/// Name, free bytes and driver (CUDA's version) of a CUDA device; an error where there is none.
#[pyfunction]
fn cuda_device(
    py: Python<'_>,
    number: i32,
    folders: Vec<PathBuf>,
) -> PyResult<(String, usize, (i32, i32))> {
    process::set_folders(folders);
    py.detach(|| -> Result<_> {
        let devices = process::devices()?;
        let (name, free) = Yardstick::new(devices, number)?.describe()?;
        Ok((name, free, devices.cuda_version()))
    })
    .map_err(raised)
}

/// A transposition on a CUDA device, checked and measured: a dictionary with `plan`, `scratch_bytes`,
/// `seconds` of each repeat and `copy_seconds` of copying half of the array to the other half. `method`:
/// "C2R", "R2C" or "chosen" by the bytes of scratch that are offered.
#[pyfunction]
#[pyo3(signature = (number, rows, cols, size, method, offered, repeats, folders))]
#[allow(clippy::too_many_arguments)]
fn cuda_yardstick<'py>(
    py: Python<'py>,
    number: i32,
    rows: usize,
    cols: usize,
    size: usize,
    method: &str,
    offered: usize,
    repeats: usize,
    folders: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let forced = match method {
        "chosen" => None,
        "C2R" => Some(Algorithm::C2r),
        "R2C" => Some(Algorithm::R2c),
        _ => return Err(PyValueError::new_err(format!("{method:?} is no method"))),
    };
    process::set_folders(folders);
    let request =
        Request { rows, cols, element_size: size, forced, scratch_bytes: offered, repeats };
    let found = py
        .detach(|| Yardstick::new(process::devices()?, number)?.measure(request))
        .map_err(raised)?;
    let says = PyDict::new(py);
    says.set_item("plan", found.plan.to_string())?;
    says.set_item("scratch_bytes", found.scratch_bytes)?;
    says.set_item("seconds", found.transpositions)?;
    says.set_item("copy_seconds", found.copies)?;
    Ok(says)
}

/// Solves by several ranks on one CUDA device: seconds of each repeat, and how far x is from what it should
/// be. `routine`: "posv" or "gesv"; `width`: of the tiles, if it is not to be chosen.
#[pyfunction]
#[pyo3(signature = (number, routine, n, ranks, width, repeats, folders))]
#[allow(clippy::too_many_arguments)]
fn cuda_ranks(
    py: Python<'_>,
    number: i32,
    routine: String,
    n: usize,
    ranks: usize,
    width: Option<usize>,
    repeats: usize,
    folders: Vec<PathBuf>,
) -> PyResult<(Vec<f64>, f64)> {
    process::set_folders(folders);
    let request = several::Request { routine, n, ranks, width, repeats };
    let found =
        py.detach(|| several::measure(process::devices()?, number, &request)).map_err(raised)?;
    Ok((found.seconds, found.error))
}

/// A factorisation of an m x n matrix of float64 by cuSOLVER on a CUDA device: medians of the seconds until the
/// call returns and until the stream has done it, and bytes of the host that it asks for. `routine`: "potrf" or
/// "getrf".
#[pyfunction]
#[pyo3(signature = (number, routine, m, n, repeats, folders))]
fn cuda_panel(
    py: Python<'_>,
    number: i32,
    routine: &str,
    m: usize,
    n: usize,
    repeats: usize,
    folders: Vec<PathBuf>,
) -> PyResult<(f64, f64, usize)> {
    let routine = match routine {
        "potrf" => panel::Routine::Potrf,
        "getrf" => panel::Routine::Getrf,
        _ => return Err(PyValueError::new_err(format!("{routine:?} is no factorisation"))),
    };
    process::set_folders(folders);
    let request = panel::Request { routine, m, n, repeats };
    let found =
        py.detach(|| panel::measure(process::devices()?, number, request)).map_err(raised)?;
    Ok((found.host_seconds, found.seconds, found.host_bytes))
}

/// Where pip has installed CUDA's libraries, for calls on CUDA devices.
#[pyfunction]
fn set_cuda_folders(folders: Vec<PathBuf>) {
    process::set_folders(folders);
}

pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(kernel_names, m)?)?;
    m.add_function(wrap_pyfunction!(compile_kernel, m)?)?;
    m.add_function(wrap_pyfunction!(compile_source, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_libraries, m)?)?;
    m.add_function(wrap_pyfunction!(set_cuda_folders, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_device, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_yardstick, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_ranks, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_panel, m)?)?;
    m.add_function(wrap_pyfunction!(kernel_cache, m)?)
}
