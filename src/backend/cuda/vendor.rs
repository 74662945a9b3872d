//! The vendor's libraries, cuBLAS and cuSOLVER of linear algebra and NCCL, by which ranks send panels where
//! that is asked for: found and loaded at run time, at first use. Sizes have 64 bits everywhere.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use super::device::{Address, Stream};
use super::driver::Driver;
use super::load::{Library, Wanted, toolkits};
use crate::backend::{Op, Triangle};
use crate::error::{Error, Kind, Result};
use crate::scalar::{DType, Scalar};

/// Looks for the libraries, for a driver.
pub type Find = Box<dyn Fn(&Driver) -> Result<Libraries> + Send + Sync>;

/// cuBLAS and cuSOLVER.
pub struct Libraries {
    pub blas: blas::Blas,
    pub solver: solver::Solver,
}

const REMEDY: &str =
    "install JAX with its CUDA libraries, pip install \"jax[cuda13]\" or \"jax[cuda12]\"";

/// Majors of CUDA with the sonames of cuBLAS and cuSOLVER, newest first.
const VERSIONS: [(i32, &str, &str); 2] =
    [(13, "libcublas.so.13", "libcusolver.so.12"), (12, "libcublas.so.12", "libcusolver.so.11")];

impl Libraries {
    /// The best of this machine that the driver takes, both of the same version of CUDA.
    pub fn find(folders: &[PathBuf], driver: &Driver) -> Result<Libraries> {
        let fits = |major: &i32| *major <= driver.version.0;
        let mut failure = None;
        for (_, blas, solver) in VERSIONS.iter().filter(|(major, ..)| fits(major)) {
            let library = |product, soname: &str, witness| {
                Library::find(&Wanted {
                    product,
                    sonames: &[soname],
                    witness,
                    folders,
                    last_folders: &toolkits(),
                    remedy: REMEDY,
                })
            };
            let found = library("cuBLAS", blas, c"cublasCreate_v2")
                .and_then(|blas| Ok((blas, library("cuSOLVER", solver, c"cusolverDnCreate")?)));
            match found {
                Ok((blas, solver)) => return Libraries::of(&blas, &solver),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            let message = format!(
                "meshsolve: NVIDIA driver {}: expected CUDA 12 or newer, got {}.{}; install a newer \
                 driver",
                driver.path().display(),
                driver.version.0,
                driver.version.1,
            );
            Error::new(Kind::FailedPrecondition, message)
        }))
    }

    /// The libraries at these paths.
    pub fn at(blas: &Path, solver: &Path) -> Result<Libraries> {
        let open = |path: &Path, witness| {
            Library::open(path, 0, witness).map_err(|why| {
                let text = format!("meshsolve: expected a library that loads, got {why}; {REMEDY}");
                Error::new(Kind::FailedPrecondition, text)
            })
        };
        Libraries::of(&open(blas, c"cublasCreate_v2")?, &open(solver, c"cusolverDnCreate")?)
    }

    fn of(blas: &Library, solver: &Library) -> Result<Libraries> {
        Ok(Libraries { blas: blas::Blas::of(blas)?, solver: solver::Solver::of(solver)? })
    }
}

/// cudaDataType.
fn data_type(dtype: DType) -> c_int {
    match dtype {
        DType::F32 => 0,
        DType::C64 => 4,
        DType::C128 => 5,
        _ => 1,
    }
}

/// cublasFillMode_t.
fn fill_mode(triangle: Triangle) -> c_int {
    if triangle.is_lower() { 0 } else { 1 }
}

fn failed(library: &str, function: &str, status: c_int, says: &str, out_of_memory: bool) -> Error {
    let (kind, remedy) = match out_of_memory {
        true => (
            Kind::ResourceExhausted,
            "free memory of the device, which JAX takes at first use unless \
             XLA_PYTHON_CLIENT_MEM_FRACTION leaves some of it",
        ),
        false => (
            Kind::Internal,
            "an error of work that was given to the device before may show only here: run the program \
             with CUDA_LAUNCH_BLOCKING=1. If it is meshsolve's, please report it",
        ),
    };
    let message = format!(
        "meshsolve: {library}: expected {function} to succeed, got {status}{says}; {remedy}"
    );
    Error::new(kind, message)
}

/// A column-major matrix in a device's memory, and what is applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub at: Address,
    pub leading: usize,
    pub op: Op,
}

pub mod blas;
pub mod nccl;
pub mod solver;
