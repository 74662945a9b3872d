//! The order of a call's steps, and what a single thread does after them.

use std::time::Instant;

use super::engine::Performs;
use super::engine::native::Native;
use super::job::Solver;
use super::options::{Options, Rhs};
use super::routine::{Family, SolverRoutine, Stage};
use super::slot::Kind;
use crate::algorithms::eigen::Function;
use crate::call::Job;
use crate::comm::Step;
use crate::device::Worker;
use crate::device::cpu::CpuWorker;
use crate::error::{Error, Result};
use crate::scalar::Scalar;

impl<T: Scalar> Solver<T> {
    /// One worker's part of the whole routine, by an engine.
    pub fn steps<W: Worker<T>>(&self, worker: &mut W, engine: &dyn Performs<T, W>) -> Step {
        if self.info_given != 0 {
            return Ok(());
        }
        let mut time = Instant::now();
        self.start_results(worker)?;
        let mut scale = None;
        let (m, n) = self.shape_of_a();
        let vectors = self.options.vectors.map_or(n, |(_, count)| count);
        let extents = [m, n, self.problem.rhs, vectors];
        for (stage, task) in self.options.routine.tasks(extents, self.sizes.one_stage) {
            worker.begins(task);
            engine.perform(stage, self, worker, &mut scale)?;
            time = self.lap(worker, stage.name(), time);
        }
        Ok(())
    }

    /// Whether A had only finite entries. It infers that from a failed factorisation and, if
    /// available, norm1(A): values after a zero pivot may be arbitrary.
    fn is_of_numbers(&self) -> bool {
        let norm = self.norm();
        let seen = match self.options.routine.has(Stage::Getrf) {
            // Sums of finite entries may overflow.
            true => !norm.is_nan() && self.found().moduli.entry.is_finite(),
            false => norm.is_finite(),
        };
        seen && !self.comm.met_no_number()
    }
}

impl<T: Scalar> Job for Solver<T> {
    fn workers(&self) -> usize {
        self.comm.workers()
    }

    unsafe fn run(&self, worker: usize) -> Result<()> {
        let (packed, scratch) = (self.sizes.packed, self.own_scratch(worker));
        // SAFETY: *order*: `steps` is one routine. The caller promises that each worker runs it
        // once.
        let mut worker = unsafe { CpuWorker::new(&self.comm, worker, packed, scratch) };
        // A stop is no error here: the worker that stopped the call has recorded the reason.
        let _ = self.steps(&mut worker, &Native);
        self.comm.failure().map_or(Ok(()), Err)
    }

    fn stop(&self) {
        self.comm.stop();
    }

    fn finish(&self) -> Result<()> {
        let info = self.info() as i32;
        let routine = self.options.routine;
        // An inverse that does not exist is NaN in any case.
        let of_numbers =
            !routine.factors() || routine.inverts() || info == 0 || self.is_of_numbers();
        // Where workers share memory, the first rank's results are those of all. Ranks have their own.
        if !self.sizes.is_rank {
            if info == 0 && self.options.rhs == Rhs::Replicated {
                self.share(Kind::Rhs)?;
            }
            self.share(Kind::Pivots)?;
            self.share(Kind::Coefficients)?;
            self.share(Kind::Triangle)?;
            self.share(Kind::Solution)?;
        }
        if info != 0 {
            self.fill_nan(Kind::Rhs)?;
            self.fill_nan(Kind::Solution)?;
        }
        // Q exists in any case.
        if info != 0 && routine.family != Family::Tsqr {
            self.fill_nan(Kind::Matrix)?;
        }
        if !of_numbers {
            self.fill_nan(Kind::Factor)?;
        }
        let mut residuals = std::mem::take(&mut self.found().residuals);
        if info != 0 {
            residuals.fill(f64::NAN);
        }
        self.give_reals(Kind::Residuals, &residuals)?;
        let mut eigenvalues = std::mem::take(&mut self.found().eigenvalues);
        if info != 0 {
            eigenvalues = vec![f64::NAN; self.problem.n];
        }
        self.give_reals(Kind::Eigenvalues, &eigenvalues)?;
        self.give_info(info)?;
        let values = self.found().values;
        let no_values = [T::NAN; 2];
        self.give_values(if info == 0 { &values } else { &no_values })?;
        let real = |value| if of_numbers { value } else { f64::NAN };
        self.give_real(Kind::Norm, real(self.norm()))?;
        self.give_real(Kind::Rcond, real(self.rcond()))?;
        self.give_real(Kind::Logdet, self.found().logdet)?;
        self.record(info);
        if self.options.raises && info > 0 {
            Err(no_answer(&self.options, self.unpadded(), info))
        } else {
            Ok(())
        }
    }
}

/// The error for `info` of an A of order n, if you ask for one where there is no answer.
pub(super) fn no_answer(options: &Options, n: usize, info: i32) -> Error {
    let routine = options.routine;
    let (expected, got) = failure(routine, options.function, n, info);
    // Functions of eigenvalues do not give it.
    let found = if routine.family == Family::Eigen { "" } else { ", and info has that number" };
    Error::invalid(format!(
        "meshsolve.{}: a: expected a {expected} matrix, got one whose {got} (info = {info}); with \
         on_failure=\"nan\" the answer is NaN{found}",
        routine.name
    ))
}

/// The matrices that have an answer, and what is true of an A of order n without one.
pub fn failure(
    routine: &SolverRoutine,
    function: Function,
    n: usize,
    info: i32,
) -> (&'static str, String) {
    match routine.family {
        Family::Cholesky => {
            ("positive definite", format!("leading minor of order {info} is not positive definite"))
        }
        Family::Lu => ("nonsingular", format!("pivot {info} is zero or not finite")),
        Family::Qr | Family::Tsqr => {
            ("full-rank", format!("column {info} depends on those before it, or is not finite"))
        }
        Family::Eigen if routine.has(Stage::Weigh) && (info as usize) <= n => {
            let (kind, what) = function.domain();
            (kind, format!("{info} {what}"))
        }
        Family::Eigen => (
            "finite",
            "entries are not all finite, or whose eigenvalues do not converge".to_owned(),
        ),
        // The last two always have an answer.
        Family::Triangular | Family::Residual | Family::Norm => {
            ("nonsingular", format!("diagonal entry {info} is zero or not finite"))
        }
    }
}
