//! One call of a solver: its memory, its workers, and the order of its steps. The steps share
//! `moves.rs`, `magnitude.rs`, `substitute.rs` and `results.rs`; `call_memory.rs` has the memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::call_memory::{CallMemory, Region};
use super::condition::Norms;
use super::operands::{Kind, Problem, Signature};
use super::options::{Family, Options, Rhs, Verb};
use super::sizes::{Sizes, panel_rows};
use super::{cholesky, lu, norm, residual, triangular};
use crate::call::{Buffer, Call, Job};
use crate::comm::{Communicator, Sharing, Step};
use crate::device::Backend;
use crate::device::cpu::CpuWorker;
use crate::device::memory::{self, Memory};
use crate::error::{Error, Result};
use crate::layout::Storage;
use crate::matrix::{Cells, Matrix};
use crate::scalar::{DType, Scalar};
use crate::settings;
use crate::stats::{self, CallStats};
use crate::trace;

pub struct Solver<T> {
    pub options: Options,
    pub problem: Problem,
    pub(super) calls: Vec<Call>,
    pub sizes: Sizes,
    pub(super) comm: Communicator,
    since: Instant,
    phases: Mutex<Vec<(&'static str, f64)>>,
    pub(super) call_memory: CallMemory,
    /// The `info` of an earlier factor; 0 if the operands have none.
    info_given: usize,
    /// The bits of the largest magnitude that workers have found.
    pub(super) largest: AtomicU64,
    pub(super) norms: Norms<T>,
}

impl<T: Scalar> Solver<T> {
    /// `sizes` must be those of `call_memory`.
    pub fn new(
        options: Options,
        problem: Problem,
        calls: Vec<Call>,
        since: Instant,
        sizes: Sizes,
        call_memory: CallMemory,
    ) -> Result<Self> {
        let args = options.verb.signature.args;
        check_pivots(&*call_memory.memory, options.verb, &calls[0], problem.n)?;
        let info_given = match Signature::find(args, Kind::Info) {
            Some(info) => {
                let info = calls[0].args[info].column::<i32>();
                // SAFETY: *order*, as no worker has begun.
                let read = unsafe { memory::read(&*call_memory.memory, info) };
                read?[0]
            }
            None => 0,
        };
        let given = Signature::find(args, Kind::Real).map(|norm| &calls[0].args[norm]);
        let norm = given.map(|norm| real_at(&*call_memory.memory, norm)).transpose()?;
        let sharing = Sharing { workers: settings::cores(), ..Sharing::default() };
        let figures = figures::<T>(&options, &problem, &sizes, call_memory.visible);
        if options.alone {
            stats::begins_alone(&figures);
        }
        let trace = trace::call(since, || figures);
        Ok(Solver {
            comm: Communicator::new(sizes.workers).with_sharing(sharing).with_trace(trace),
            phases: Mutex::new(vec![("wait", since.elapsed().as_secs_f64())]),
            largest: AtomicU64::new(0),
            norms: Norms::new(&options, problem.n, norm),
            info_given: info_given as usize,
            call_memory,
            sizes,
            options,
            problem,
            calls,
            since,
        })
    }

    pub(super) fn memory(&self) -> &dyn Memory {
        &*self.call_memory.memory
    }

    /// B, in the memory where the call works on it.
    pub fn a(&self) -> Matrix<'_, T> {
        let Signature { args, rets } = self.options.verb.signature;
        let shard = self.sizes.distribution.shard();
        let layout = match self.options.verb.family.reads_only() {
            true => self.options.storage.as_columns(shard),
            false => Storage::column_major(shard),
        };
        let (result, operand) =
            (Signature::find(rets, Kind::Matrix), Signature::find(args, Kind::Matrix));
        let shards = self.calls.iter().map(|call| match result {
            Some(result) => call.rets[result].cells(&layout),
            None => call.args[operand.expect("a matrix")].cells(&layout),
        });
        Matrix::new(shards.collect(), &self.sizes.distribution)
    }

    /// Scratch of one worker alone.
    pub fn own_scratch(&self, worker: usize) -> Cells<'_, T> {
        self.call_memory.region(&self.sizes, Region::Own(worker))
    }

    /// The scratch that the phases share.
    pub(super) fn shared_scratch(&self) -> Cells<'_, T> {
        self.call_memory.region(&self.sizes, Region::Shared)
    }

    /// Scratch for one tile column, used for inverses.
    pub fn panel(&self) -> Cells<'_, T> {
        let (m, widest) = (self.problem.m, self.sizes.columns().widest());
        self.shared_scratch().by_columns(m, widest, panel_rows(m))
    }

    /// The operand of a kind, on rank 0.
    pub(super) fn operand(&self, kind: Kind) -> Option<&Buffer> {
        let position = Signature::find(self.options.verb.signature.args, kind)?;
        Some(&self.calls[0].args[position])
    }

    pub(super) fn x(&self, rank: usize) -> &Buffer {
        let rets = self.options.verb.signature.rets;
        &self.calls[rank].rets[Signature::find(rets, Kind::Rhs).expect("a solve has an x")]
    }

    /// Right-hand sides, which solutions overwrite.
    pub fn x_block(&self, rank: usize) -> Cells<'_, T> {
        self.x(rank).by_rows()
    }

    /// The operand of that name, with as many columns as right-hand sides.
    pub fn operand_block(&self, rank: usize, name: &str) -> Cells<'_, T> {
        let slots = self.options.verb.signature.args;
        let position = slots.iter().position(|s| s.name == name).expect("an operand of that name");
        self.calls[rank].args[position].by_rows()
    }

    /// The row interchanges: rank 0's operand or result, or the call's own.
    pub fn pivots(&self) -> Cells<'_, i32> {
        let result = Signature::find(self.options.verb.signature.rets, Kind::Pivots);
        let buffer = self.operand(Kind::Pivots).or(result.map(|i| &self.calls[0].rets[i]));
        buffer.map_or_else(|| self.call_memory.region(&self.sizes, Region::Pivots), Buffer::column)
    }

    /// The current `info`. Workers that have met agree on it.
    pub fn info(&self) -> usize {
        self.comm.info().max(self.info_given)
    }

    /// One worker's part of the whole routine.
    pub fn steps(&self, worker: &mut impl Backend<T>) -> Step {
        if self.info_given != 0 {
            return Ok(());
        }
        let mut time = Instant::now();
        self.start_results(worker)?;
        if self.options.verb.arrange {
            self.arrange(worker)?;
            time = self.lap(worker, "arrange", time);
        }
        match self.options.verb.family {
            Family::Cholesky => cholesky::steps(self, worker, &mut time)?,
            Family::Lu => lu::steps(self, worker, &mut time)?,
            Family::Triangular => triangular::steps(self, worker, &mut time)?,
            Family::Residual => residual::steps(self, worker)?,
            Family::Norm => norm::steps(self, worker)?,
        }
        if self.options.verb.restore {
            self.restore(worker)?;
            self.lap(worker, "restore", time);
        }
        Ok(())
    }

    /// Whether A had only finite entries. It infers that from a failed factorisation and, if
    /// available, norm1(A): values after a zero pivot may be arbitrary.
    fn is_of_numbers(&self) -> Result<bool> {
        let verb = self.options.verb;
        let norm = if verb.norm { self.norm()? } else { 0.0 };
        let largest = f64::from_bits(self.largest.load(Ordering::Acquire));
        let seen = match verb.family {
            // Sums of finite entries may overflow.
            Family::Lu => !norm.is_nan() && largest.is_finite(),
            _ => norm.is_finite(),
        };
        Ok(seen && self.diagonal()?[self.info() - 1].is_number())
    }

    /// The diagonal of the matrix, from the first entry to the last.
    pub fn diagonal(&self) -> Result<Vec<T>> {
        let a = self.a();
        let tiles = a.columns().each().map(|t| a.diagonal(t).diagonal());
        // SAFETY: *order*: workers only read the matrix now, or have returned.
        let read = |d: Cells<T>| unsafe { memory::read(self.memory(), d) };
        Ok(tiles.map(read).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Worker 0 records the seconds since `from` under `phase`.
    pub fn lap(&self, worker: &mut impl Backend<T>, phase: &'static str, from: Instant) -> Instant {
        let now = Instant::now();
        worker.ends_phase(phase, from, now);
        if worker.worker() == 0 {
            let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner());
            phases.push((phase, (now - from).as_secs_f64()));
        }
        now
    }

    fn record(&self, info: i32) {
        let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner()).clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        let visible = self.call_memory.visible;
        let figures = figures::<T>(&self.options, &self.problem, &self.sizes, visible);
        let float64 = self.call_memory.float64.name();
        stats::record(CallStats { info, phases, float64, ..figures });
    }
}

/// The figures of a call that are known before it begins.
fn figures<T: Scalar>(
    options: &Options,
    problem: &Problem,
    sizes: &Sizes,
    visible: usize,
) -> CallStats {
    CallStats {
        routine: options.verb.name,
        dtype: T::DTYPE.name(),
        n: problem.n,
        rhs: problem.rhs,
        ranks: problem.ranks(),
        visible,
        workers: sizes.workers,
        tiles: sizes.columns().count(),
        tile: sizes.columns().widest(),
        scratch_bytes: sizes.scratch_bytes::<T>(),
        ..CallStats::default()
    }
}

impl<T: Scalar> Job for Solver<T> {
    fn workers(&self) -> usize {
        self.comm.workers()
    }

    unsafe fn run(&self, worker: usize) -> Result<()> {
        let (widest, scratch) = (self.sizes.columns().widest(), self.own_scratch(worker));
        // SAFETY: *order*: `steps` is one routine. The caller promises that each worker runs it
        // once.
        let mut worker = unsafe { CpuWorker::new(&self.comm, worker, widest, scratch) };
        // A stop is no error here: the worker that stopped the call has recorded the reason.
        let _ = self.steps(&mut worker);
        self.comm.failure().map_or(Ok(()), Err)
    }

    fn stop(&self) {
        self.comm.stop();
    }

    fn finish(&self) -> Result<()> {
        let info = self.info() as i32;
        let verb = self.options.verb;
        // An inverse that does not exist is NaN in any case.
        let of_numbers = !verb.factor || verb.invert || info == 0 || self.is_of_numbers()?;
        if verb.solve && info == 0 && self.options.rhs == Rhs::Replicated {
            self.share(Kind::Rhs)?;
        }
        self.share(Kind::Pivots)?;
        if info != 0 {
            self.fill_nan(Kind::Rhs)?;
            if verb.invert || verb.restore && !verb.upright {
                self.fill_nan(Kind::Matrix)?;
            }
        }
        if !of_numbers {
            self.fill_nan(Kind::Matrix)?;
        }
        self.give_info(info)?;
        match verb.family {
            _ if !of_numbers => self.give_real(f64::NAN)?,
            _ if verb.condition => self.give_real(self.rcond()?)?,
            _ if verb.norm => self.give_real(self.norm()?)?,
            Family::Cholesky => cholesky::finish(self)?,
            Family::Lu => lu::finish(self)?,
            Family::Norm => norm::finish(self)?,
            Family::Triangular | Family::Residual => {}
        }
        self.record(info);
        if self.options.raises && info > 0 { Err(no_answer(verb, info)) } else { Ok(()) }
    }
}

/// The error for `info`, if you ask for one where there is no answer.
fn no_answer(verb: &Verb, info: i32) -> Error {
    let (expected, got) = match verb.family {
        Family::Cholesky => (
            "positive definite",
            format!("one whose leading minor of order {info} is not positive definite"),
        ),
        Family::Lu => ("nonsingular", format!("one whose pivot {info} is zero or not finite")),
        // The last two always have an answer.
        Family::Triangular | Family::Residual | Family::Norm => {
            ("nonsingular", format!("one whose diagonal entry {info} is zero or not finite"))
        }
    };
    Error::invalid(format!(
        "meshsolve.{}: a: expected a {expected} matrix, got {got} (info = {info}); with \
         on_failure=\"nan\" the answer is NaN, and info has that number",
        verb.name
    ))
}

/// The value of a real operand.
fn real_at(memory: &dyn Memory, number: &Buffer) -> Result<f64> {
    // SAFETY: *order*, as no worker has begun.
    unsafe {
        match number.dtype() {
            DType::F32 => Ok(memory::read(memory, number.column::<f32>())?[0].into()),
            _ => Ok(memory::read(memory, number.column::<f64>())?[0]),
        }
    }
}

/// Row interchanges from the caller must be valid row numbers.
fn check_pivots(memory: &dyn Memory, verb: &Verb, call: &Call, n: usize) -> Result<()> {
    let Some(position) = Signature::find(verb.signature.args, Kind::Pivots) else { return Ok(()) };
    // SAFETY: *order*, as no worker has begun.
    let rows = unsafe { memory::read(memory, call.args[position].column::<i32>()) }?;
    let wrong = |&row: &i32| usize::try_from(row).map_or(true, |row| row >= n);
    match rows.iter().position(wrong) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!(
            "meshsolve.{}: pivots: expected row numbers from 0 to {}, got {} at position {at}; pass \
             the pivots of the factorisation",
            verb.name,
            n - 1,
            rows[at]
        ))),
    }
}
