//! One call of a solver: its operands, its memory, its workers. `run.rs` has the order of its steps,
//! which share `moves.rs`, `magnitude.rs`, `substitute.rs` and `results.rs`.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::call_memory::{CallMemory, Region};
use super::operands::{Kind, Problem, Signature};
use super::options::{Options, Verb};
use super::sizes::{Sizes, panel_rows};
use crate::algorithms::condition::Estimator;
use crate::call::{Buffer, Call};
use crate::comm::{Communicator, Sharing};
use crate::device::Worker;
use crate::device::memory::{self, Memory};
use crate::error::{Error, Result};
use crate::layout::Storage;
use crate::matrix::{Cells, Matrix};
use crate::scalar::{DType, Scalar};
use crate::stats::{self, CallStats};
use crate::{log, settings, trace};

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
    pub(super) info_given: usize,
    /// The bits of the largest magnitude that workers have found.
    pub(super) largest: AtomicU64,
    pub(super) norms: Norms<T>,
}

/// Norms that the workers of a call find.
pub struct Norms<T> {
    /// norm1(A) as an operand.
    pub(super) given: Option<f64>,
    /// The bits of the largest column sum of B.
    pub(super) column: AtomicU64,
    pub(super) estimator: Mutex<Estimator<T>>,
}

impl<T: Scalar> Norms<T> {
    pub fn new(options: &Options, n: usize, given: Option<f64>) -> Self {
        let order = if options.verb.condition { options.unpadded.unwrap_or(n).min(n) } else { 0 };
        let estimator = Mutex::new(Estimator::new(order));
        Norms { given, column: AtomicU64::new(0), estimator }
    }
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

    /// The diagonal of the matrix, from the first entry to the last.
    pub fn diagonal(&self) -> Result<Vec<T>> {
        let a = self.a();
        let tiles = a.columns().each().map(|t| a.diagonal(t).diagonal());
        // SAFETY: *order*: workers only read the matrix now, or have returned.
        let read = |d: Cells<T>| unsafe { memory::read(self.memory(), d) };
        Ok(tiles.map(read).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Worker 0 records the seconds since `from` under `phase`.
    pub fn lap(&self, worker: &mut impl Worker<T>, phase: &'static str, from: Instant) -> Instant {
        let now = Instant::now();
        worker.ends_phase(phase, from, now);
        if worker.worker() == 0 {
            let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner());
            phases.push((phase, (now - from).as_secs_f64()));
        }
        now
    }

    pub(super) fn record(&self, info: i32) {
        let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner()).clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        let visible = self.call_memory.visible;
        let figures = figures::<T>(&self.options, &self.problem, &self.sizes, visible);
        let float64 = self.call_memory.float64.name();
        log::record(CallStats { info, phases, float64, ..figures });
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
