//! The Python module `meshsolve._core`: handler addresses, settings, figures. It has no mathematics
//! and no JAX: `python/meshsolve` decides which routine to call.

mod cuda;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::bridge::ffi;
use meshsolve::embedding::{
    Array, Asked, DType, Forecast, Function, Launch, PROCESS_CALLS,
    absent_processes as absent_from, close_processes, cpu_tile_width, cusolvermg_tile_width,
    failure, solvers, start_processes as start, table, widest_of_engine, worker_count,
};
use meshsolve::layout::{Column, Mapping, Partition, Storage};
use meshsolve::log::{self, Event, Progress, Task};
use meshsolve::{rendezvous, settings, stats};

/// A capsule, as jax.ffi requires it, for a handler or type record of the C++ shim.
#[pyfunction]
pub fn symbol<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyCapsule>> {
    let address = ffi::symbol(name);
    if address == 0 {
        return Err(PyValueError::new_err(format!("the FFI layer has no symbol {name:?}")));
    }
    // SAFETY: a non-null address of static storage. The name is a C string literal. This function
    // owns the new reference.
    unsafe {
        let capsule = pyo3::ffi::PyCapsule_New(
            address as *mut c_void,
            c"xla._CUSTOM_CALL_TARGET".as_ptr(),
            None,
        );
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// Version (major, minor) of the FFI API that the handlers were compiled against.
#[pyfunction]
fn ffi_api_version() -> (i32, i32) {
    let version = ffi::ffi_api_version();
    (version / 1000, version % 1000)
}

/// The routines as data, by name.
#[pyfunction]
fn routine_table(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let routines = PyDict::new(py);
    for routine in table() {
        let described = routine.description();
        let of = PyDict::new(py);
        of.set_item("summary", described.summary)?;
        of.set_item("family", described.family)?;
        of.set_item("operands", arrays(py, &described.operands)?)?;
        of.set_item("results", arrays(py, &described.results)?)?;
        of.set_item("attributes", described.attributes)?;
        of.set_item("stages", described.stages)?;
        of.set_item("upright", described.upright)?;
        of.set_item("across", described.across)?;
        of.set_item("requires", described.requires)?;
        routines.set_item(routine.name(), of)?;
    }
    Ok(routines)
}

fn arrays<'py>(py: Python<'py>, of: &[Array]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let array = |Array { name, kind, elements, shape, from }: &Array| {
        let array = PyDict::new(py);
        array.set_item("name", name)?;
        array.set_item("kind", kind)?;
        array.set_item("elements", elements)?;
        array.set_item("shape", shape)?;
        array.set_item("from", from)?;
        Ok(array)
    };
    of.iter().map(array).collect()
}

/// Threads that one call may use.
#[pyfunction]
fn threads() -> usize {
    settings::threads()
}

/// Seconds that arrived devices of a call wait for the others.
#[pyfunction]
fn timeout() -> f64 {
    settings::timeout().as_secs_f64()
}

/// Set how many seconds (0.001 to 1e9) arrived devices of a call wait for the others. Then the call
/// is an error on all of them. The initial value is the environment variable MESHSOLVE_TIMEOUT,
/// else 120. Raises ValueError for other numbers.
#[pyfunction]
fn set_timeout(seconds: f64) -> PyResult<()> {
    let timeout = settings::usable_timeout(seconds).ok_or_else(|| {
        PyValueError::new_err(format!(
            "meshsolve.set_timeout: seconds: expected a number from 0.001 to 1e9, got {seconds}"
        ))
    })?;
    settings::set_timeout(timeout);
    Ok(())
}

/// How CUDA's libraries multiply float64: "native" or "emulated".
#[pyfunction]
fn float64_math() -> &'static str {
    settings::float64().name()
}

/// Set it for later calls. Raises ValueError for another word.
#[pyfunction]
fn set_float64_math(math: &str) -> PyResult<()> {
    let math = math.parse().map_err(|()| {
        PyValueError::new_err(format!(
            "meshsolve.set_float64_math: math: expected \"native\" or \"emulated\", got {math:?}"
        ))
    })?;
    settings::set_float64(math);
    Ok(())
}

/// Figures of the last finished call as a dictionary; None before the first.
#[pyfunction]
fn last_call(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    stats::last().map(|call| figures(py, call)).transpose()
}

fn figures(py: Python<'_>, call: stats::CallStats) -> PyResult<Bound<'_, PyDict>> {
    let figures = PyDict::new(py);
    figures.set_item("routine", call.routine)?;
    figures.set_item("dtype", call.dtype)?;
    figures.set_item("float64", call.float64)?;
    let counts = [
        ("n", call.n),
        ("rhs", call.rhs),
        ("ranks", call.ranks),
        ("visible", call.visible),
        ("workers", call.workers),
        ("tiles", call.tiles),
        ("tile", call.tile),
        ("scratch_bytes", call.scratch_bytes),
    ];
    for (name, count) in counts {
        figures.set_item(name, count)?;
    }
    figures.set_item("info", call.info)?;
    let seconds = PyDict::new(py);
    for (phase, time) in call.phases {
        seconds.set_item(phase, time)?;
    }
    figures.set_item("seconds", seconds)?;
    Ok(figures)
}

/// End the running calls. Returns the number of them.
///
/// Ctrl-C interrupts the wait for a result, not the call. The call continues and keeps the cores
/// and the devices until it is complete. This function ends it: its workers stop at the next panel,
/// and the next call can begin. If you read its results, you get a jax.errors.JaxRuntimeError. A
/// donated matrix is lost. Calls that have not begun yet are not ended.
#[pyfunction]
fn cancel(py: Python<'_>) -> usize {
    py.detach(rendezvous::cancel)
}

/// Set how many devices of platform "cpu" or "cuda" the process sees.
#[pyfunction]
fn set_visible(platform: &str, devices: usize) {
    stats::set_visible(platform == "cuda", devices);
}

/// Lets Python's main thread warn of a call when it is free. The calling thread must not wait for
/// it.
fn warn_of_one_device(call: &stats::CallStats) {
    let reported = Box::into_raw(Box::new((call.n, call.visible)));
    // SAFETY: any thread may call this. The box goes to the one call of `warn`.
    if unsafe { pyo3::ffi::Py_AddPendingCall(Some(warn), reported.cast()) } != 0 {
        // SAFETY: the call has failed, so no other owner of the box exists.
        drop(unsafe { Box::from_raw(reported) });
    }
}

/// 0, or -1 with an exception, which a warning becomes if you ask for that.
extern "C" fn warn(reported: *mut c_void) -> c_int {
    // SAFETY: the box of `warn_of_one_device`. Python calls this once for it.
    let reported = unsafe { Box::from_raw(reported.cast::<(usize, usize)>()) };
    Python::attach(|py| {
        let warned = py
            .import("meshsolve._log")
            .and_then(|m| m.call_method1("warn_of_one_device", *reported));
        warned.map_or_else(
            |error| {
                error.restore(py);
                -1
            },
            |_| 0,
        )
    })
}

/// End the running calls and all later ones, because the interpreter ends. MPI ends too, if the library
/// has started it and the program has ended in order.
#[pyfunction]
fn close(py: Python<'_>, orderly: bool) -> usize {
    py.detach(|| {
        close_processes(orderly);
        rendezvous::close()
    })
}

/// Load libraries of MPI and ScaLAPACK in this order and start MPI, unless the program has. Returns the
/// rank of this process, the number of processes and MPI's version. Raises RuntimeError.
#[pyfunction]
fn start_processes(py: Python<'_>, libraries: Vec<PathBuf>) -> PyResult<(usize, usize, String)> {
    let started = py.detach(|| start(&libraries));
    let Launch { rank, size, mpi, .. } = started.map_err(|e| PyRuntimeError::new_err(e.message))?;
    Ok((rank, size, mpi))
}

/// Calls over processes that this one has begun, those of them that all processes have begun, and the
/// seconds since the last of either.
#[pyfunction]
fn process_calls() -> (u64, u64, f64) {
    PROCESS_CALLS.read()
}

/// Tell the other processes that this one waits in a step. The ranks of those that have not sent the
/// same; None if this is not known.
#[pyfunction]
fn absent_processes(py: Python<'_>, step: u64) -> Option<Vec<usize>> {
    py.detach(|| absent_from(step))
}

/// Set whether `next_event` reports calls.
#[pyfunction]
fn listen(on: bool) {
    log::listen(on);
}

/// Wait for the next event: a dictionary as from `last_call`, or (routine, n, stage, share of the
/// work, seconds) of a call that takes long. None if no listener exists any more.
#[pyfunction]
fn next_event(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    Ok(match py.detach(log::next) {
        None => None,
        Some(Event::Call(call)) => Some(figures(py, call)?.into_any()),
        Some(Event::Progress(Progress { task, share, seconds })) => {
            let Task { routine, n, stage, .. } = task;
            Some((routine, n, stage, share, seconds).into_pyobject(py)?.into_any())
        }
    })
}

/// An element type of the solvers by NumPy's name.
fn solver_dtype(name: &str) -> PyResult<DType> {
    let all = [DType::F32, DType::F64, DType::C64, DType::C128];
    let found = all.into_iter().find(|d| d.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("{name:?} is no dtype of the solvers")))
}

/// The smallest order from n on, divisible by `ranks`, for which cuSolverMg has a width of tile
/// columns in a routine; and the largest width.
#[pyfunction]
fn engine_order(routine: &str, n: usize, ranks: usize) -> PyResult<(usize, usize)> {
    let found = solvers().find(|one| one.name == routine);
    let routine =
        found.ok_or_else(|| PyValueError::new_err(format!("{routine:?} is no solver")))?;
    let widest = widest_of_engine(routine.family);
    Ok((cusolvermg_tile_width(n, ranks, widest).err().unwrap_or(n), widest))
}

/// The kind of matrices that have an answer of a routine, and what is true of an A of order n for which
/// it gives `info`. `function` is the attribute.
#[pyfunction]
#[pyo3(name = "failure")]
fn failure_of(routine: &str, function: &str, n: usize, info: i32) -> PyResult<(String, String)> {
    let found = solvers().find(|one| one.name == routine);
    let function = Function::ALL.into_iter().find(|(name, _)| *name == function);
    let unknown = || PyValueError::new_err(format!("{routine:?} is no solver"));
    let ((_, function), routine) = (function.ok_or_else(unknown)?, found.ok_or_else(unknown)?);
    let (kind, got) = failure(routine, function, n, info);
    Ok((kind.to_owned(), got))
}

/// Width of the widest tile of a matrix of order n over `ranks` CPU devices; `ranks` divides n.
#[pyfunction]
fn widest_tile(n: usize, ranks: usize, dtype: &str) -> PyResult<usize> {
    let widest = cpu_tile_width(n, solver_dtype(dtype)?, worker_count(ranks, settings::threads()));
    Ok(Partition::<Column>::new(n, ranks, widest, Mapping::Block).widest())
}

/// The plan of a routine of the solvers, as a dictionary: layouts, tiles, bytes, moves.
/// `shape` is that of A. `distributed`: k = `rhs` right-hand sides per rank; otherwise the same k on
/// all. Several `processes` share A, each with as many ranks. `mirrored`: one triangle of A is given.
#[pyfunction]
#[pyo3(signature = (routine, shape, ranks, dtype, storage, lower, rhs, distributed, *, processes = 1,
                    mirrored = false))]
#[allow(clippy::too_many_arguments)]
fn plan<'py>(
    py: Python<'py>,
    routine: &str,
    shape: (usize, usize),
    ranks: usize,
    dtype: &str,
    storage: &str,
    lower: bool,
    rhs: usize,
    distributed: bool,
    processes: usize,
    mirrored: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let dtype = solver_dtype(dtype)?;
    let divided =
        |one: &Storage| (if one.is_transpose() { shape.0 } else { shape.1 }).is_multiple_of(ranks);
    let Some(storage) = Storage::from_name(storage).filter(|one| ranks > 0 && divided(one)) else {
        return Err(PyValueError::new_err(format!("plan: {storage:?}, {shape:?}, {ranks} ranks")));
    };
    let unknown = || PyValueError::new_err(format!("plan: no solver is named {routine:?}"));
    let routine = solvers().find(|one| one.name == routine).ok_or_else(unknown)?;
    let plan = Forecast::new(&Asked {
        routine,
        shape,
        ranks,
        dtype,
        storage,
        lower,
        rhs,
        distributed,
        processes,
        is_mirrored: mirrored,
    });
    let says = PyDict::new(py);
    says.set_item("shard", plan.shard.to_string())?;
    says.set_item("solver_shard", plan.solver_shard.to_string())?;
    says.set_item("is_transpose", plan.is_transpose)?;
    says.set_item("mirrors", plan.mirrors)?;
    says.set_item("transposes_across", plan.transposes_across)?;
    says.set_item("block", plan.block.map(|l| l.to_string()))?;
    says.set_item("block_cyclic", plan.block_cyclic.map(|l| l.to_string()))?;
    says.set_item("tiler", plan.tiler.to_string())?;
    says.set_item("widths", plan.widths)?;
    says.set_item("workers", plan.workers)?;
    says.set_item("transposition", plan.transposition.map(|t| t.to_string()))?;
    says.set_item("scratch_bytes", plan.scratch_bytes)?;
    Ok(says)
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(symbol, m)?)?;
    m.add_function(wrap_pyfunction!(ffi_api_version, m)?)?;
    m.add_function(wrap_pyfunction!(routine_table, m)?)?;
    m.add_function(wrap_pyfunction!(threads, m)?)?;
    m.add_function(wrap_pyfunction!(timeout, m)?)?;
    m.add_function(wrap_pyfunction!(set_timeout, m)?)?;
    m.add_function(wrap_pyfunction!(float64_math, m)?)?;
    m.add_function(wrap_pyfunction!(set_float64_math, m)?)?;
    m.add_function(wrap_pyfunction!(last_call, m)?)?;
    m.add_function(wrap_pyfunction!(cancel, m)?)?;
    m.add_function(wrap_pyfunction!(close, m)?)?;
    m.add_function(wrap_pyfunction!(start_processes, m)?)?;
    m.add_function(wrap_pyfunction!(process_calls, m)?)?;
    m.add_function(wrap_pyfunction!(absent_processes, m)?)?;
    m.add_function(wrap_pyfunction!(set_visible, m)?)?;
    stats::tell_of_one_device(warn_of_one_device);
    m.add_function(wrap_pyfunction!(listen, m)?)?;
    m.add_function(wrap_pyfunction!(next_event, m)?)?;
    m.add_function(wrap_pyfunction!(engine_order, m)?)?;
    m.add_function(wrap_pyfunction!(failure_of, m)?)?;
    m.add_function(wrap_pyfunction!(widest_tile, m)?)?;
    m.add_function(wrap_pyfunction!(plan, m)?)?;
    cuda::add_to(m)
}
