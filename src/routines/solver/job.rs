//! One call of a solver on the host: its memory, its lanes, and the steps that all families share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::condition::Norms;
use super::operands::{Kind, Problem, Signature};
use super::options::{Family, Options, Rhs, Structure, Verb};
use super::sizes::Sizes;
use super::{cholesky, lu, residual, triangular};
use crate::backend::host::{HostLane, Scratch, Team};
use crate::backend::{Backend, Op, Step, Triangle};
use crate::call::{Buffer, Call, Job};
use crate::dist::lu::Interchange;
use crate::dist::mirror::{Missing, mirror_triangle};
use crate::dist::redistribute::redistribute;
use crate::dist::transpose_shards::transpose_shards;
use crate::dist::transpose_square::transpose_square;
use crate::dist::triangular::Triangular;
use crate::error::{Error, Result};
use crate::layout::{Columns, Order};
use crate::matrix::{Block, Matrix};
use crate::scalar::{DType, Scalar};
use crate::stats::{self, CallStats};

pub struct Solver<T> {
    pub options: Options,
    pub problem: Problem,
    calls: Vec<Call>,
    sizes: Sizes,
    /// Columns of B where they are while they are worked on.
    pub a: Matrix<T>,
    pub(super) team: Team,
    since: Instant,
    phases: Mutex<Vec<(&'static str, f64)>>,
    /// Every lane's own, then what the phases share: scratch of the transposition, staging columns of
    /// the redistribution, the lanes' partial sums, one after another.
    scratch: Scratch<T>,
    /// Row interchanges where they are neither operand nor result.
    pivots: Mutex<Vec<i32>>,
    /// The bits of the largest magnitude that lanes have found.
    largest: AtomicU64,
    pub(super) norms: Norms<T>,
}

impl<T: Scalar> Solver<T> {
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
        let pivots = if options.verb.family == Family::Lu { problem.n } else { 0 };
        check_pivots(options.verb, &calls[0], problem.n)?;
        Ok(Solver {
            a: if options.verb.family.reads_only() {
                let shard = options.storage.as_columns(problem.n, problem.ranks);
                Matrix::laid_out(&bases, &shard, sizes.columns.clone())
            } else {
                Matrix::new(&bases, sizes.columns.clone())
            },
            team: Team::new(sizes.lanes),
            scratch: Scratch::new(sizes.scratch())?,
            phases: Mutex::new(vec![("wait", since.elapsed().as_secs_f64())]),
            pivots: Mutex::new(vec![0; pivots]),
            largest: AtomicU64::new(0),
            norms: Norms::new(&options, problem.n, sizes.row_sums)?,
            sizes,
            options,
            problem,
            calls,
            since,
        })
    }

    /// Scratch of one lane alone.
    pub fn own_scratch(&self, lane: usize) -> Block<T> {
        let own = self.sizes.own;
        Block::column_major(self.scratch.at(lane * own), own, 1, own)
    }

    /// Scratch that the phases share.
    pub(super) fn shared_scratch(&self, element: usize) -> *mut T {
        self.scratch.at(self.sizes.lanes * self.sizes.own + element)
    }

    /// The operand of a kind, on rank 0.
    pub(super) fn operand(&self, kind: Kind) -> Option<&Buffer> {
        let position = Signature::find(self.options.verb.signature.args, kind)?;
        Some(&self.calls[0].args[position])
    }

    fn x(&self, rank: usize) -> &Buffer {
        let rets = self.options.verb.signature.rets;
        &self.calls[rank].rets[Signature::find(rets, Kind::Rhs).expect("a solve has an x")]
    }

    /// Right-hand sides, where they become solutions.
    pub fn x_block(&self, rank: usize) -> Block<T> {
        self.columns_of(self.x(rank))
    }

    /// The operand of that name, as many columns as there are right-hand sides.
    pub fn operand_block(&self, rank: usize, name: &str) -> Block<T> {
        let slots = self.options.verb.signature.args;
        let position = slots.iter().position(|s| s.name == name).expect("an operand of that name");
        self.columns_of(&self.calls[rank].args[position])
    }

    fn columns_of(&self, buffer: &Buffer) -> Block<T> {
        let Problem { n, rhs, .. } = self.problem;
        Block::row_major(buffer.ptr.cast(), n, rhs, rhs)
    }

    /// The row interchanges: rank 0's operand or result, or the call's own.
    pub fn pivots(&self) -> Block<i32> {
        let result = Signature::find(self.options.verb.signature.rets, Kind::Pivots);
        let buffer = self.operand(Kind::Pivots).or(result.map(|i| &self.calls[0].rets[i]));
        let own = || self.pivots.lock().unwrap_or_else(|e| e.into_inner()).as_mut_ptr();
        let ptr = buffer.map_or_else(own, |b| b.ptr.cast());
        Block::column_major(ptr, self.problem.n, 1, self.problem.n)
    }

    /// The `info` of a factor that was made earlier, 0 if there is none among the operands.
    fn info_given(&self) -> usize {
        // SAFETY: an int32 scalar (checked), alive during the call.
        self.operand(Kind::Info).map_or(0, |b| unsafe { b.ptr.cast::<i32>().read() as usize })
    }

    /// `info` so far: lanes that have met agree on it.
    pub fn info(&self) -> usize {
        self.team.info().max(self.info_given())
    }

    /// One lane's part of the whole routine.
    fn steps(&self, lane: &mut HostLane<T>) -> Step {
        let mut time = Instant::now();
        self.start_results(lane)?;
        if self.options.verb.arrange {
            self.arrange(lane)?;
            time = self.lap(lane, "arrange", time);
        }
        match self.options.verb.family {
            Family::Cholesky => cholesky::steps(self, lane, &mut time)?,
            Family::Lu => lu::steps(self, lane, &mut time)?,
            Family::Triangular => triangular::steps(self, lane, &mut time)?,
            Family::Residual => residual::steps(self, lane)?,
        }
        if self.options.verb.restore {
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

    /// From the caller's memory to B, the triangle that is worked on given, columns in the order of
    /// work.
    fn arrange(&self, lane: &mut HostLane<T>) -> Step {
        self.transpose(lane)?;
        let Options { verb, storage, lower, structure, .. } = self.options;
        if verb.family == Family::Cholesky && storage.mirrors(lower) {
            mirror_triangle(lane, &self.natural(), Missing::Lower, true)?;
        }
        if verb.family == Family::Lu && structure != Structure::General {
            let conjugated = structure == Structure::Hermitian;
            mirror_triangle(lane, &self.natural(), self.missing(), conjugated)?;
        }
        self.redistribute(lane)
    }

    /// The reverse: the caller's triangle is given, too, and the shards are as he wants them.
    fn restore(&self, lane: &mut HostLane<T>) -> Step {
        self.redistribute(lane)?;
        let Options { verb, storage, lower, .. } = self.options;
        if verb.family == Family::Cholesky && storage.mirrors(lower) {
            mirror_triangle(lane, &self.natural(), Missing::Upper, true)?;
        }
        self.transpose(lane)
    }

    fn transpose(&self, lane: &mut HostLane<T>) -> Step {
        if let Some(turn) = &self.sizes.turn {
            let (own, shared) = (self.own_scratch(lane.lane()), self.shared_scratch(0));
            transpose_shards(lane, &self.a.bases(), turn, own, shared)?;
        }
        if self.options.verb.upright && self.options.storage.is_transpose() {
            transpose_square(lane, &self.natural())?;
        }
        Ok(())
    }

    fn redistribute(&self, lane: &mut HostLane<T>) -> Step {
        let Some(moves) = &self.sizes.moves else { return Ok(()) };
        let (n, columns) = (self.problem.n, moves.staging_columns());
        let staging = Block::column_major(self.shared_scratch(0), n, columns, n);
        redistribute(lane, &self.a, moves, staging)
    }

    /// The same shards before redistribution.
    fn natural(&self) -> Matrix<T> {
        let c = &self.a.columns;
        let columns = Columns::new(c.n(), c.ranks(), c.widest().max(1), Order::Natural);
        Matrix { shards: self.a.shards.clone(), columns }
    }

    /// The largest entry on the diagonal, without padding.
    pub fn largest_on_diagonal(&self, lane: &mut HostLane<T>) -> f64 {
        let of_tile = |t: usize| {
            let diagonal = self.a.diagonal(t).diagonal();
            let rows = self.unpadded().saturating_sub(self.a.columns.tile(t).global);
            lane.largest(diagonal.sub(0, 0, rows.min(diagonal.rows), 1))
        };
        (0..self.a.columns.count()).map(of_tile).fold(0.0, f64::max)
    }

    /// The largest entry anywhere, without padding; afterwards all lanes have met.
    pub fn largest(&self, lane: &mut HostLane<T>) -> Step<f64> {
        let mut largest = 0.0f64;
        for t in (lane.lane()..self.a.columns.count()).step_by(lane.lanes()) {
            let (tile, column) = (self.a.columns.tile(t), self.a.tile_column(t));
            let cols = self.unpadded().saturating_sub(tile.global).min(tile.width);
            largest = largest.max(lane.largest(column.sub(0, 0, self.unpadded(), cols)));
        }
        self.gather_largest(lane, largest)
    }

    /// The largest of all lanes' numbers, when they have met.
    pub(super) fn gather_largest(&self, lane: &mut HostLane<T>, largest: f64) -> Step<f64> {
        // Numbers that are not negative are ordered as their bits are.
        self.largest.fetch_max(largest.to_bits(), Ordering::AcqRel);
        lane.barrier()?;
        Ok(f64::from_bits(self.largest.load(Ordering::Acquire)))
    }

    /// Order of A without its padding.
    pub(super) fn unpadded(&self) -> usize {
        self.options.unpadded.unwrap_or(self.problem.n).min(self.problem.n)
    }

    /// The triangle of the solver's matrix that is not given, if only one is.
    pub fn missing(&self) -> Missing {
        let Options { verb, storage, lower, .. } = self.options;
        let flipped = storage.is_transpose() && !verb.upright;
        if lower == flipped { Missing::Lower } else { Missing::Upper }
    }

    /// What op(A) is on the solver's matrix, which is A^T by rows unless it was put upright.
    pub fn op_on_b(&self, op: Op) -> Op {
        let Options { verb, storage, .. } = self.options;
        match op {
            op if verb.upright || !storage.is_transpose() => op,
            Op::None => Op::Transpose,
            Op::Transpose => Op::None,
            Op::Adjoint => Op::Conjugate,
            Op::Conjugate => Op::Adjoint,
        }
    }

    /// The diagonal of the matrix, from the first entry to the last.
    pub fn diagonal(&self) -> impl Iterator<Item = T> {
        let tiles = (0..self.a.columns.count()).map(|t| self.a.diagonal(t).diagonal());
        // SAFETY: elements of a factor, which nobody writes while they are read.
        tiles.flat_map(|d| (0..d.rows).map(move |i| unsafe { d.sub(i, 0, 1, 1).ptr.read() }))
    }

    /// Solves for all right-hand sides by triangular solves, `scale` being the magnitude of A.
    pub fn solve(
        &self,
        lane: &mut HostLane<T>,
        sweeps: &[(Triangle, Op)],
        interchange: Option<Interchange>,
        scale: f64,
    ) -> Step {
        let n = self.problem.n;
        match self.options.rhs {
            Rhs::Replicated => {
                let (sums, x) = (self.sums(), self.x_block(0));
                let rhs_scale = lane.largest(x);
                // All lanes have seen b before any of them overwrites it.
                lane.barrier()?;
                lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                self.solve_shared(lane, x, &sums, sweeps, interchange, 0)?;
            }
            Rhs::Columns => {
                let sweep =
                    |&(triangle, op): &(Triangle, Op)| Triangular { a: &self.a, triangle, op };
                let sweeps: Vec<_> = sweeps.iter().map(sweep).collect();
                for (rank, first, width) in self.groups(lane) {
                    let x = self.x_block(rank).sub(0, first, n, width);
                    let rhs_scale = lane.largest(x);
                    lane.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                    self.interchange(lane, x, interchange, Interchange::Before);
                    sweeps.iter().for_each(|sweep| sweep.solve_columns(lane, x));
                    self.interchange(lane, x, interchange, Interchange::After);
                }
            }
        }
        lane.barrier()
    }

    /// Every lane's partial sums of a few right-hand sides.
    pub fn sums(&self) -> Vec<Block<T>> {
        let Problem { n, rhs, .. } = self.problem;
        let sum = |l: usize| Block::row_major(self.shared_scratch(l * n * rhs), n, rhs, rhs);
        (0..self.sizes.lanes).map(sum).collect()
    }

    /// The groups of many right-hand sides that a lane works on: (rank, first column, columns).
    pub fn groups(&self, lane: &HostLane<T>) -> Vec<(usize, usize, usize)> {
        let (Problem { ranks, rhs, .. }, group) = (self.problem, self.sizes.group);
        let groups = rhs.div_ceil(group);
        let mine = (Backend::<T>::lane(lane)..ranks * groups).step_by(Backend::<T>::lanes(lane));
        let part = |g: usize| {
            let first = g % groups * group;
            (g / groups, first, group.min(rhs - first))
        };
        mine.map(part).collect()
    }

    /// Solves for x by triangular solves with all lanes; then lane 0 knows it. `earlier`: sweeps that this
    /// call has made before.
    pub(super) fn solve_shared(
        &self,
        lane: &mut HostLane<T>,
        x: Block<T>,
        sums: &[Block<T>],
        sweeps: &[(Triangle, Op)],
        interchange: Option<Interchange>,
        earlier: usize,
    ) -> Step {
        let is_first = lane.lane() == 0;
        if is_first {
            self.interchange(lane, x, interchange, Interchange::Before);
        }
        for (done, &(triangle, op)) in sweeps.iter().enumerate() {
            Triangular { a: &self.a, triangle, op }.solve_shared(lane, x, sums, earlier + done)?;
        }
        lane.barrier()?;
        if is_first {
            self.interchange(lane, x, interchange, Interchange::After);
        }
        Ok(())
    }

    /// Interchanges rows of x if it is time to.
    fn interchange(
        &self,
        lane: &mut HostLane<T>,
        x: Block<T>,
        wanted: Option<Interchange>,
        now: Interchange,
    ) {
        if wanted == Some(now) {
            lane.swap_rows(x, 0, self.pivots(), now == Interchange::After);
        }
    }

    /// Lane 0 notes the seconds since `from` under `phase`.
    pub fn lap(&self, lane: &HostLane<T>, phase: &'static str, from: Instant) -> Instant {
        let now = Instant::now();
        if Backend::<T>::lane(lane) == 0 {
            let mut phases = self.phases.lock().unwrap_or_else(|e| e.into_inner());
            phases.push((phase, (now - from).as_secs_f64()));
        }
        now
    }

    /// Gives a real number as the result of that kind, on all ranks.
    pub fn give_real(&self, value: f64) {
        for buffer in self.results(Kind::Real) {
            match T::DTYPE.real() {
                // SAFETY: a real scalar (checked), written by this thread alone.
                DType::F32 => unsafe { buffer.ptr.cast::<f32>().write(value as f32) },
                // SAFETY: as above.
                _ => unsafe { buffer.ptr.cast::<f64>().write(value) },
            }
        }
    }

    /// Gives the numbers that are results, in their order, on all ranks.
    pub fn give_values(&self, values: &[T]) {
        for (i, buffer) in self.results(Kind::Value).enumerate() {
            // SAFETY: a scalar of this dtype (checked), written by this thread alone.
            unsafe { buffer.ptr.cast::<T>().write(values[i % values.len()]) };
        }
    }

    /// Whether any result is a number of the matrix's dtype.
    pub fn gives_values(&self) -> bool {
        self.results(Kind::Value).next().is_some()
    }

    /// All results of a kind, rank by rank.
    fn results(&self, kind: Kind) -> impl Iterator<Item = &Buffer> {
        let slots = self.options.verb.signature.rets;
        let all = self.calls.iter().flat_map(move |call| slots.iter().zip(&call.rets));
        all.filter(move |(slot, _)| slot.kind == kind).map(|(_, buffer)| buffer)
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
            scratch_bytes: self.sizes.scratch_bytes::<T>(),
            info,
            phases,
        });
    }
}

impl<T: Scalar> Job for Solver<T> {
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
        let info = self.info() as i32;
        let verb = self.options.verb;
        if verb.solve && info == 0 && self.options.rhs == Rhs::Replicated {
            share(self.results(Kind::Rhs));
        }
        share(self.results(Kind::Pivots));
        let invalid = |kind, is| if is { Some(self.results(kind)) } else { None };
        let solutions = invalid(Kind::Rhs, info != 0);
        let restored = invalid(Kind::Matrix, info != 0 && verb.restore && !verb.upright);
        solutions
            .into_iter()
            .flatten()
            .chain(restored.into_iter().flatten())
            .for_each(fill_nan::<T>);
        for buffer in self.results(Kind::Info) {
            // SAFETY: an int32 scalar (checked), written by this thread alone.
            unsafe { buffer.ptr.cast::<i32>().write(info) };
        }
        match verb.family {
            _ if verb.condition => self.give_real(self.rcond()),
            _ if verb.norm => self.give_real(self.norm()),
            Family::Cholesky => cholesky::finish(self),
            Family::Lu => lu::finish(self),
            Family::Triangular | Family::Residual => {}
        }
        self.record(info);
        Ok(())
    }
}

/// Row interchanges that are handed over must name rows.
fn check_pivots(verb: &Verb, call: &Call, n: usize) -> Result<()> {
    let Some(position) = Signature::find(verb.signature.args, Kind::Pivots) else { return Ok(()) };
    let first = call.args[position].ptr.cast::<i32>();
    // SAFETY: as many int32 as rows (checked), which nobody writes during the call.
    let mut rows = (0..n).map(|i| unsafe { first.add(i).read() });
    match rows.position(|row| usize::try_from(row).is_err() || row as usize >= n) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!(
            "meshsolve.{}: pivots: expected row numbers from 0 to {}, got {} at position {at}; pass \
             the pivots of the factorisation",
            verb.name,
            n - 1,
            // SAFETY: as above.
            unsafe { first.add(at).read() }
        ))),
    }
}

/// Copies what rank 0 has to the others.
fn share<'a>(mut results: impl Iterator<Item = &'a Buffer>) {
    let Some(first) = results.next() else { return };
    for other in results {
        // SAFETY: equal shapes (checked), distinct results of XLA.
        unsafe { std::ptr::copy_nonoverlapping(first.ptr, other.ptr, first.bytes()) };
    }
}

/// Whether quantities of this magnitude lose digits when subnormal numbers are flushed.
pub fn near_underflow<T: Scalar>(magnitude: f64) -> bool {
    magnitude > 0.0 && magnitude < T::NEAR_UNDERFLOW
}

/// The same for what a solve goes through: A, b, y = L^-1 b and x = A^-1 b, by their least sizes b,
/// b / sqrt(a) and b / a, which are not computed, as they would be flushed themselves.
fn solution_near_underflow<T: Scalar>(a: f64, b: f64) -> bool {
    let least = a.sqrt().max(a).max(1.0);
    near_underflow::<T>(a) || b > 0.0 && b < T::NEAR_UNDERFLOW * least
}

fn fill_nan<T: Scalar>(x: &Buffer) {
    let elements = x.dims.iter().product();
    if elements == 0 {
        return;
    }
    // SAFETY: a result of XLA of this dtype (checked) and size, written by this thread alone.
    unsafe { std::slice::from_raw_parts_mut(x.ptr.cast::<T>(), elements) }.fill(T::NAN);
}
