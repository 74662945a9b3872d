//! The CUDA part of `meshsolve._core`: the report of `python -m meshsolve.info`, and kernels
//! compiled on request. `folders` are those of the libraries that pip has installed, which Python
//! knows.

use std::path::PathBuf;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use meshsolve::embedding::{
    Cache, Cached, Compiled, Driver, Error, Kind, Nvrtc, Program, Result, kernels, process, sources,
};

/// The Python exception for an error of the library.
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

/// Compile a kernel for an architecture ("sm_90") through the cache. It uses the best NVRTC or the
/// one at the path `library`.
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

/// Compile a text as the library compiles a kernel, without the cache; `headers` are (name, text).
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

/// The driver and NVRTC: path, version, devices and architectures, or a message with the reason.
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

/// The cache of compiled kernels: its folder and contents, or the reason why it is not used.
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

/// Set the folders of CUDA's libraries that pip has installed, for calls on CUDA devices.
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
    m.add_function(wrap_pyfunction!(kernel_cache, m)?)
}
