//! Engines: who performs the stages of a call. The native one has this library's own algorithms for
//! every stage. A vendor's engine performs some of them, and leaves the others to the native one.
//!
//! A new engine is a file here, an `EngineName`, a line of `of` and one of `on_cuda`. On CPU devices
//! `run.rs` has the native one alone.

pub mod cusolvermg;
pub mod native;
pub mod scalapack;

use std::sync::Arc;

use super::job::Solver;
use super::operands::Problem;
use super::options::{EngineName, Options};
use super::routine::Stage;
use crate::call::Call;
use crate::comm::Step;
use crate::device::Worker;
use crate::device::cuda::worker::CudaWorker;
use crate::error::Result;
use crate::routines::Part;
use crate::scalar::Scalar;
use crate::settings::Float64;

/// An engine as a call site names it: what it supports and wants, from sizes alone.
pub trait Engine: Sync {
    /// Whether it works on arrays in the host's memory.
    fn is_on_host(&self) -> bool {
        true
    }
    /// Refuses what it does not support on CUDA devices, with a remedy.
    fn check(&self, _: &Options, _: &Problem) -> Result<()> {
        Ok(())
    }
    /// The width of all tile columns that it wants; None if any will do.
    fn tile(&self, _: &Options, _: &Problem) -> Option<usize> {
        None
    }
    /// Whether it performs a stage itself, in the place of the native engine.
    fn performs(&self, _: &Options, _: Stage) -> bool {
        false
    }
    /// How it multiplies float64, given how this library would.
    fn float64(&self, own: Float64) -> Float64 {
        own
    }
}

/// The engine of a call site.
pub fn of(options: &Options) -> &'static dyn Engine {
    match options.engine {
        EngineName::Native => &native::Native,
        EngineName::CusolverMg => &cusolvermg::CusolverMg,
        EngineName::Scalapack => &scalapack::Scalapack,
    }
}

/// Whether a vendor's engine performs a stage of the call.
pub fn is_vendors(options: &Options, stage: Stage) -> bool {
    options.routine.has(stage) && of(options).performs(options, stage)
}

/// The engine of one call, for workers of one kind: it performs the stages.
pub trait Performs<T: Scalar, W: Worker<T>>: Send + Sync {
    /// Bytes of a rank's memory that it needs in addition to the scratch of this library's algorithms.
    fn workspace(&self, _rank: usize) -> usize {
        0
    }
    /// One worker's part of a stage. `scale` is the magnitude of A, once a stage has found it.
    fn perform(
        &self,
        stage: Stage,
        job: &Solver<T>,
        worker: &mut W,
        scale: &mut Option<f64>,
    ) -> Step;
    /// Ends the call, which may have failed. All workers have returned.
    fn close(&self, _failed: bool) -> Result<()> {
        Ok(())
    }
}

/// An engine for the ranks of a call on CUDA devices.
pub type CudaEngine<T> = Arc<dyn for<'w> Performs<T, CudaWorker<'w>>>;

/// The engine of a call on CUDA devices, chosen by each of its ranks. An engine may let all meet.
/// `tile` gives the width of the tile columns.
pub fn on_cuda<T: Scalar>(
    options: &Options,
    problem: &Problem,
    tile: impl Fn() -> usize,
    part: &mut Part,
    call: &Call,
) -> Result<CudaEngine<T>> {
    of(options).check(options, problem)?;
    match options.engine {
        // Its check has refused the other one.
        EngineName::Native | EngineName::Scalapack => Ok(Arc::new(native::Native)),
        EngineName::CusolverMg => cusolvermg::for_call(options, problem, tile, part, call),
    }
}
