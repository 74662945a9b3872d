//! A solver as an entry of the routine table: from attributes and buffers to a job.

use std::sync::Arc;
use std::time::Instant;

use super::call_memory::CallMemory;
use super::engine;
use super::job::Solver;
use super::on_cuda::CudaSolver;
use super::options::Options;
use super::routine::SolverRoutine;
use super::sizes::{Machine, Sizes};
use super::slot::Slot;
use crate::call::{Attributes, Call, Job};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::routines::{Across, Configured, Description, OnCuda, Routine};

impl Routine for SolverRoutine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> Description {
        let arrays = |slots: &[Slot]| slots.iter().map(Slot::description).collect();
        Description {
            summary: self.summary,
            family: self.family.name(),
            operands: arrays(self.signature.args),
            results: arrays(self.signature.rets),
            attributes: self.attributes.to_vec(),
            stages: self.run.iter().map(|stage| stage.name()).collect(),
            upright: self.upright,
            across: self.is_across(),
            requires: self.requires.iter().map(|requirement| requirement.name()).collect(),
        }
    }

    fn configure(&'static self, attributes: &dyn Attributes) -> Result<Box<dyn Configured>> {
        Ok(Box::new(self.options(attributes)?))
    }
}

impl Configured for Options {
    fn prepare(&self, calls: Vec<Call>, since: Instant) -> Result<Arc<dyn Job>> {
        if !engine::of(self).is_on_host() {
            return Err(Error::invalid(format!(
                "meshsolve.{}: engine: expected \"meshsolve\" for arrays in the host's memory, got \
                 {:?}; leave engine=None where A is factored, or put A on CUDA devices",
                self.routine.name,
                self.engine.name()
            )));
        }
        let problem = self.problem(calls.len(), &calls)?;
        dispatch!(problem.dtype, T => {
            let sizes = Sizes::new(self, &problem, &Machine::host::<T>(self, &problem));
            let call_memory = CallMemory::host::<T>(&sizes)?;
            Ok(Arc::new(Solver::<T>::new(*self, problem, calls, since, sizes, call_memory)?))
        },
        else => Err(self.wrong_dtype(problem.dtype)))
    }

    fn on_cuda(&self) -> Box<dyn OnCuda> {
        Box::new(CudaSolver::new(*self))
    }

    fn across(&self) -> Option<&dyn Across> {
        self.of_processes()
    }
}
