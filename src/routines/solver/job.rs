//! One call of a solver: its operands, its memory, its workers. `run.rs` has the order of its steps,
//! which share `moves.rs`, `magnitude.rs`, `substitute.rs` and `results.rs`.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::call_memory::{CallMemory, Region};
use super::eigenvectors_scratch::Parts;
use super::operands::{Problem, check_rows};
use super::options::{Options, Rhs};
use super::routine::{Family, SolverRoutine, Stage, panel_rows};
use super::sizes::Sizes;
use super::slot::{Kind, Signature};
use crate::algorithms::lu::more_elements;
use crate::call::{Buffer, Call};
use crate::comm::{Communicator, Step};
use crate::device::cpu::Scratch;
use crate::device::cpu::divide::Divided;
use crate::device::memory::{self, Memory};
use crate::device::{Moduli, Tridiagonal, Worker};
use crate::error::{Error, Result};
use crate::layout::Storage;
use crate::matrix::{Blocks, Cells, DistMatrix};
use crate::scalar::{DType, Scalar, larger};
use crate::stats::{self, CallStats};
use crate::{log, trace};

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
    /// What all workers have found.
    found: Mutex<Found<T>>,
    /// norm1(A) as an operand.
    pub(super) norm_given: Option<f64>,
    /// The operand of that kind; 0 if the call has none.
    pub(super) number: f64,
    /// Memory of the host where workers are ranks: for reflectors of sweeps, eigenvectors, and a batch
    /// of factors.
    pub(super) host: Option<Scratch>,
}

/// What workers find for results that a single thread writes.
pub(super) struct Found<T> {
    pub moduli: Moduli,
    /// The condition of A in its 1-norm, estimated; 0 without a factor.
    pub condition: f64,
    /// The results of kind `Value`, in their order.
    pub values: [T; 2],
    /// The logarithm of its size; NaN without a factor.
    pub logdet: f64,
    /// The squared norms of residuals.
    pub residuals: Vec<f64>,
    /// The exponent of the power of two by which A has been divided, the tridiagonal matrix that it
    /// has become, and the eigenvalues of A.
    pub exponent: i32,
    pub tridiagonal: Tridiagonal,
    pub divided: Option<Arc<Divided>>,
    pub eigenvalues: Vec<f64>,
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
        let args = options.routine.signature.args;
        // Ranks use their own pivots, workers that share memory the first rank's.
        let used = if sizes.is_rank { &calls[..] } else { &calls[..1] };
        check_pivots(&*call_memory.memory, options.routine, used, problem.n)?;
        let info_given = match Signature::find(args, Kind::Info) {
            Some(info) => {
                let info = calls[0].args[info].column::<i32>();
                // SAFETY: *order*, as no worker has begun.
                let read = unsafe { memory::read(&*call_memory.memory, info) };
                read?[0]
            }
            None => 0,
        };
        let given = |kind| {
            let at = Signature::find(args, kind)?;
            Some(real_at(&*call_memory.memory, &calls[0].args[at]))
        };
        let (moduli, values) = (Moduli::default(), [T::ZERO; 2]);
        let found = Found {
            moduli,
            condition: 0.0,
            values,
            logdet: f64::NAN,
            residuals: Vec::new(),
            exponent: 0,
            tridiagonal: Tridiagonal::default(),
            divided: None,
            eigenvalues: Vec::new(),
        };
        let of_host = sizes.is_rank && sizes.goes_back;
        let host = of_host.then(|| {
            let (n, widest) = (problem.n, sizes.columns().widest());
            let batch = Parts::of::<T>(n, widest).back.shared;
            Scratch::new((2 * n * n + batch) * size_of::<T>())
        });
        let figures = figures::<T>(&options, &problem, &sizes, call_memory.visible);
        if options.alone {
            stats::begins_alone(&figures);
        }
        let trace = trace::call(since, || figures);
        Ok(Solver {
            comm: Communicator::of_call(sizes.workers, trace),
            phases: Mutex::new(vec![("wait", since.elapsed().as_secs_f64())]),
            found: Mutex::new(found),
            norm_given: given(Kind::Norm).transpose()?,
            number: given(Kind::Number).transpose()?.unwrap_or_default(),
            info_given: info_given as usize,
            host: host.transpose()?,
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

    /// B, the solver's matrix, as a worker has it.
    pub fn a(&self, worker: &impl Worker<T>) -> DistMatrix<'_, T> {
        self.matrix().seen_from(worker.here())
    }

    /// The same of the matrix that the call gives back: another one where it is eigenvectors.
    pub(super) fn answer(&self, worker: &impl Worker<T>) -> DistMatrix<'_, T> {
        match self.options.routine.gives_eigenvectors() {
            true => self.eigenvectors(worker),
            false => self.a(worker),
        }
    }

    /// That of eigenvectors, in work or as a result.
    pub(super) fn eigenvectors(&self, worker: &impl Worker<T>) -> DistMatrix<'_, T> {
        let rets = self.options.routine.signature.rets;
        self.matrix_of(rets.iter().rposition(|slot| slot.kind.is_matrix())).seen_from(worker.here())
    }

    /// B, in the memory where the call works on it.
    fn matrix(&self) -> DistMatrix<'_, T> {
        self.matrix_of(Signature::matrix(self.options.routine.signature.rets))
    }

    /// That of a result, or the operand if there is none.
    fn matrix_of(&self, result: Option<usize>) -> DistMatrix<'_, T> {
        let shard = self.sizes.distribution.shard();
        let layout = match self.options.routine.family.reads_only() {
            true => self.options.storage.as_columns(shard),
            false => Storage::column_major(shard),
        };
        let operand = Signature::matrix(self.options.routine.signature.args);
        let shards = self.calls.iter().map(|call| match result {
            Some(result) => call.rets[result].cells(&layout),
            None => call.args[operand.expect("a matrix")].cells(&layout),
        });
        DistMatrix::new(shards.collect(), &self.sizes.distribution)
    }

    /// Scratch of one worker alone.
    pub fn own_scratch(&self, worker: usize) -> Cells<'_, T> {
        self.call_memory.region(&self.sizes, Region::Own(worker))
    }

    /// The scratch that the phases use in turn, in the memory that a worker reaches.
    pub(super) fn shared_scratch(&self, worker: usize) -> Cells<'_, T> {
        self.call_memory.region(&self.sizes, Region::Shared(worker))
    }

    /// Blocks of `each` elements of that scratch for every worker, from element `first` on, as worker
    /// `me` has them.
    pub(super) fn own_blocks(&self, me: usize, first: usize, each: usize) -> Blocks<'_, T> {
        let index = |w: usize| if self.sizes.is_rank { 0 } else { w };
        self.blocks(me, |w| self.shared_scratch(w).sub(first + index(w) * each, 0, each, 1))
    }

    /// A tile of that scratch for a worker, after the partial sums of all. It is not in the worker's
    /// own scratch, because products pack there.
    pub(super) fn tile_after_sums(&self, me: usize) -> Cells<'_, T> {
        let workers = if self.sizes.is_rank { 1 } else { self.sizes.workers };
        let columns = if self.options.rhs == Rhs::Columns { 0 } else { self.problem.rhs };
        let widest = self.sizes.columns().widest();
        self.own_blocks(me, workers * self.problem.n * columns, widest * widest).own()
    }

    /// A block of that scratch for all workers, or one on each rank.
    pub(super) fn common_blocks(&self, me: usize, first: usize, count: usize) -> Blocks<'_, T> {
        self.blocks(me, |w| self.shared_scratch(w).sub(first, 0, count, 1))
    }

    /// What each worker has.
    pub(super) fn blocks<'s, U>(
        &self,
        me: usize,
        of: impl Fn(usize) -> Cells<'s, U>,
    ) -> Blocks<'s, U> {
        Blocks::new((0..self.sizes.workers).map(of), me)
    }

    /// What all ranks have alike, by worker.
    pub(super) fn replicated<'s>(
        &self,
        me: usize,
        of_rank: impl Fn(usize) -> Cells<'s, T>,
    ) -> Blocks<'s, T> {
        self.blocks(me, |w| of_rank(self.copy_of(w)))
    }

    /// Scratch for one tile column, used for inverses. For those from L and U, ranks have more.
    pub fn panels(&self, me: usize) -> (Blocks<'_, T>, Blocks<'_, T>) {
        let (m, widest) = (self.problem.m, self.sizes.columns().widest());
        let leading = panel_rows(m);
        let has_more = self.sizes.is_rank && self.options.routine.has(Stage::LuInverse);
        let more = if has_more { more_elements(m, widest) } else { 0 };
        let panels = self.common_blocks(me, 0, leading * widest);
        let more = self.common_blocks(me, leading * widest, more);
        (panels.part(|one| one.by_columns(m, widest, leading)), more)
    }

    /// The rank with a worker's copy of what all ranks have: its own, or the first where workers
    /// share memory.
    pub(super) fn copy_of(&self, worker: usize) -> usize {
        if self.sizes.is_rank { worker } else { 0 }
    }

    pub(super) fn x(&self, rank: usize) -> &Buffer {
        let rets = self.options.routine.signature.rets;
        &self.calls[rank].rets[Signature::find(rets, Kind::Rhs).expect("a solve has an x")]
    }

    /// Right-hand sides, which solutions overwrite.
    pub fn x_block(&self, rank: usize) -> Cells<'_, T> {
        self.x(rank).by_rows()
    }

    /// The factor that the call takes, as a worker has it.
    pub(super) fn factor(&self, worker: &impl Worker<T>) -> DistMatrix<'_, T> {
        let args = self.options.routine.signature.args;
        let position = Signature::find(args, Kind::Factor).expect("a factor");
        let layout = Storage::column_major(self.sizes.distribution.shard());
        let shards = self.calls.iter().map(|call| call.args[position].cells(&layout)).collect();
        DistMatrix::new(shards, &self.sizes.distribution).seen_from(worker.here())
    }

    /// The coefficients of reflectors, as every worker has them: operand or result.
    pub(super) fn coefficients(&self, me: usize) -> Blocks<'_, T> {
        let Signature { args, rets } = self.options.routine.signature;
        self.replicated(me, |rank| {
            let call = &self.calls[rank];
            let operand = Signature::find(args, Kind::Coefficients).map(|i| &call.args[i]);
            let result = || Signature::find(rets, Kind::Coefficients).map(|i| &call.rets[i]);
            operand.or_else(result).expect("coefficients").column()
        })
    }

    /// The result of that name on a rank, a matrix by rows.
    pub(super) fn result_of_rank(&self, rank: usize, name: &str) -> Cells<'_, T> {
        let slots = self.options.routine.signature.rets;
        let position = slots.iter().position(|s| s.name == name).expect("a result of that name");
        self.calls[rank].rets[position].by_rows()
    }

    /// The same for that of which a worker has a copy.
    pub(super) fn result_block(&self, worker: usize, name: &str) -> Cells<'_, T> {
        self.result_of_rank(self.copy_of(worker), name)
    }

    /// The operand of that name, with as many columns as right-hand sides.
    pub fn operand_block(&self, rank: usize, name: &str) -> Cells<'_, T> {
        let slots = self.options.routine.signature.args;
        let position = slots.iter().position(|s| s.name == name).expect("an operand of that name");
        self.calls[rank].args[position].by_rows()
    }

    /// Whether a worker changes its copy of what all ranks have. Where workers share memory, one does.
    pub(super) fn has_copy(&self, worker: &impl Worker<T>) -> bool {
        self.copy_of(worker.worker()) == worker.worker()
    }

    /// The row interchanges, as every worker has them: operand, result, or the call's own.
    pub fn pivots(&self, me: usize) -> Blocks<'_, i32> {
        self.blocks(me, |w| self.pivots_of(w))
    }

    pub(super) fn pivots_of(&self, worker: usize) -> Cells<'_, i32> {
        let (call, signature) = (&self.calls[self.copy_of(worker)], self.options.routine.signature);
        let operand = Signature::find(signature.args, Kind::Pivots).map(|i| &call.args[i]);
        let result = Signature::find(signature.rets, Kind::Pivots).map(|i| &call.rets[i]);
        let own = || self.call_memory.region(&self.sizes, Region::Pivots(worker));
        operand.or(result).map_or_else(own, Buffer::column)
    }

    /// The largest moduli of all workers, from those that each has found. All workers meet.
    pub(super) fn find(&self, worker: &mut impl Worker<T>, mine: Moduli) -> Step<Moduli> {
        let [column, entry] = worker.all_reduce([mine.column, mine.entry], larger)?;
        let all = Moduli { column, entry };
        // Every worker writes the same.
        self.found().moduli = all;
        Ok(all)
    }

    /// What workers that have met have found.
    pub(super) fn found(&self) -> MutexGuard<'_, Found<T>> {
        self.found.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The current `info`. Workers that have met agree on it.
    pub fn info(&self) -> usize {
        self.comm.info().max(self.info_given)
    }

    /// The diagonal of the matrix, from the first entry to the last, on worker 0. All workers meet at
    /// its beginning.
    pub fn diagonal(&self, worker: &mut impl Worker<T>) -> Step<Option<Vec<T>>> {
        worker.barrier()?;
        if worker.worker() != 0 {
            return Ok(None);
        }
        let (a, mut entries) = (self.a(worker), vec![T::ZERO; self.problem.n]);
        for t in a.columns().each() {
            let tile = worker.fetch(a.remote_tile(t.row(), t).diagonal())?;
            let rows = a.columns().tile(t).rows();
            worker.get(tile, &mut entries[rows.start.get()..rows.end.get()])?;
        }
        Ok(Some(entries))
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
    let is_tall = options.routine.family == Family::Tsqr;
    CallStats {
        routine: options.routine.name,
        dtype: T::DTYPE.name(),
        n: if is_tall { problem.m.min(problem.n) } else { problem.n },
        rhs: if is_tall || options.routine.has_rhs() { problem.rhs } else { 0 },
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

/// Row interchanges from the caller must be valid row numbers, and the same on all ranks.
fn check_pivots(
    memory: &dyn Memory,
    routine: &SolverRoutine,
    calls: &[Call],
    n: usize,
) -> Result<()> {
    let Some(position) = Signature::find(routine.signature.args, Kind::Pivots) else {
        return Ok(());
    };
    // SAFETY: *order*, as no worker has begun.
    let read = |call: &Call| unsafe { memory::read(memory, call.args[position].column::<i32>()) };
    let rows = read(&calls[0])?;
    for call in &calls[1..] {
        if read(call)? != rows {
            return Err(Error::invalid(format!(
                "meshsolve.{}: pivots: expected the same on all devices, got others on rank {}; pass \
                 the pivots of the factorisation, replicated",
                routine.name, call.rank
            )));
        }
    }
    check_rows(routine.name, &rows, n)
}
