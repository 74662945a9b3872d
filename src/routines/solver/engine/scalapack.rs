//! ScaLAPACK as an engine: on CUDA devices it does not exist. `solver::processes` performs its calls.

use super::Engine;
use crate::error::{Error, Result};
use crate::routines::solver::operands::Problem;
use crate::routines::solver::options::Options;

#[derive(Clone, Copy, Debug)]
pub struct Scalapack;

impl Engine for Scalapack {
    fn check(&self, options: &Options, _: &Problem) -> Result<()> {
        Err(Error::invalid(format!(
            "meshsolve.{}: engine: expected \"meshsolve\" or \"cusolvermg\" on CUDA devices, got \
             \"scalapack\"; put A on CPU devices, one of each process",
            options.routine.name
        )))
    }
}
