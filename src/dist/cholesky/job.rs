//! One call of a Cholesky routine on the host: its memory, its lanes, its steps.

use std::sync::Mutex;
use std::time::Instant;

use super::forecast::Sizes;
use super::operands::{Kind, Problem, Signature};
use super::verbs::{Options, Rhs};
use super::{factor, mirror_triangle, solve_columns, solve_shared};
use crate::backend::host::{HostLane, Scratch, Team};
use crate::backend::{Backend, Step};
use crate::call::{Buffer, Call, Job};
use crate::dist::redistribute::redistribute;
use crate::dist::transpose_shards::transpose_shards;
use crate::error::Result;
use crate::layout::{Columns, Order, Storage};
use crate::matrix::{Block, Matrix};
use crate::scalar::{DType, Scalar};
use crate::stats::{self, CallStats};

pub struct Cholesky<T> {
    options: Options,
    problem: Problem,
    calls: Vec<Call>,
    sizes: Sizes,
    /// Columns of B where they are while they are worked on.
    a: Matrix<T>,
    team: Team,
    since: Instant,
    phases: Mutex<Vec<(&'static str, f64)>>,
    /// Every lane's own, then what the phases share: scratch of the transposition, staging columns of
    /// the redistribution, the lanes' partial sums, one after another.
    scratch: Scratch<T>,
}

impl<T: Scalar> Cholesky<T> {
    pub fn new(
        options: Options,
        problem: Problem,
        calls: Vec<Call>,
        since: Instant,
    ) -> Result<Self> {
        let sizes = Sizes::new::<T>(&options, &problem);
        let Signature { args, rets } = options.verb.signature;
        let base = |call: &Call| match Signature::find(rets, Kind::Matrix) {
            Some(result) => call.rets[result].ptr.cast(),
            None => call.args[Signature::find(args, Kind::Matrix).expect("a matrix")].ptr.cast(),
        };
        let bases: Vec<*mut T> = calls.iter().map(base).collect();
        Ok(Cholesky {
            a: Matrix::new(&bases, sizes.columns.clone()),
            team: Team::new(sizes.lanes),
            scratch: Scratch::new(sizes.scratch())?,
            phases: Mutex::new(vec![("wait", since.elapsed().as_secs_f64())]),
            sizes,
            options,
            problem,
            calls,
            since,
        })
    }

    /// Scratch of one lane alone.
    fn own_scratch(&self, lane: usize) -> Block<T> {
        let own = self.sizes.own;
        Block::column_major(self.scratch.at(lane * own), own, 1, own)
    }

    /// Scratch that the phases share.
    fn shared_scratch(&self, element: usize) -> *mut T {
        self.scratch.at(self.sizes.lanes * self.sizes.own + element)
    }

    fn x(&self, rank: usize) -> &Buffer {
        let rets = self.options.verb.signature.rets;
        &self.calls[rank].rets[Signature::find(rets, Kind::Rhs).expect("a solve has an x")]
    }

    fn x_block(&self, rank: usize) -> Block<T> {
        let Problem { n, rhs, .. } = self.problem;
        Block::row_major(self.x(rank).ptr.cast(), n, rhs, rhs)
    }

    /// The `info` of a factor that was made earlier, 0 if there is none among the operands.
    fn info_given(&self) -> usize {
        let position = Signature::find(self.options.verb.signature.args, Kind::Info);
        // SAFETY: an int32 scalar (checked), alive during the call.
        position.map_or(0, |i| unsafe { self.calls[0].args[i].ptr.cast::<i32>().read() as usize })
    }

    /// One lane's part of the whole routine.
    fn steps(&self, lane: &mut HostLane<T>) -> Step {
        let verb = self.options.verb;
        let mut time = Instant::now();
        self.start_results(lane)?;
        if verb.arrange {
            self.arrange(lane)?;
        }
        let scale = if verb.factor || verb.solve { self.scale(lane)? } else { 0.0 };
        if verb.arrange {
            time = self.lap(lane, "arrange", time);
        }
        if verb.factor {
            factor(lane, &self.a)?;
            time = self.lap(lane, "factor", time);
        }
        if verb.arrange && !verb.solve && self.conjugates_factor() {
            lane.barrier()?;
            self.conjugate(lane)?;
        }
        if verb.solve {
            self.solve(lane, scale)?;
            lane.barrier()?;
            time = self.lap(lane, "solve", time);
        }
        if verb.restore {
            self.restore(lane)?;
            self.lap(lane, "restore", time);
        }
        Ok(())
    }

    /// Copies operands to results where XLA has not aliased them.
    fn start_results(&self, lane: &mut HostLane<T>) -> Step {
        let rets = self.options.verb.signature.rets.iter().enumerate();
        let pairs: Vec<_> = rets.filter_map(|(ret, slot)| Some((slot.from?, ret))).collect();
        let aliased = |c: &Call| pairs.iter().all(|&(arg, ret)| c.is_aliased(arg, ret));
        if self.calls.iter().all(aliased) {
            return Ok(());
        }
        for call in self.calls.iter().skip(lane.lane()).step_by(lane.lanes()) {
            pairs.iter().for_each(|&(arg, ret)| call.pass_through(arg, ret));
        }
        lane.barrier()
    }

    /// From the caller's memory to B, its lower triangle given, columns in the order of work.
    fn arrange(&self, lane: &mut HostLane<T>) -> Step {
        if let Some(turn) = &self.sizes.turn {
            let (own, shared) = (self.own_scratch(lane.lane()), self.shared_scratch(0));
            transpose_shards(lane, &self.a.bases(), turn, own, shared)?;
        }
        if self.options.storage.mirrors(self.options.lower) {
            mirror_triangle(lane, &natural(&self.a), false)?;
        }
        self.redistribute(lane)
    }

    /// The reverse: the caller's triangle is given, too, and the shards are as he wants them.
    fn restore(&self, lane: &mut HostLane<T>) -> Step {
        if self.conjugates_factor() {
            self.conjugate(lane)?;
        }
        self.redistribute(lane)?;
        if self.options.storage.mirrors(self.options.lower) {
            mirror_triangle(lane, &natural(&self.a), true)?;
        }
        if let Some(turn) = &self.sizes.turn {
            let (own, shared) = (self.own_scratch(lane.lane()), self.shared_scratch(0));
            transpose_shards(lane, &self.a.bases(), turn, own, shared)?;
        }
        Ok(())
    }

    fn redistribute(&self, lane: &mut HostLane<T>) -> Step {
        let Some(moves) = &self.sizes.moves else { return Ok(()) };
        let (n, columns) = (self.problem.n, moves.staging_columns());
        let staging = Block::column_major(self.shared_scratch(0), n, columns, n);
        redistribute(lane, &self.a, moves, staging)
    }

    /// A factor reads as U^H U = A whatever the storage: of B = A, not conj(A), that is conj(L).
    fn conjugates_factor(&self) -> bool {
        T::IS_COMPLEX && self.options.storage == Storage::Columns
    }

    /// Conjugates B's lower triangle; afterwards all lanes have met.
    fn conjugate(&self, lane: &mut HostLane<T>) -> Step {
        for t in (lane.lane()..self.a.columns.count()).step_by(lane.lanes()) {
            let column = self.a.tile_column(t).rows_from(self.a.columns.tile(t).global);
            lane.conjugate(column);
        }
        lane.barrier()
    }

    /// The largest entry of A, which decides about subnormal numbers: it is on the diagonal of a
    /// positive definite matrix. Of a factor, the largest square on the diagonal stands for it.
    fn scale(&self, lane: &mut HostLane<T>) -> Step<f64> {
        let order = self.options.unpadded.unwrap_or(self.problem.n);
        let mut of_tile = |t: usize| {
            let diagonal = self.a.diagonal(t).diagonal();
            let rows = order.saturating_sub(self.a.columns.tile(t).global).min(diagonal.rows);
            lane.largest(diagonal.sub(0, 0, rows, 1))
        };
        let largest = (0..self.a.columns.count()).map(&mut of_tile).fold(0.0, f64::max);
        let scale = if self.options.verb.factor { largest } else { largest * largest };
        lane.keep_subnormals(near_underflow::<T>(&[scale]));
        // All lanes have seen the diagonal before any of them overwrites it.
        lane.barrier()?;
        Ok(scale)
    }

    fn solve(&self, lane: &mut HostLane<T>, scale: f64) -> Step {
        let Problem { n, ranks, rhs, .. } = self.problem;
        // With B = A^T = conj(A), and with a factor that stands for one: solve with conj(L).
        let storage = self.options.storage;
        let conjugated =
            storage.is_transpose() || storage == Storage::Columns && !self.options.verb.factor;
        match self.options.rhs {
            Rhs::Replicated => {
                let sum =
                    |l: usize| Block::row_major(self.shared_scratch(l * n * rhs), n, rhs, rhs);
                let sums: Vec<_> = (0..lane.lanes()).map(sum).collect();
                if self.sizes.moves.is_some() {
                    // The scratch held columns before.
                    lane.fill(sums[lane.lane()], T::ZERO);
                }
                let x = self.x_block(0);
                let rhs_scale = lane.largest(x);
                // All lanes have seen b before any of them overwrites it.
                lane.barrier()?;
                lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                solve_shared(lane, &self.a, x, &sums, conjugated)
            }
            Rhs::Columns => {
                let groups = rhs.div_ceil(self.sizes.group);
                for g in (lane.lane()..ranks * groups).step_by(lane.lanes()) {
                    let first = g % groups * self.sizes.group;
                    let width = self.sizes.group.min(rhs - first);
                    let x = self.x_block(g / groups).sub(0, first, n, width);
                    let rhs_scale = lane.largest(x);
                    lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                    solve_columns(lane, &self.a, x, conjugated);
                }
                Ok(())
            }
        }
    }

    /// `2 sum log L_ii`.
    fn logdet(&self) -> f64 {
        let log = |t: usize| {
            let diagonal = self.a.diagonal(t).diagonal();
            let at = |i: usize| diagonal.ptr.wrapping_add(i * diagonal.row_stride);
            // SAFETY: elements of the factor, which nobody writes during the call.
            (0..diagonal.rows).map(|i| unsafe { at(i).read() }.magnitude().ln()).sum::<f64>()
        };
        2.0 * (0..self.a.columns.count()).map(log).sum::<f64>()
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

    fn record(&self, info: i32) {
        let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner()).clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        stats::record(CallStats {
            routine: self.options.verb.name,
            dtype: T::DTYPE.name(),
            n: self.problem.n,
            rhs: self.problem.rhs,
            ranks: self.problem.ranks,
            lanes: self.team.lanes(),
            tiles: self.a.columns.count(),
            tile: self.a.columns.widest(),
            scratch_bytes: self.scratch.bytes(),
            info,
            phases,
        });
    }
}

impl<T: Scalar> Job for Cholesky<T> {
    fn lanes(&self) -> usize {
        self.team.lanes()
    }

    fn run(&self, lane: usize) -> Result<()> {
        let widest = self.a.columns.widest();
        let mut lane = HostLane::new(&self.team, lane, widest, self.own_scratch(lane));
        if self.info_given() == 0 {
            // A stop is no error here: whoever stopped the team has recorded why.
            let _ = self.steps(&mut lane);
        }
        Ok(())
    }

    fn stop(&self) {
        self.team.stop();
    }

    fn finish(&self) -> Result<()> {
        let info = self.team.info().max(self.info_given()) as i32;
        let verb = self.options.verb;
        let asked = Signature::find(verb.signature.rets, Kind::Real).is_some();
        let logdet = if asked && info == 0 { self.logdet() } else { f64::NAN };
        for (rank, call) in self.calls.iter().enumerate() {
            if verb.solve {
                let x = self.x(rank);
                if info != 0 {
                    fill_nan::<T>(x);
                } else if self.options.rhs == Rhs::Replicated && rank > 0 {
                    // SAFETY: equal shapes (checked), distinct results of XLA.
                    unsafe { std::ptr::copy_nonoverlapping(self.x(0).ptr, x.ptr, x.bytes()) };
                }
            }
            if verb.restore && info != 0 {
                fill_nan::<T>(&call.rets[0]);
            }
            if let Some(result) = Signature::find(verb.signature.rets, Kind::Info) {
                // SAFETY: an int32 scalar (checked), written by this thread alone.
                unsafe { call.rets[result].ptr.cast::<i32>().write(info) };
            }
            if let Some(result) = Signature::find(verb.signature.rets, Kind::Real) {
                let to = call.rets[result].ptr;
                match T::DTYPE.real() {
                    // SAFETY: a real scalar (checked), written by this thread alone.
                    DType::F32 => unsafe { to.cast::<f32>().write(logdet as f32) },
                    // SAFETY: as above.
                    _ => unsafe { to.cast::<f64>().write(logdet) },
                }
            }
        }
        self.record(info);
        Ok(())
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
