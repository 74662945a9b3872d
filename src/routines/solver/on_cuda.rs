//! The solvers on CUDA devices: a worker is a rank, whose host thread enqueues the device's work.
//!
//! The host threads of all ranks meet once and share the call. From then on each of them reaches
//! its end, even after a failure, and waits there for the others. Thus no rank's memory is freed
//! while another device may still use it, and all ranks return the same.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::call_memory::CallMemory;
use super::engine::{self, CudaEngine};
use super::job::Solver;
use super::operands::{Problem, shard};
use super::options::Options;
use super::routine::{Family, Stage};
use super::sizes::{Machine, Sizes, band_width};
use super::stack;
use super::widths::{Shape, WHOLE_BY_ONE_RANK, cuda_tile_width, is_factored_whole};
use crate::algorithms::qr::tsqr::Extent;
use crate::call::{Buffer, Call, Job};
use crate::device::cpu::float_mode::FloatMode;
use crate::device::cuda::communicator::{CudaCommunicator, CudaMemory};
use crate::device::cuda::device::Device;
use crate::device::cuda::device::tools::Tools;
use crate::device::cuda::handle::Address;
use crate::device::cuda::rank_scratch::{Needs, RankScratch, blas_workspace};
use crate::device::cuda::seat::Seat;
use crate::device::cuda::transposition;
use crate::device::cuda::vendor::nccl::{Clique, Member};
use crate::device::cuda::vendor::solver::{Factorisation, Method};
use crate::device::cuda::warm;
use crate::device::cuda::worker::CudaWorker;
use crate::device::cuda::worker::columns::table_bytes;
use crate::device::cuda::worker::interchanges::moves_bytes;
use crate::dispatch;
use crate::error::{Error, Result};
use crate::layout::Mapping;
use crate::rendezvous::Hosts;
use crate::routines::{OnCuda, Part};
use crate::scalar::{DType, Scalar};
use crate::settings::Float64;

/// Whether a call only works on tiles of A in place, which the library factors.
fn only_factors(options: &Options) -> bool {
    options.routine.factors() && !options.routine.inverts()
}

impl Sizes {
    pub(super) fn on_cuda<T: Scalar>(
        options: &Options,
        problem: &Problem,
        device: &Device,
    ) -> Sizes {
        let (n, ranks) = (problem.n, problem.ranks());
        let machine = Machine {
            workers: ranks,
            least: ranks,
            is_rank: true,
            one_stage: false,
            mapping: if ranks > 1 { Mapping::BlockCyclic } else { Mapping::Block },
            tile: engine::of(options).tile(options, problem).unwrap_or_else(|| {
                let (dtype, family) = (problem.dtype, options.routine.family);
                let shape = Shape { n, ranks, dtype, family };
                match only_factors(options) && is_factored_whole(shape, WHOLE_BY_ONE_RANK) {
                    true => n,
                    false if family == Family::Eigen => band_width(options.routine, problem.n),
                    false => cuda_tile_width(device.architecture(), shape),
                }
            }),
            // The inverse of a tile.
            own: if options.routine.inverts() { |widest, _| widest * widest } else { |_, _| 0 },
            turn: |rows, cols| transposition::plan(rows, cols, size_of::<T>()),
            // The transposition has its own memory.
            turning: |_, _| (0, 0),
            is_vendors: engine::is_vendors,
        };
        Sizes::new(options, problem, &machine)
    }

    /// The needs of a rank in its device's memory, for a shard at `shard`.
    fn needs<T: Scalar>(
        &self,
        options: &Options,
        problem: &Problem,
        rank: usize,
        shard: Address,
        tools: &mut Tools,
        device: &Device,
    ) -> Result<Needs> {
        let (size, &Problem { m, n, rhs, .. }) = (size_of::<T>(), problem);
        let (ranks, all) = (problem.ranks(), self.columns());
        let (widest, count) = (all.widest(), all.count());
        let turns = [&self.arrange, &self.restore].map(|moves| moves.turn.as_ref());
        let turning = turns.map(|p| p.map_or(0, |p| transposition::scratch_bytes(p, shard)));
        let routine = options.routine;
        // A single tile needs no products, no broadcasts and no lookahead.
        let is_whole = only_factors(options) && count <= 1;
        let square = if is_whole { 0 } else { widest * widest };
        let estimate =
            if routine.estimates_condition() { crate::algorithms::condition::block(n) } else { 0 };
        // Columns of right-hand sides that one operation works on.
        let columns = self.group.min(rhs).max(rhs.min(self.shared / m.max(1))).max(estimate);
        // A norm reads its own shard.
        let shares = ranks > 1 && routine.family != Family::Norm;
        let is_lu = routine.family == Family::Lu;
        // What comes from other ranks: a tile, sums for its rows, or a product of all rows.
        let is_whole_column = routine.has(Stage::LuInverse) || routine.has(Stage::ToBand);
        let product = if is_whole_column { m } else { 0 };
        let fetched = if shares { widest * widest.max(columns).max(product) } else { 0 };
        // Rank 0 adds up the sums of all.
        let totals = if ranks > 1 && rank == 0 { self.sums } else { 0 };
        // Conjugates of the factors of x.
        let own = m * columns + widest * columns + square;
        // Inverses from L and U interchange columns in any order.
        let inverse = if routine.has(Stage::LuInverse) { table_bytes((n, 2 * n)) } else { 0 };
        let table = [&self.arrange, &self.restore]
            .into_iter()
            .filter_map(|moves| moves.columns.as_ref())
            .map(|plan| table_bytes(plan.most_lists()))
            .fold(inverse.max(ranks * size_of::<Address>()), usize::max);
        let arena = (own * size + 256).max(table);
        let extra = 2 * square * size + 256;
        // The number of tile columns that the library's own engine factors.
        let factors = |stage| match routine.has(stage) && !engine::is_vendors(options, stage) {
            true => count,
            false => 0,
        };
        let mine = |count: usize| {
            all.each().take(count).map(|t| all.tile(t)).filter(|tile| tile.rank == rank)
        };
        let of = |method, m, n, leading| Factorisation { method, m, n, leading };
        let tiles =
            mine(factors(Stage::Potrf)).map(|tile| of(Method::Potrf, tile.width, tile.width, m));
        let panels = mine(factors(Stage::Getrf))
            .map(|tile| of(Method::Getrf, m - tile.global.get(), tile.width, m));
        let reflected = mine(factors(Stage::Geqrf)).filter_map(|tile| {
            let rows = m.checked_sub(tile.global.get()).filter(|&rows| rows > 0)?;
            Some(of(Method::Geqrf, rows, tile.width.min(rows), m))
        });
        let order = options.unpadded.unwrap_or(n);
        let below = mine(factors(Stage::ToBand)).filter_map(|tile| {
            let rows = order.checked_sub(tile.global.get() + widest).filter(|&rows| rows > 0)?;
            Some(of(Method::Geqrf, rows, tile.width.min(rows), m))
        });
        let factorisations = tiles.chain(panels).chain(reflected).chain(below);
        let mut factorisations: BTreeSet<_> = factorisations.collect();
        if routine.family == Family::Tsqr {
            // B is A^T, or A on one device.
            let (of_a, rows) = ((m.max(n), m.min(n)), m.max(n) / ranks);
            let shapes: Vec<_> = match routine.has(Stage::Triangle) {
                true => stack::thin(of_a, ranks, size, true).shapes(),
                false => {
                    let order = of_a.1;
                    let (sides, workers) = (rhs, ranks);
                    let of = Extent { rows: of_a.0, order, sides, workers, size, is_rank: true };
                    let of = stack::tsqr(of);
                    // The rank with the first rows may leave these.
                    let fewer = rows.saturating_sub(order);
                    of.shapes(rows).chain(of.shapes(fewer)).collect()
                }
            };
            let shapes = shapes.into_iter();
            factorisations.extend(shapes.map(|(m, n, leading)| of(Method::Geqrf, m, n, leading)));
        }
        let is_sent = shares || sends(options, device) && !is_whole;
        let _entered = device.enter()?;
        let solver = &device.vendor()?.solver;
        Ok(Needs {
            own: self.own * size,
            shared: self.shared * size,
            sums: self.sums * size_of::<f64>(),
            pivots: self.pivots * size_of::<i32>(),
            arenas: [arena, extra],
            fetched: (fetched * size).max(totals * size_of::<f64>()),
            panel: if is_sent { m * widest * size } else { 0 },
            infos: count * size_of::<i32>(),
            panel_pivots: widest * size_of::<i64>(),
            moves: if is_lu { moves_bytes(m) } else { [0; 2] },
            moduli: 3 * widest.max(columns).max(32) * size_of::<f64>(),
            transposition: turning.into_iter().max().unwrap_or(0),
            blas: blas_workspace(m * (n / ranks) * size),
            solver: solver.workspace::<T>(&mut tools.solver, shard, &factorisations)?,
            engine: 0,
        })
    }
}

/// How a call that begins now multiplies.
fn float64_of<T: Scalar>(options: &Options, device: &Device) -> Float64 {
    match T::DTYPE.real() {
        DType::F64 => engine::of(options).float64(device.float64()),
        _ => Float64::Native,
    }
}

/// Whether NCCL may broadcast panels.
fn sends(options: &Options, device: &Device) -> bool {
    let is_own = |stage| options.routine.has(stage) && !engine::is_vendors(options, stage);
    let factors = [Stage::Potrf, Stage::Getrf, Stage::Geqrf, Stage::ToBand].into_iter().any(is_own);
    factors && device.cliques().is_some()
}

/// One rank's part of the call.
struct Brought {
    call: Call,
    seat: Seat,
    scratch: RankScratch,
    since: Instant,
}

/// The call that all ranks share.
struct Shared<T: Scalar> {
    solver: Solver<T>,
    engine: CudaEngine<T>,
    cuda_comm: Arc<CudaCommunicator>,
    clique: Option<Arc<Clique>>,
    /// Where ranks that have reached the end wait for the others.
    ends: Arc<Hosts>,
}

impl<T: Scalar> Shared<T> {
    fn new(options: Options, engine: CudaEngine<T>, brought: Vec<Brought>) -> Result<Self> {
        let calls: Vec<Call> = brought.iter().map(|b| b.call.clone()).collect();
        let problem = options.problem(calls.len(), &calls)?;
        let device = alike(&options, &brought)?;
        let sizes = Sizes::on_cuda::<T>(&options, &problem, &device);
        let since = brought.iter().map(|b| b.since).min().unwrap_or_else(Instant::now);
        let scratches: Vec<RankScratch> = brought.iter().map(|b| b.scratch).collect();
        let seats = brought.into_iter().map(|b| b.seat).collect();
        // Once for all ranks, so that they all multiply the same way.
        let cuda_comm = Arc::new(CudaCommunicator::new(seats, float64_of::<T>(&options, &device)));
        let memory = Box::new(CudaMemory(cuda_comm.clone()));
        // SAFETY: *memory*: scratch of `needs`, which XLA keeps until the handlers return.
        let call_memory =
            unsafe { CallMemory::on_devices(memory, scratches.clone(), cuda_comm.float64) };
        let solver = Solver::new(options, problem, calls, since, sizes, call_memory)?;
        let clique = clique(&options, &cuda_comm, &scratches)?;
        let ends = Hosts::new(options.routine.name, cuda_comm.seats.len(), None);
        Ok(Shared { solver, engine, cuda_comm, clique, ends })
    }

    /// One rank's part, to the end.
    fn run(&self, rank: usize, tools: Tools, scratch: RankScratch) -> Result<()> {
        let comm = &self.solver.comm;
        let clique = self.clique.as_deref();
        let caught = |panic: Box<dyn std::any::Any + Send>| {
            self.fail(rank, Error::from_panic("a rank of a call on CUDA devices", &*panic));
        };
        // After a panic outside of the steps, the tools are lost.
        let closed = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: *memory* of this call's operands and scratch, until the handlers return.
            // *Order*: `steps` is one routine, and each rank runs it once.
            let mut worker =
                unsafe { CudaWorker::new(comm, &self.cuda_comm, clique, rank, tools, scratch) };
            // A stop is no error here: the rank that stopped the call has recorded the reason.
            // XLA's threads flush subnormal numbers.
            let mode = FloatMode::current();
            FloatMode::IEEE.enter();
            let steps =
                catch_unwind(AssertUnwindSafe(|| self.solver.steps(&mut worker, &*self.engine)));
            mode.enter();
            steps.map_or_else(caught, drop);
            worker.close()
        }));
        let tools = closed.map_or_else(
            |panic| {
                caught(panic);
                None
            },
            |(closed, tools)| {
                closed.map_err(|error| self.fail(rank, error)).ok();
                Some(tools)
            },
        );
        let place = (rank, self.solver.calls[rank].device);
        let outcome = self.ends.gather((0, 0), place, (), |_| self.end());
        let device = &self.cuda_comm.seats[rank].device;
        match (comm.failure(), tools) {
            (None, Some(tools)) => device.keep(tools),
            // After a failure these tools are not used again, and a second failure helps no caller.
            (Some(_), Some(tools)) => drop(tools.destroy(device)),
            (_, None) => {}
        }
        outcome
    }

    fn fail(&self, rank: usize, error: Error) {
        self.solver.comm.fail(error);
        if let Some(clique) = &self.clique {
            clique.abort(self.cuda_comm.seats[rank].device.context());
        }
    }

    /// Finishes the call, after all ranks have reached its end.
    fn end(&self) -> Result<()> {
        let failure = self.solver.comm.failure();
        let closed = self.engine.close(failure.is_some());
        if let (Some(_), Some(cliques)) = (&self.clique, self.cuda_comm.seats[0].device.cliques()) {
            cliques.done();
        }
        failure.map_or_else(|| closed.and_then(|()| self.solver.finish()), Err)
    }
}

/// Communicators for the panels of a call, where NCCL broadcasts them.
fn clique(
    options: &Options,
    cuda_comm: &CudaCommunicator,
    scratches: &[RankScratch],
) -> Result<Option<Arc<Clique>>> {
    let device = &cuda_comm.seats[0].device;
    let cliques =
        device.cliques().filter(|_| sends(options, device) && scratches[0].needs.panel > 0);
    let Some(cliques) = cliques else { return Ok(None) };
    let members = cuda_comm.seats.iter().zip(scratches);
    let members: Vec<_> = members
        .map(|(seat, scratch)| Member {
            device: seat.device.context(),
            stream: seat.stream,
            at: scratch.panels[0],
        })
        .collect();
    // SAFETY: the panels are scratch of this call, which XLA keeps until the handlers return.
    unsafe { cliques.take(&members) }
}

/// A solver at one call site.
pub(super) struct CudaSolver {
    options: Options,
}

impl CudaSolver {
    pub(super) fn new(options: Options) -> CudaSolver {
        CudaSolver { options }
    }
}

impl OnCuda for CudaSolver {
    fn run(&self, part: &mut Part) -> Result<()> {
        let dtype = part.args().first().map_or(DType::F64, |a| a.dtype());
        dispatch!(dtype, T => run::<T>(self, part), else => Err(self.options.wrong_dtype(dtype)))
    }
}

fn run<T: Scalar>(site: &CudaSolver, part: &mut Part) -> Result<()> {
    let options = site.options;
    let since = Instant::now();
    let (rank, _) = part.place()?;
    let (args, rets) = (part.args().to_vec(), part.rets().to_vec());
    let call = Call::new(rank, part.number(), args, rets);
    let problem = options.problem(part.world, std::slice::from_ref(&call))?;
    let device = part.device().clone();
    let tile = || Sizes::on_cuda::<T>(&options, &problem, &device).columns().widest();
    let engine = engine::on_cuda::<T>(&options, &problem, tile, part, &call)?;
    let mut tools = device.tools()?;
    let bytes = engine.workspace(rank);
    let prepared = prepare::<T>(&options, &problem, part, call, &mut tools, bytes, since);
    let shared = prepared.and_then(|brought| {
        let scratch = brought.scratch;
        let make = |all| Shared::<T>::new(options, engine, all).map(Arc::new);
        Ok((part.gather(brought, make)?, scratch))
    });
    match shared {
        Ok((shared, scratch)) => shared.run(rank, tools, scratch),
        Err(error) => {
            device.keep(tools);
            Err(error)
        }
    }
}

/// One of the devices. All devices must have the same architecture, because all ranks use one plan.
fn alike(options: &Options, brought: &[Brought]) -> Result<Arc<Device>> {
    let devices: Vec<_> = brought.iter().map(|one| &one.seat.device).collect();
    let first = devices[0];
    match devices.iter().find(|device| device.architecture() != first.architecture()) {
        None => Ok(first.clone()),
        Some(other) => Err(Error::invalid(format!(
            "meshsolve.{}: devices: expected GPUs of one compute capability, got {} for {} and {} for {}; use \
             a mesh of equal devices",
            options.routine.name,
            first.architecture(),
            first.name(),
            other.architecture(),
            other.name(),
        ))),
    }
}

/// Takes the scratch of a rank.
fn prepare<T: Scalar>(
    options: &Options,
    problem: &Problem,
    part: &mut Part,
    call: Call,
    tools: &mut Tools,
    engine: usize,
    since: Instant,
) -> Result<Brought> {
    let device = part.device().clone();
    let sizes = Sizes::on_cuda::<T>(options, problem, &device);
    let mut needs = sizes.needs::<T>(options, problem, call.rank, shard(&call), tools, &device)?;
    needs.engine = engine;
    let bytes = needs.bytes();
    let lent = part.scratch(options.routine.name, bytes)?;
    let range = |b: &Buffer| {
        let first = b.as_ptr().addr() as Address;
        first..first + b.bytes().max(1) as Address
    };
    let mut memory: Vec<_> = call.args.iter().chain(&call.rets).map(range).collect();
    memory.push(lent..lent + bytes as Address);
    let scratch = needs.allocate(lent);
    if sends(options, &device) && needs.panel > 0 {
        let plans = [&sizes.arrange, &sizes.restore].map(|moves| moves.turn.as_ref());
        let plans: Vec<_> = plans.into_iter().flatten().collect();
        warm::load::<T>(&device, &plans, shard(&call))?;
        let is_lu = options.routine.family == Family::Lu;
        let (n, columns, rank) = (problem.m, sizes.columns(), call.rank);
        let first = columns.each().map(|t| columns.tile(t)).find(|tile| tile.rank == rank);
        let own = first.map(|tile| (n - tile.global.get(), tile.width));
        let panels = warm::PanelShape { n, width: columns.widest(), is_lu, own };
        let float64 = float64_of::<T>(options, &device);
        // SAFETY: this call's scratch and stream. The other ranks do not know them yet.
        unsafe {
            warm::use_handles::<T>(&device, tools, &scratch, panels, float64, part.stream())?
        };
    }
    let seat = Seat { device, stream: part.stream(), memory, engine: scratch.engine };
    Ok(Brought { call, seat, scratch, since })
}
