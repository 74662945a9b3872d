//! The module `meshsolve_bench`, for benchmarks and tests.

mod cuda;

use faer::{MatMut, MatRef};
use meshsolve::dispatch;
use meshsolve::error::{Error, Kind};
use meshsolve::routines::solver;
use meshsolve::scalar::DType;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::cpu::{baselines, peak, products};

/// The Python exception for an error of the library.
pub fn raised(error: Error) -> PyErr {
    match error.kind {
        Kind::InvalidArgument => PyValueError::new_err(error.message),
        _ => PyRuntimeError::new_err(error.message),
    }
}

/// An element type of the solvers by NumPy's name.
fn solver_dtype(name: &str) -> PyResult<DType> {
    let all = [DType::F32, DType::F64, DType::C64, DType::C128];
    let found = all.into_iter().find(|d| d.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("{name:?} is no dtype of the solvers")))
}

/// Seconds of an n x n x n product by faer on `threads` threads, for ratios in benchmarks.
#[pyfunction]
fn gemm_seconds(py: Python<'_>, dtype: &str, n: usize, threads: usize) -> PyResult<f64> {
    let dtype = solver_dtype(dtype)?;
    Ok(py.detach(
        || dispatch!(dtype, T => baselines::gemm_seconds::<T>(n, threads), else => f64::NAN),
    ))
}

/// Real operations per second of fused multiply-adds on `threads` threads, which no product
/// exceeds, and the kernel: "AVX-512", "AVX2" or "portable".
#[pyfunction]
fn peak_flops(py: Python<'_>, dtype: &str, threads: usize) -> PyResult<(f64, &'static str)> {
    let single = solver_dtype(dtype)?.real() == DType::F32;
    let (rate, kernel) = py.detach(|| match single {
        true => peak::flops::<f32>(threads),
        false => peak::flops::<f64>(threads),
    });
    Ok((rate, kernel.name()))
}

/// Operations per second of the product with which factorisations update their tiles, packing
/// included. It is the first update of an LU factorisation of order n by `workers` workers, with
/// tiles of `width` columns or those of the solvers.
#[pyfunction]
#[pyo3(signature = (dtype, n, workers, width=None))]
fn update_flops(
    py: Python<'_>,
    dtype: &str,
    n: usize,
    workers: usize,
    width: Option<usize>,
) -> PyResult<f64> {
    let dtype = solver_dtype(dtype)?;
    let width = width.unwrap_or_else(|| solver::cpu_tile_width(n, dtype, workers));
    Ok(py.detach(
        || dispatch!(dtype, T => baselines::update_flops::<T>(n, width, workers), else => f64::NAN),
    ))
}

/// Seconds of a copy of `bytes` bytes on `threads` threads, for ratios in benchmarks.
#[pyfunction]
fn copy_seconds(py: Python<'_>, bytes: usize, threads: usize) -> f64 {
    py.detach(|| baselines::copy_seconds(bytes, threads))
}

/// Solves by faer alone on `threads` threads, a competitor in benchmarks. Factor and solution
/// overwrite A (n x n) and B (n x k), column-major, at two addresses. Returns the seconds of the
/// factorisation.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn faer_solve(
    py: Python<'_>,
    dtype: &str,
    n: usize,
    k: usize,
    a: usize,
    b: usize,
    positive_definite: bool,
    threads: usize,
) -> PyResult<f64> {
    let dtype = solver_dtype(dtype)?;
    let seconds = py.detach(|| {
        dispatch!(dtype, T => {
            // SAFETY: the caller passes the addresses of two arrays of these shapes that no other
            // code uses.
            let (a, b) = unsafe {
                let at = |address: usize, cols: usize| {
                    MatMut::from_raw_parts_mut(address as *mut T, n, cols, 1, n as isize)
                };
                (at(a, n), at(b, k))
            };
            baselines::solve(a, b, positive_definite, threads)
        }, else => None)
    });
    seconds.ok_or_else(|| PyValueError::new_err("faer: the matrix is not positive definite"))
}

/// Factors A = Q R by faer alone on `threads` threads, a competitor in benchmarks. R and the reflectors
/// overwrite A (m x n), column-major, at an address. Returns the seconds.
#[pyfunction]
fn faer_qr(
    py: Python<'_>,
    dtype: &str,
    m: usize,
    n: usize,
    a: usize,
    threads: usize,
) -> PyResult<f64> {
    let dtype = solver_dtype(dtype)?;
    Ok(py.detach(|| {
        dispatch!(dtype, T => {
            // SAFETY: the caller passes the address of an array of this shape that no other code
            // uses.
            let a = unsafe { MatMut::from_raw_parts_mut(a as *mut T, m, n, 1, m as isize) };
            baselines::factor_qr(a, threads)
        }, else => f64::NAN)
    }))
}

/// Solves a Hermitian eigenproblem by faer alone on `threads` threads, a competitor in benchmarks. A
/// (n x n, column-major), the n eigenvalues and the eigenvectors are at addresses, all in the dtype;
/// without one of eigenvectors there are only eigenvalues. Returns the seconds.
#[pyfunction]
fn faer_eigen(
    py: Python<'_>,
    dtype: &str,
    n: usize,
    a: usize,
    values: usize,
    vectors: Option<usize>,
    threads: usize,
) -> PyResult<f64> {
    let dtype = solver_dtype(dtype)?;
    let seconds = py.detach(|| {
        dispatch!(dtype, T => {
            let stride = n as isize;
            // SAFETY: the caller passes the addresses of arrays of these shapes that no other code
            // uses.
            let (a, values, vectors) = unsafe {
                (
                    MatRef::from_raw_parts(a as *const T, n, n, 1, stride),
                    std::slice::from_raw_parts_mut(values as *mut T, n),
                    vectors.map(|at| MatMut::from_raw_parts_mut(at as *mut T, n, n, 1, stride)),
                )
            };
            baselines::eigen(a, values, vectors, threads)
        }, else => None)
    });
    seconds.ok_or_else(|| PyRuntimeError::new_err("faer: the eigenvalues do not converge"))
}

/// Seconds of `C <- C - A B` by "meshsolve", "faer" or "faer alone", packing included; None where
/// meshsolve has no kernel for it. C (m x n), A (m x k) and B (k x n) are column-major at three
/// addresses, with `ld` elements between columns.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn multiply(
    py: Python<'_>,
    dtype: &str,
    m: usize,
    n: usize,
    k: usize,
    ld: usize,
    a: usize,
    b: usize,
    c: usize,
    method: &str,
    threads: usize,
) -> PyResult<Option<f64>> {
    let dtype = solver_dtype(dtype)?;
    let found = products::Method::named(method);
    let method = found.ok_or_else(|| PyValueError::new_err(format!("{method:?} is no method")))?;
    if ld < m.max(k) || threads == 0 {
        return Err(PyValueError::new_err("columns overlap, or no threads"));
    }
    Ok(py.detach(|| {
        dispatch!(dtype, T => {
            let stride = ld as isize;
            // SAFETY: the caller passes the addresses of three arrays of these shapes that no other
            // code uses.
            let (a, b, c) = unsafe {
                (
                    MatRef::from_raw_parts(a as *const T, m, k, 1, stride),
                    MatRef::from_raw_parts(b as *const T, k, n, 1, stride),
                    MatMut::from_raw_parts_mut(c as *mut T, m, n, 1, stride),
                )
            };
            products::seconds(c, a, b, method, threads)
        }, else => None)
    }))
}

#[pymodule]
fn meshsolve_bench(m: &Bound<'_, PyModule>) -> PyResult<()> {
    meshsolve::routines::add(&crate::diagnose::Diagnose);
    m.add_function(wrap_pyfunction!(meshsolve_ffi::symbol, m)?)?;
    m.add_function(wrap_pyfunction!(gemm_seconds, m)?)?;
    m.add_function(wrap_pyfunction!(peak_flops, m)?)?;
    m.add_function(wrap_pyfunction!(update_flops, m)?)?;
    m.add_function(wrap_pyfunction!(copy_seconds, m)?)?;
    m.add_function(wrap_pyfunction!(faer_solve, m)?)?;
    m.add_function(wrap_pyfunction!(faer_qr, m)?)?;
    m.add_function(wrap_pyfunction!(faer_eigen, m)?)?;
    m.add_function(wrap_pyfunction!(multiply, m)?)?;
    cuda::add_to(m)
}
