//! The part of `meshsolve_bench` that measures on a CUDA device. `folders` are those of the
//! libraries that pip has installed, which Python knows.

use std::path::PathBuf;

use meshsolve::device::cuda::process;
use meshsolve::error::Result;
use meshsolve::transpose::Algorithm;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::raised;
use crate::cuda::transpositions::{MeasuredDevice, Request};
use crate::cuda::{panel, ranks as several};

/// Name, free bytes and driver (CUDA's version) of a CUDA device; an error if the device does not
/// exist.
#[pyfunction]
fn cuda_device(
    py: Python<'_>,
    number: i32,
    folders: Vec<PathBuf>,
) -> PyResult<(String, usize, (i32, i32))> {
    process::set_folders(folders);
    py.detach(|| -> Result<_> {
        let devices = process::devices()?;
        let (name, free) = MeasuredDevice::new(devices, number)?.describe()?;
        Ok((name, free, devices.cuda_version()))
    })
    .map_err(raised)
}

/// Check and measure a transposition on a CUDA device. Returns a dictionary with `plan`,
/// `scratch_bytes`, `seconds` of each repeat and `copy_seconds` of copying half of the array to the
/// other half. `method`: "C2R", "R2C", or "chosen" from the offered bytes of scratch.
#[pyfunction]
#[pyo3(signature = (number, rows, cols, size, method, offered, repeats, folders))]
#[allow(clippy::too_many_arguments)]
fn cuda_transposition<'py>(
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
        .detach(|| MeasuredDevice::new(process::devices()?, number)?.measure(request))
        .map_err(raised)?;
    let says = PyDict::new(py);
    says.set_item("plan", found.plan.to_string())?;
    says.set_item("scratch_bytes", found.scratch_bytes)?;
    says.set_item("seconds", found.transpositions)?;
    says.set_item("copy_seconds", found.copies)?;
    Ok(says)
}

/// Solves by several ranks on one CUDA device: seconds of each repeat, and the largest error of x.
/// `routine`: "posv" or "gesv"; `width`: of the tiles; None: the library chooses.
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

/// A factorisation of an m x n matrix of float64 by cuSOLVER on a CUDA device. Returns medians of
/// the seconds until the call returns and until the stream has finished, and the bytes of its
/// workspace on the host. `routine`: "potrf" or "getrf".
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

/// Set the folders of CUDA's libraries that pip has installed, for calls of `symbol`'s handlers.
#[pyfunction]
fn set_cuda_folders(folders: Vec<PathBuf>) {
    process::set_folders(folders);
}

pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(set_cuda_folders, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_device, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_transposition, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_ranks, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_panel, m)?)
}
