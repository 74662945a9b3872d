//! Engines: who performs the stages of a call. The native one has this library's own algorithms for
//! every stage. A vendor's engine performs some of them, and leaves the others to the native one.
//!
//! A new engine is a file here, an `EngineName` and a line of `of`. The caller of its workers gives it
//! to `Solver::steps`: `on_cuda.rs` for CUDA devices, `run.rs` for CPU devices.

pub mod cusolvermg;
pub mod native;

use super::job::Solver;
use super::operands::Problem;
use super::options::{EngineName, Options};
use super::routine::Stage;
use crate::comm::Step;
use crate::device::Worker;
use crate::error::Result;
use crate::scalar::Scalar;
use crate::settings::Float64;

/// An engine as a call site names it: what it supports and wants, from sizes alone.
pub trait Engine: Sync {
    /// Whether it works on arrays in the host's memory. All work on CUDA devices.
    fn is_on_host(&self) -> bool;
    /// Refuses what it does not support, with a remedy.
    fn check(&self, options: &Options, problem: &Problem) -> Result<()>;
    /// The width of all tile columns that it wants; None if any will do.
    fn tile(&self, options: &Options, problem: &Problem) -> Option<usize>;
    /// Whether it performs a stage itself, in the place of the native engine.
    fn performs(&self, options: &Options, stage: Stage) -> bool;
    /// How it multiplies float64, given how this library would.
    fn float64(&self, own: Float64) -> Float64;
}

/// The engine of a call site.
pub fn of(options: &Options) -> &'static dyn Engine {
    match options.engine {
        EngineName::Native => &native::Native,
        EngineName::CusolverMg => &cusolvermg::CusolverMg,
    }
}

/// Whether a vendor's engine performs a stage of the call.
pub fn is_vendors(options: &Options, stage: Stage) -> bool {
    options.routine.has(stage) && of(options).performs(options, stage)
}

/// An engine for workers of one kind, which performs the stages of a call.
pub trait Performs<T: Scalar, W: Worker<T>> {
    /// One worker's part of a stage. `scale` is the magnitude of A, once a stage has found it.
    fn perform(
        &self,
        stage: Stage,
        job: &Solver<T>,
        worker: &mut W,
        scale: &mut Option<f64>,
    ) -> Step;
}
