//! The routine `posv`: solves A X = B for a Hermitian positive definite A that is sharded by rows.
//!
//! Operands: a `[n/P, n]` (rows of A, row-major), b `[n, k]`: equal on all ranks (`rhs="replicated"`)
//! or k columns of a wider B per rank (`rhs="columns"`). Results: the work array `[n/P, n]` (aliased
//! with a), x `[n, k]` (aliased with b), info `[]`. Attributes: `lower` (0/1: the triangle of A that
//! is read), `rhs`, `order` ("auto", "natural", "cyclic"), `tile` (0: chosen here).
//!
//! A row-major shard of rows of A is a column-major shard of columns of B = A^T = conj(A): nothing is
//! transposed. A's upper triangle is B's lower one. Name and `info` are LAPACK's.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{factor, mirror_triangle, solve_columns, solve_shared};
use crate::backend::host::{HostLane, Scratch, Team, lane_count, scratch_elements};
use crate::backend::{Backend, Step};
use crate::call::{Attributes, Buffer, Call, Job};
use crate::dispatch;
use crate::dist::redistribute::{Plan, redistribute};
use crate::error::{Error, Result};
use crate::layout::{Columns, Order};
use crate::matrix::{Block, Matrix};
use crate::routines::{Configured, Routine};
use crate::scalar::{DType, Scalar};
use crate::settings;
use crate::stats::{self, CallStats};

pub const ROUTINE: Routine = Routine {
    name: "posv",
    summary: "solve A X = B, A Hermitian positive definite, sharded by rows",
    configure,
};

/// Widest group of right-hand sides that one lane takes at a time.
const RHS_GROUP: usize = 192;

/// How B is spread over the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhs {
    Replicated,
    Columns,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    lower: bool,
    rhs: Rhs,
    order: Order,
    tile: Option<usize>,
}

/// Width of the tile columns for an n x n matrix over `ranks`: wide enough for the product kernels,
/// narrow enough that panels are a small part of the work. Measured, not timed at run time.
pub fn tile_width(n: usize, dtype: DType) -> usize {
    let wide = match dtype {
        DType::C128 => 96,
        _ => 128,
    };
    if n < 1536 { 64 } else { wide }
}

fn configure(attributes: &dyn Attributes) -> Result<Box<dyn Configured>> {
    let bad = |name: &str, expected: &str, got: String| {
        Error::invalid(format!(
            "meshsolve.posv: attribute `{name}`: expected {expected}, got {got}"
        ))
    };
    let lower = match attributes.int("lower").unwrap_or(0) {
        0 => false,
        1 => true,
        other => return Err(bad("lower", "0 or 1", other.to_string())),
    };
    let rhs = match attributes.text("rhs").as_deref() {
        Some("replicated") => Rhs::Replicated,
        Some("columns") => Rhs::Columns,
        other => return Err(bad("rhs", "\"replicated\" or \"columns\"", format!("{other:?}"))),
    };
    // Every lane of the host reaches every shard, so the cyclic order gains nothing there and costs
    // a pass over the matrix: "auto" stays with the natural one (DESIGN.md has the figures).
    let order = match attributes.text("order").as_deref() {
        None | Some("auto" | "natural") => Order::Natural,
        Some("cyclic") => Order::Cyclic,
        Some(other) => {
            return Err(bad("order", "\"auto\", \"natural\" or \"cyclic\"", format!("{other:?}")));
        }
    };
    let tile = match attributes.int("tile").unwrap_or(0) {
        0 => None,
        t @ 1..=8192 => Some(t as usize),
        other => return Err(bad("tile", "a width from 1 to 8192, or 0", other.to_string())),
    };
    Ok(Box::new(Options { lower, rhs, order, tile }))
}

/// The checked sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub n: usize,
    pub ranks: usize,
    /// Right-hand sides per rank.
    pub rhs: usize,
    pub dtype: DType,
}

impl Problem {
    /// Checks every buffer of every rank; `calls` is in rank order.
    pub fn new(calls: &[Call]) -> Result<Problem> {
        let first = &calls[0];
        let (&[.., n], &[_, rhs]) = (
            first.args.first().map_or(&[][..], |a| &a.dims[..]),
            first.args.get(1).map_or(&[][..], |b| &b.dims[..]),
        ) else {
            return Err(Error::invalid(
                "meshsolve.posv: operands: expected place int32[2], a [n/P, n] and b [n, k]",
            ));
        };
        let (ranks, dtype) = (calls.len(), first.args[0].dtype);
        if !n.is_multiple_of(ranks) {
            return Err(Error::invalid(format!(
                "meshsolve.posv: a: expected n divisible by the {ranks} devices of the mesh axis, got \
                 n = {n}; pad A with an identity corner or use fewer devices"
            )));
        }
        for Call { rank, args, rets, .. } in calls {
            let names = ["a", "b", "work", "x", "info"];
            let dims = [&[n / ranks, n][..], &[n, rhs], &[n / ranks, n], &[n, rhs], &[]];
            let dtypes = [dtype, dtype, dtype, dtype, DType::S32];
            if args.len() != 2 || rets.len() != 3 {
                return Err(Error::invalid(format!(
                    "meshsolve.posv: rank {rank}: expected operands place, a, b and results work, x, \
                     info; got {} operands and {} results",
                    args.len() + 1,
                    rets.len()
                )));
            }
            for (i, buffer) in args.iter().chain(rets).enumerate() {
                buffer.check(
                    "posv",
                    &format!("{} of rank {rank}", names[i]),
                    dtypes[i],
                    dims[i],
                )?;
            }
        }
        Ok(Problem { n, ranks, rhs, dtype })
    }
}

impl Configured for Options {
    fn prepare(&self, calls: Vec<Call>, since: Instant) -> Result<Arc<dyn Job>> {
        let problem = Problem::new(&calls)?;
        dispatch!(problem.dtype, T => Ok(Arc::new(Posv::<T>::new(*self, problem, calls, since)?)),
        else => Err(Error::invalid(format!(
            "meshsolve.posv: a: expected float32, float64, complex64 or complex128, got {}",
            problem.dtype.name()
        ))))
    }
}

struct Posv<T> {
    options: Options,
    problem: Problem,
    calls: Vec<Call>,
    a: Matrix<T>,
    plan: Option<Plan>,
    team: Team,
    since: Instant,
    phases: Mutex<Vec<(&'static str, f64)>>,
    /// The lanes' packed panels of `pack` elements each, then staging columns of the redistribution,
    /// which make way for the lanes' partial sums.
    scratch: Scratch<T>,
    pack: usize,
    group: usize,
}

impl<T: Scalar> Posv<T> {
    fn new(options: Options, problem: Problem, calls: Vec<Call>, since: Instant) -> Result<Self> {
        let Problem { n, ranks, rhs, dtype } = problem;
        let tile = options.tile.unwrap_or_else(|| tile_width(n, dtype));
        let columns = Columns::new(n, ranks, tile, options.order);
        let most_lanes = lane_count(ranks, settings::threads());
        // Right-hand sides that a lane takes at a time: every lane gets some.
        let group = rhs.div_ceil(most_lanes.div_ceil(ranks)).clamp(1, RHS_GROUP);
        let groups = if options.rhs == Rhs::Columns { ranks * rhs.div_ceil(group) } else { 0 };
        let lanes = most_lanes.min(columns.count().max(groups).max(1));
        let plan =
            (options.order == Order::Cyclic && ranks > 1).then(|| Plan::new(&columns, lanes));
        let staging = plan.as_ref().map_or(0, |p| p.staging_columns() * n);
        let sums = if options.rhs == Rhs::Replicated { lanes * n * rhs } else { 0 };
        let pack = scratch_elements::<T>(columns.widest());
        let bases: Vec<*mut T> = calls.iter().map(|c| c.rets[0].ptr.cast()).collect();
        Ok(Posv {
            a: Matrix::new(&bases, columns),
            plan,
            team: Team::new(lanes),
            scratch: Scratch::new(staging.max(sums) + lanes * pack)?,
            pack,
            group,
            phases: Mutex::new(vec![("wait", since.elapsed().as_secs_f64())]),
            options,
            problem,
            calls,
            since,
        })
    }

    /// Scratch that the phases share, past the lanes' own.
    fn shared_scratch(&self, element: usize) -> *mut T {
        self.scratch.at(self.team.lanes() * self.pack + element)
    }

    fn x_of(&self, rank: usize) -> Block<T> {
        let Problem { n, rhs, .. } = self.problem;
        Block::row_major(self.calls[rank].rets[1].ptr.cast(), n, rhs, rhs)
    }

    /// One lane's part of the whole routine.
    fn steps(&self, lane: &mut HostLane<T>) -> Step {
        let started = Instant::now();
        self.start_results(lane)?;
        // B = A^T: the caller's upper triangle is the lower one of B.
        if self.options.lower {
            mirror_triangle(lane, &natural(&self.a))?;
        }
        if let Some(plan) = &self.plan {
            let staging = Block::column_major(
                self.shared_scratch(0),
                self.problem.n,
                plan.staging_columns(),
                self.problem.n,
            );
            redistribute(lane, &self.a, plan, staging)?;
        }
        let scale = self.largest_diagonal(lane);
        lane.keep_subnormals(near_underflow::<T>(&[scale]));
        // All lanes have seen the diagonal before any of them overwrites it.
        lane.barrier()?;
        let arranged = self.lap(lane, "arrange", started);
        factor(lane, &self.a)?;
        let factored = self.lap(lane, "factor", arranged);
        self.solve(lane, scale)?;
        lane.barrier()?;
        self.lap(lane, "solve", factored);
        Ok(())
    }

    /// Copies operands to results where XLA has not aliased them.
    fn start_results(&self, lane: &mut HostLane<T>) -> Step {
        if self.calls.iter().all(|c| c.is_aliased(0, 0) && c.is_aliased(1, 1)) {
            return Ok(());
        }
        for call in self.calls.iter().skip(lane.lane()).step_by(lane.lanes()) {
            call.pass_through(0, 0);
            call.pass_through(1, 1);
        }
        lane.barrier()
    }

    /// The largest entry of A: it is on the diagonal of a positive definite matrix.
    fn largest_diagonal(&self, lane: &mut HostLane<T>) -> f64 {
        let tiles = 0..self.a.columns.count();
        tiles.map(|t| lane.largest(self.a.diagonal(t).diagonal())).fold(0.0, f64::max)
    }

    fn solve(&self, lane: &mut HostLane<T>, scale: f64) -> Step {
        let Problem { n, ranks, rhs, .. } = self.problem;
        // B = conj(A): solve with conj(L).
        let conjugated = true;
        match self.options.rhs {
            Rhs::Replicated => {
                let sum =
                    |l: usize| Block::row_major(self.shared_scratch(l * n * rhs), n, rhs, rhs);
                let sums: Vec<_> = (0..lane.lanes()).map(sum).collect();
                if self.plan.is_some() {
                    // The scratch held columns before.
                    lane.fill(sums[lane.lane()], T::ZERO);
                }
                let x = self.x_of(0);
                let rhs_scale = lane.largest(x);
                // All lanes have seen b before any of them overwrites it.
                lane.barrier()?;
                lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                solve_shared(lane, &self.a, x, &sums, conjugated)
            }
            Rhs::Columns => {
                let groups = rhs.div_ceil(self.group);
                for g in (lane.lane()..ranks * groups).step_by(lane.lanes()) {
                    let first = g % groups * self.group;
                    let width = self.group.min(rhs - first);
                    let x = self.x_of(g / groups).sub(0, first, n, width);
                    let rhs_scale = lane.largest(x);
                    lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                    solve_columns(lane, &self.a, x, conjugated);
                }
                Ok(())
            }
        }
    }

    /// Lane 0 notes the seconds since `from` under `phase`.
    fn lap(&self, lane: &HostLane<T>, phase: &'static str, from: Instant) -> Instant {
        let now = Instant::now();
        if lane.lane() == 0 {
            let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner());
            phases.push((phase, (now - from).as_secs_f64()));
        }
        now
    }
}

impl<T: Scalar> Job for Posv<T> {
    fn lanes(&self) -> usize {
        self.team.lanes()
    }

    fn run(&self, lane: usize) -> Result<()> {
        let pack = Block::column_major(self.scratch.at(lane * self.pack), self.pack, 1, self.pack);
        let mut lane = HostLane::new(&self.team, lane, self.a.columns.widest(), pack);
        // A stop is no error here: whoever stopped the team has recorded why.
        let _ = self.steps(&mut lane);
        Ok(())
    }

    fn stop(&self) {
        self.team.stop();
    }

    fn finish(&self) -> Result<()> {
        let info = self.team.info() as i32;
        for (rank, call) in self.calls.iter().enumerate() {
            let x = &call.rets[1];
            if info != 0 {
                fill_nan::<T>(x);
            } else if self.options.rhs == Rhs::Replicated && rank > 0 {
                let solved = self.calls[0].rets[1].ptr;
                // SAFETY: equal shapes (checked), distinct results of XLA.
                unsafe { std::ptr::copy_nonoverlapping(solved, x.ptr, x.bytes()) };
            }
            // SAFETY: an int32 scalar (checked), written by this thread alone.
            unsafe { call.rets[2].ptr.cast::<i32>().write(info) };
        }
        self.record(info);
        Ok(())
    }
}

impl<T: Scalar> Posv<T> {
    fn record(&self, info: i32) {
        let lanes = self.team.lanes();
        let widest = self.a.columns.widest();
        let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner()).clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        stats::record(CallStats {
            routine: ROUTINE.name,
            dtype: T::DTYPE.name(),
            n: self.problem.n,
            rhs: self.problem.rhs,
            ranks: self.problem.ranks,
            lanes,
            tiles: self.a.columns.count(),
            tile: widest,
            scratch_bytes: self.scratch.bytes(),
            info,
            phases,
        });
    }
}

/// Whether quantities of one of these magnitudes lose digits when subnormal numbers are flushed.
fn near_underflow<T: Scalar>(magnitudes: &[f64]) -> bool {
    magnitudes.iter().any(|&m| m > 0.0 && m < T::NEAR_UNDERFLOW)
}

/// The same for what a solve goes through: A, b, y = L^-1 b and x = A^-1 b, by their least sizes.
fn solution_near_underflow<T: Scalar>(a: f64, b: f64) -> bool {
    near_underflow::<T>(&[a, b, b / a.sqrt(), b / a])
}

fn fill_nan<T: Scalar>(x: &Buffer) {
    let elements = x.dims.iter().product();
    if elements == 0 {
        return;
    }
    // SAFETY: a result of XLA of this dtype (checked) and size, written by this thread alone.
    unsafe { std::slice::from_raw_parts_mut(x.ptr.cast::<T>(), elements) }.fill(T::NAN);
}

/// The same shards before redistribution.
fn natural<T>(a: &Matrix<T>) -> Matrix<T> {
    let c = &a.columns;
    let columns = Columns::new(c.n(), c.ranks(), c.widest().max(1), Order::Natural);
    Matrix { shards: a.shards.clone(), columns }
}
