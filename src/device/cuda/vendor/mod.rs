//! The vendor's libraries: cuBLAS, cuSOLVER and cuSolverMg for linear algebra. With NCCL, ranks
//! send panels if the settings ask for it. They are loaded at run time, at first use. Sizes have 64
//! bits everywhere except in cuSolverMg.

use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

use super::driver::Driver;
use super::handle::{Address, Handle, Stream};
use super::load::{Library, Symbol, Wanted, call, functions, text, toolkits};
use crate::device::{Op, Triangle};
use crate::error::{Error, Kind, Result};
use crate::scalar::{DType, Scalar};
use crate::settings::Float64;

/// Finds the libraries for a driver.
pub type Find = Box<dyn Fn(&Driver) -> Result<Libraries> + Send + Sync>;

/// cuBLAS, cuSOLVER and, when first needed, cuSolverMg.
pub struct Libraries {
    pub blas: blas::Blas,
    pub solver: solver::Solver,
    /// Loads cuSolverMg, which solves on several devices.
    many: Box<dyn Fn() -> Result<Library> + Send + Sync>,
    mg: OnceLock<Result<mg::Mg>>,
}

const REMEDY: &str =
    "install JAX with its CUDA libraries, pip install \"jax[cuda13]\" or \"jax[cuda12]\"";

/// Majors of CUDA with the sonames of cuBLAS, cuSOLVER and cuSolverMg, newest first.
const VERSIONS: [(i32, [&str; 3]); 2] = [
    (13, ["libcublas.so.13", "libcusolver.so.12", "libcusolverMg.so.12"]),
    (12, ["libcublas.so.12", "libcusolver.so.11", "libcusolverMg.so.11"]),
];

/// A library from the folders of pip's packages or of toolkits.
fn find(product: &str, soname: &str, witness: &CStr, folders: &[PathBuf]) -> Result<Library> {
    Library::find(&Wanted {
        product,
        sonames: &[soname],
        witness,
        folders,
        last_folders: &toolkits(),
        remedy: REMEDY,
    })
}

impl Libraries {
    /// The best pair on this machine that the driver takes, both of the same version of CUDA.
    pub fn find(folders: &[PathBuf], driver: &Driver) -> Result<Libraries> {
        let fits = |major: &i32| *major <= driver.version.0;
        let mut failure = None;
        for (_, [blas, solver, many]) in VERSIONS.iter().filter(|(major, ..)| fits(major)) {
            let found = find("cuBLAS", blas, c"cublasCreate_v2", folders).and_then(|blas| {
                Ok((blas, find("cuSOLVER", solver, c"cusolverDnCreate", folders)?))
            });
            match found {
                Ok((blas, solver)) => {
                    let folders = folders.to_vec();
                    let many = move || find("cuSolverMg", many, c"cusolverMgCreate", &folders);
                    return Libraries::of(&blas, &solver, Box::new(many));
                }
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

    pub fn at(blas: &Path, solver: &Path, many: &Path) -> Result<Libraries> {
        let open = |path: &Path, witness| {
            Library::open(path, 0, witness).map_err(|why| {
                let text = format!("meshsolve: expected a library that loads, got {why}; {REMEDY}");
                Error::new(Kind::FailedPrecondition, text)
            })
        };
        let (blas, solver) = (open(blas, c"cublasCreate_v2")?, open(solver, c"cusolverDnCreate")?);
        let many = many.to_owned();
        Libraries::of(&blas, &solver, Box::new(move || open(&many, c"cusolverMgCreate")))
    }

    fn of(
        blas: &Library,
        solver: &Library,
        many: Box<dyn Fn() -> Result<Library> + Send + Sync>,
    ) -> Result<Libraries> {
        let (blas, solver) = (blas::Blas::of(blas)?, solver::Solver::of(solver)?);
        Ok(Libraries { blas, solver, many, mg: OnceLock::new() })
    }

    /// cuSolverMg, of the same version of CUDA.
    pub fn mg(&self) -> Result<&mg::Mg> {
        let found = self.mg.get_or_init(|| mg::Mg::of(&(self.many)()?));
        found.as_ref().map_err(Clone::clone)
    }
}

/// cudaDataType of T. cudarc declares it again in the module of each library, `sys`.
macro_rules! data_type {
    ($T:ty) => {
        match <$T>::DTYPE {
            DType::F32 => sys::cudaDataType::CUDA_R_32F,
            DType::C64 => sys::cudaDataType::CUDA_C_32F,
            DType::C128 => sys::cudaDataType::CUDA_C_64F,
            _ => sys::cudaDataType::CUDA_R_64F,
        }
    };
}

fn failed(library: &str, function: &str, status: c_int, text: &str, out_of_memory: bool) -> Error {
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
        "meshsolve: {library}: expected {function} to succeed, got {status}{text}; {remedy}"
    );
    Error::new(kind, message)
}

fn no_emulation() -> Error {
    let text = "meshsolve: cuBLAS: expected one that emulates float64, of CUDA 13.0 update 2 or newer, got an \
         older one; update it (pip install --upgrade \"jax[cuda13]\"), or call \
         meshsolve.set_float64_math(\"native\") and leave MESHSOLVE_FLOAT64 out";
    Error::new(Kind::FailedPrecondition, text)
}

/// A device's memory as a library declares it.
fn pointer<T>(at: Address) -> *mut T {
    std::ptr::without_provenance_mut(at as usize)
}

/// A column-major matrix in a device's memory, and the operation on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub at: Address,
    pub leading: usize,
    pub op: Op,
}

pub mod blas;
pub mod mg;
pub mod nccl;
pub mod solver;
