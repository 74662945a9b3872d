//! One worker of a call on CPU devices: the `Backend` of a thread. `traced.rs` adds its trace.
//!
//! The trailing update packs both factors of its products into contiguous scratch. First it packs
//! the tiles that multiply the panel, for as many of the worker's tile columns as fit. Then it
//! packs the panel, a block of rows at a time. That block stays in the second-level cache and
//! serves all tiles. Packing matters because columns are n elements apart; with n a power of two
//! they all map to the same few cache sets. Of wide tiles (`options.rs`) only one fits. A block of
//! the panel would serve that one alone, so it is not packed.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use faer::dyn_stack::MemBuffer;

use super::blas;
use super::float_mode::FloatMode;
use super::getrf::{Panel, swap_rows};
use super::members::Members;
use super::norm;
use crate::comm::{Communicator, Group, Signal, Step, Stopped};
use crate::device::in_new_order;
use crate::device::{Backend, Moduli, Op, Squares, Triangle, Update};
use crate::error::Error;
use crate::log::{self, Event};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;
use crate::transpose::Square;
use crate::{settings, transpose};

/// Bytes of packed panel that a worker keeps in cache.
const PACK_BYTES: usize = 512 << 10;
/// Bytes of tiles that are packed at a time. They multiply the panel.
const TILES_BYTES: usize = 640 << 10;
/// Bytes between packed columns, so they do not all map to the same sets of the first-level cache.
const LINE: usize = 64;
/// A substitution with fewer columns than this does not pack: so few fit in one set of a cache.
const NARROWEST_PRODUCT: usize = 8;
/// Interval of progress reports; the first comes after it.
const LONG: Duration = Duration::from_secs(1);

/// Workers of a call over `ranks` devices on a machine with `threads` threads: equally many for
/// each rank. With more ranks than threads there is one worker a thread.
pub fn worker_count(ranks: usize, threads: usize) -> usize {
    if ranks >= threads { threads.max(1) } else { ranks * (threads / ranks) }
}

/// Rows of the panel that are packed at a time, for tiles of `width` columns.
fn packed_rows<T>(width: usize) -> usize {
    let rows = PACK_BYTES / (width.max(1) * size_of::<T>());
    (rows / 64 * 64).clamp(64, 1024)
}

/// Elements of scratch that the workers share while they transpose `shards` shards.
pub fn shared_elements<T>(plan: &transpose::Plan, shards: usize) -> usize {
    shards * plan.shared_bytes().div_ceil(size_of::<T>())
}

/// This worker's share of the units of all shards, as (shard, units). Units number through all
/// shards, and a share is one run of them.
fn shares(
    units: usize,
    shards: usize,
    worker: usize,
    workers: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let all = units * shards;
    let (first, end) = (all * worker / workers, all * (worker + 1) / workers);
    let within =
        move |unit: usize, rank: usize| unit.clamp(rank * units, (rank + 1) * units) - rank * units;
    let share = move |rank| (rank, within(first, rank)..within(end, rank));
    (0..shards).map(share).filter(|(_, units)| !units.is_empty())
}

/// Elements of a packed panel, or of a square tile.
fn packed_elements<T>(width: usize) -> usize {
    (packed_rows::<T>(width).max(width) + LINE / size_of::<T>()) * width
}

/// Elements of a worker's scratch for packing, for so many tile columns of `width` columns.
pub fn scratch_elements<T>(width: usize, tiles: usize) -> usize {
    let most = TILES_BYTES / (width * width).max(1) / size_of::<T>();
    packed_elements::<T>(width) + tiles.clamp(1, most.max(1)) * width * width
}

pub struct Untraced<'a, T> {
    comm: &'a Communicator,
    worker: usize,
    pack_rows: usize,
    pack: Block<T>,
    widest: usize,
    /// Memory for packed tiles.
    tiles: Block<T>,
    potrf: MemBuffer,
    since: Instant,
}

impl<'a, T: Scalar> Untraced<'a, T> {
    /// `scratch` is contiguous memory of `scratch_elements(widest_tile, ..)` elements, only for
    /// this worker.
    pub fn new(
        comm: &'a Communicator,
        worker: usize,
        widest_tile: usize,
        scratch: Block<T>,
    ) -> Self {
        let packed = packed_elements::<T>(widest_tile);
        Untraced {
            comm,
            worker,
            pack_rows: packed_rows::<T>(widest_tile),
            pack: scratch.sub(0, 0, packed, 1),
            widest: widest_tile,
            tiles: scratch.rows_from(packed),
            potrf: blas::potrf_scratch::<T>(widest_tile),
            since: Instant::now(),
        }
    }

    /// This worker's scratch as a block.
    fn packing(&self, rows: usize, cols: usize) -> Block<T> {
        let apart = rows + LINE / size_of::<T>();
        assert!(apart * cols <= self.pack.rows, "a packed block fits its scratch");
        Block::column_major(self.pack.ptr, rows, cols, apart)
    }

    fn packed(&mut self, from: Block<T>) -> Block<T> {
        let to = self.packing(from.rows, from.cols);
        // SAFETY: `to` is this worker's own scratch, `from` a published panel.
        unsafe { blas::copy(from, to) };
        to
    }

    /// `X <- op(A)^-1 X` without packing X.
    fn substitute(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
        // faer multiplies by reciprocals of the diagonal. The computation of a complex one, or of
        // that of a very large number, has subnormal numbers, which must not be flushed to zero.
        let mode = FloatMode::current();
        if !triangle.has_ones() {
            FloatMode::IEEE.enter();
        }
        // SAFETY: this worker owns X, and A is published.
        unsafe { blas::trsm(a, triangle, op, x) };
        mode.enter();
    }

    /// `Backend::update_rows` for at most as many targets as packed tiles fit.
    fn update_some(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: &[usize],
        update: Update,
        within: &Range<usize>,
    ) {
        let (panel, of_panel) = (a.tile_column(k), a.columns.tile(k));
        let (first_row, end_row) = match update {
            Update::Cholesky => (a.columns.tile(targets[0]).global, panel.rows),
            Update::Lu => (of_panel.global + of_panel.width, panel.rows),
            Update::Above => (0, of_panel.global),
        };
        let (first_row, end_row) = (first_row.max(within.start), end_row.min(within.end));
        if first_row >= end_row {
            return;
        }
        let (tiles, size) = (self.tiles, self.widest * self.widest);
        let other = |index: usize, j: usize| {
            let memory = tiles.rows_from(index * size);
            Block::column_major(memory.ptr, panel.cols, a.columns.tile(j).width, panel.cols)
        };
        for (index, &j) in targets.iter().enumerate() {
            // SAFETY: this worker's own scratch, a published panel and this worker's own tile.
            unsafe {
                match update {
                    Update::Cholesky => blas::mirror(a.tile(j, k), other(index, j), false, true),
                    Update::Lu | Update::Above => blas::copy(a.tile(k, j), other(index, j)),
                }
            }
        }
        // Blocks of rows start at multiples of their height for every target. So the arithmetic
        // does not depend on which worker does it.
        let aligned = first_row / self.pack_rows * self.pack_rows;
        for start in (aligned..end_row).step_by(self.pack_rows) {
            // The next wait would notice, but an update of a large matrix takes a second.
            if self.comm.is_stopped() {
                return;
            }
            let (top, end) = (start.max(first_row), (start + self.pack_rows).min(end_row));
            let rows = panel.sub(top, 0, end - top, panel.cols);
            // For a single product the copy costs more than it saves.
            let rows = if targets.len() > 1 { self.packed(rows) } else { rows };
            for (index, &j) in targets.iter().enumerate() {
                let from = match update {
                    Update::Cholesky => top.max(a.columns.tile(j).global),
                    Update::Lu | Update::Above => top,
                };
                if from >= end {
                    break;
                }
                let c = a.tile_column(j);
                let c = c.sub(from, 0, end - from, c.cols);
                let rows = rows.rows_from(from - top);
                // SAFETY: this worker's own tile column and scratch.
                unsafe { blas::gemm(c, -T::ONE, rows, Op::None, other(index, j), Op::None) };
            }
        }
    }
}

// SAFETY (all unsafe calls in this impl): the algorithms in `algorithms` keep the contract of
// `blas`. They name for every phase the worker that owns a block.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<T: Scalar> Backend<T> for Untraced<'_, T> {
    const IS_RANK: bool = false;
    const FLUSHES: bool = true;

    fn worker(&self) -> usize {
        self.worker
    }

    fn workers(&self) -> usize {
        self.comm.workers()
    }

    fn potrf(&mut self, a: Block<T>, before: usize) -> Step {
        let done = unsafe { blas::potrf(a, &mut self.potrf) };
        done.map_err(|minor| self.comm.give_up(before + minor + 1))
    }

    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>) {
        // X L^H = A is conj(L) X^T = A^T.
        for row in (0..x.rows).step_by(self.pack_rows) {
            let x = x.sub(row, 0, self.pack_rows.min(x.rows - row), x.cols);
            let packed = self.packed(x);
            unsafe {
                blas::trsm(l, Triangle::Lower, Op::Conjugate, packed.transposed());
                blas::copy(packed, x);
            }
        }
    }

    fn trsm_right(&mut self, a: Block<T>, triangle: Triangle, x: Block<T>) {
        for row in (0..x.rows).step_by(self.pack_rows) {
            let x = x.sub(row, 0, self.pack_rows.min(x.rows - row), x.cols);
            let packed = self.packed(x);
            self.substitute(a, triangle, Op::Transpose, packed.transposed());
            self.copy(packed, x);
        }
    }

    fn trtri(&mut self, a: Block<T>, triangle: Triangle) {
        let inverse = self.packing(a.rows, a.rows);
        self.fill(inverse, T::ZERO);
        self.fill(inverse.diagonal(), T::ONE);
        self.substitute(a, triangle, Op::Transpose, inverse.transposed());
        unsafe { blas::copy_triangle(inverse, a, triangle) };
    }

    fn trmm(&mut self, a: Block<T>, triangle: Triangle, alpha: T, x: Block<T>) {
        let packed = self.packed(x);
        unsafe { blas::trmm(x, alpha, a, triangle, packed) };
    }

    fn getrf(
        &mut self,
        panel: Block<T>,
        first: usize,
        pivots: Block<i32>,
        group: &mut Group,
    ) -> Step {
        let members = Members::new(self.comm, self.worker, group);
        let rows = members.rows(first, panel.rows);
        let leads = members.index == 0;
        let panel = Panel { a: panel, pivots, rows, members, unusable: None };
        let unusable = unsafe { panel.factor()? };
        if leads {
            unsafe { blas::slice_mut(pivots) }.iter_mut().for_each(|row| *row += first as i32);
            unusable.into_iter().for_each(|column| self.report(first + column + 1));
        }
        Ok(())
    }

    fn swap_rows(&mut self, x: Block<T>, first: usize, pivots: Block<i32>, back: bool) {
        unsafe { swap_rows(x, first, blas::slice(pivots), back) };
    }

    fn interchanged(&mut self, pivots: Block<i32>) -> Step<Vec<usize>> {
        Ok(in_new_order(unsafe { blas::slice(pivots) }))
    }

    fn update(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
    ) {
        self.update_rows(a, k, targets, update, 0..a.columns.n());
    }

    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        mut targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        within: Range<usize>,
    ) {
        let most = (self.tiles.rows / (self.widest * self.widest).max(1)).max(1);
        loop {
            let some: Vec<usize> = targets.by_ref().take(most).collect();
            if some.is_empty() {
                return;
            }
            self.update_some(a, k, &some, update, &within);
        }
    }

    fn trsm(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
        let fits = (x.rows + LINE / size_of::<T>()) * x.cols <= self.pack.rows;
        if x.row_stride != 1 || x.cols < NARROWEST_PRODUCT || !fits {
            return self.substitute(a, triangle, op, x);
        }
        let packed = self.packed(x);
        self.substitute(a, triangle, op, packed);
        self.copy(packed, x);
    }

    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>) {
        unsafe { blas::gemm(c, alpha, a, op, b, Op::None) };
    }

    fn add(&mut self, c: Block<T>, s: Block<T>) {
        unsafe { blas::add(c, s) };
    }

    fn largest(&mut self, x: Block<T>) -> Step<f64> {
        Ok(unsafe { blas::largest(x) })
    }

    fn moduli(&mut self, x: Block<T>, rows: Option<Block<f64>>) -> Step<Moduli> {
        Ok(unsafe { norm::moduli(x, rows) })
    }

    fn add_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        unsafe { norm::add_moduli(x, sums) };
    }

    fn squares(&mut self, x: Block<T>) -> Step<Squares> {
        Ok(unsafe { norm::squares(x) })
    }

    fn hermitian_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        unsafe { norm::hermitian_moduli(x, sums) };
    }

    fn keep_subnormals(&mut self, keep: bool) {
        if keep { FloatMode::IEEE.enter() } else { FloatMode::FLUSH.enter() }
    }

    fn copy(&mut self, from: Block<T>, to: Block<T>) {
        unsafe { blas::copy(from, to) };
    }

    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool, conjugated: bool) {
        unsafe { blas::mirror(from, to, diagonal, conjugated) };
    }

    fn fill(&mut self, to: Block<T>, value: T) {
        unsafe { blas::fill(to, value) };
    }

    fn clear_outside(&mut self, a: Block<T>, triangle: Triangle) {
        unsafe { blas::clear_outside(a, triangle) };
    }

    fn conjugate(&mut self, x: Block<T>) {
        unsafe { blas::conjugate(x) };
    }

    fn get(&mut self, from: Block<T>, to: &mut [T]) -> Step {
        assert_eq!(to.len(), from.rows * from.cols, "as many elements");
        let to = Block::row_major(to.as_mut_ptr(), from.rows, from.cols, from.cols);
        unsafe { blas::copy(from, to) };
        Ok(())
    }

    fn put(&mut self, from: &[T], to: Block<T>) {
        assert_eq!(from.len(), to.rows * to.cols, "as many elements");
        let from = Block::row_major(from.as_ptr().cast_mut(), to.rows, to.cols, to.cols);
        unsafe { blas::copy(from, to) };
    }

    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[*mut T],
        own: Block<T>,
        shared: *mut T,
    ) -> Step {
        assert!(own.rows * size_of::<T>() >= plan.scratch_bytes(), "scratch of a transposition");
        for phase in 0..plan.phases() {
            for (rank, units) in
                shares(plan.units(phase), shards.len(), self.worker, self.workers())
            {
                let shared = shared.wrapping_add(shared_elements::<T>(plan, rank)).cast();
                let (shard, own) = (shards[rank].cast(), own.ptr.cast());
                unsafe { transpose::run_units(plan, phase, units, shard, own, shared) };
            }
            self.barrier()?;
        }
        if plan.phases() == 0 { self.barrier() } else { Ok(()) }
    }

    fn transpose_square(&mut self, a: &Matrix<T>) -> Step {
        let square = Square::new(a.columns.n(), a.columns.ranks(), size_of::<T>());
        let (units, workers) = (square.units(), self.workers());
        let share = |worker: usize| (units as u128 * worker as u128 / workers as u128) as usize;
        // A column of the matrix is a row for `transpose`.
        let part = |rank: usize| a.shards[rank].ptr.cast();
        unsafe { square.run(share(self.worker)..share(self.worker + 1), part) };
        self.barrier()
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        self.comm.signal(signal).announce(count);
    }

    fn wait(&mut self, signal: Signal, count: usize) -> Step {
        self.comm.signal(signal).wait(count)
    }

    fn sharers(&self, rows: usize) -> usize {
        let sharing = self.comm.sharing();
        self.comm.workers().min(sharing.workers).min(rows / sharing.rows).max(1)
    }

    fn group_barrier_cost(&self) -> f64 {
        let width = size_of::<f64>() as f64 / size_of::<T::Real>() as f64;
        self.comm.sharing().barrier_cost * if T::IS_COMPLEX { width / 4.0 } else { width }
    }

    fn group_barrier(&mut self, group: &mut Group) -> Step {
        Members::new(self.comm, self.worker, group).barrier()
    }

    fn barrier(&mut self) -> Step {
        self.comm.barrier().wait()
    }

    fn fail(&mut self, error: Error) -> Stopped {
        self.comm.fail(error)
    }

    fn report(&mut self, info: usize) {
        self.comm.report(info);
    }

    fn progress(&mut self, done: usize, total: usize) {
        let printed = settings::log_progress();
        if self.worker == 0 && (printed || log::is_on()) && report_is_due() {
            if printed {
                eprintln!("meshsolve: rank 0: panel {done} of {total}");
            }
            if self.since.elapsed() >= LONG {
                log::tell(|| Event::Panel { done, total });
            }
        }
    }
}

/// At most one report each `LONG`, in the whole process.
fn report_is_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(|e| e.into_inner());
    let due = last.is_none_or(|last| last.elapsed() >= LONG);
    if due {
        *last = Some(Instant::now());
    }
    due
}
