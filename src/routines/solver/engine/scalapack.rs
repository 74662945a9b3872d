//! ScaLAPACK as an engine: on CUDA devices it does not exist. `solver::processes` performs its calls.

use super::Engine;
use crate::error::{Error, Result};
use crate::routines::solver::operands::Problem;
use crate::routines::solver::options::Options;
use crate::routines::solver::routine::Stage;
use crate::settings::Float64;

#[derive(Clone, Copy, Debug)]
pub struct Scalapack;

impl Engine for Scalapack {
    fn is_on_host(&self) -> bool {
        true
    }

    fn check(&self, options: &Options, _: &Problem) -> Result<()> {
        Err(Error::invalid(format!(
            "meshsolve.{}: engine: expected \"meshsolve\" or \"cusolvermg\" on CUDA devices, got \
             \"scalapack\"; put A on CPU devices, one of each process",
            options.routine.name
        )))
    }

    fn tile(&self, _: &Options, _: &Problem) -> Option<usize> {
        None
    }

    fn performs(&self, _: &Options, _: Stage) -> bool {
        false
    }

    fn float64(&self, own: Float64) -> Float64 {
        own
    }
}
