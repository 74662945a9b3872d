//! One lane of a call on the host: the `Backend` of a thread.
//!
//! The trailing update goes by blocks of rows: the block of the panel is packed once into contiguous
//! scratch that stays in the second-level cache and then serves every tile column of the lane. Packing
//! matters because a panel's columns lie n elements apart; with n a power of two they all fall into
//! the same few cache sets.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use faer::dyn_stack::MemBuffer;

use super::blas;
use super::float_mode::FloatMode;
use super::team::Team;
use crate::backend::{Backend, Op, Signal, Step, Stopped};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;
use crate::transpose;

/// Bytes of packed panel that a lane keeps in cache.
const PACK_BYTES: usize = 512 << 10;

/// Lanes of a call over `ranks` devices on a machine that offers `threads`: equally many for each
/// rank, or as many as there are threads when there are more ranks than that.
pub fn lane_count(ranks: usize, threads: usize) -> usize {
    if ranks >= threads { threads.max(1) } else { ranks * (threads / ranks) }
}

/// Rows of the panel that are packed at a time, for tiles of `width` columns.
fn packed_rows<T>(width: usize) -> usize {
    let rows = PACK_BYTES / (width.max(1) * size_of::<T>());
    (rows / 64 * 64).clamp(64, 1024)
}

/// Elements of scratch that a lane packs panels into, for tiles of `width` columns.
pub fn scratch_elements<T>(width: usize) -> usize {
    packed_rows::<T>(width) * width
}

pub struct HostLane<'a, T> {
    team: &'a Team,
    lane: usize,
    pack_rows: usize,
    pack: Block<T>,
    potrf: MemBuffer,
}

impl<'a, T: Scalar> HostLane<'a, T> {
    /// `pack` is contiguous memory of `scratch_elements(widest_tile)` elements for this lane alone.
    pub fn new(team: &'a Team, lane: usize, widest_tile: usize, pack: Block<T>) -> Self {
        HostLane {
            team,
            lane,
            pack_rows: packed_rows::<T>(widest_tile),
            pack,
            potrf: blas::potrf_scratch::<T>(widest_tile),
        }
    }

    fn packed(&mut self, from: Block<T>) -> Block<T> {
        let to = Block::column_major(self.pack.ptr, from.rows, from.cols, from.rows);
        assert!(from.rows * from.cols <= self.pack.rows, "a packed block fits its scratch");
        // SAFETY: `to` is this lane's own scratch, `from` a published panel.
        unsafe { blas::copy(from, to) };
        to
    }
}

// SAFETY (all unsafe calls in this impl): the contract of `blas` is kept by the algorithms in `dist`,
// which name for every phase the lane that owns a block.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<T: Scalar> Backend<T> for HostLane<'_, T> {
    fn lane(&self) -> usize {
        self.lane
    }

    fn lanes(&self) -> usize {
        self.team.lanes()
    }

    fn potrf(&mut self, a: Block<T>) -> Result<(), usize> {
        unsafe { blas::potrf(a, &mut self.potrf) }
    }

    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>) {
        // X L^H = A is conj(L) X^T = A^T.
        for row in (0..x.rows).step_by(self.pack_rows) {
            let x = x.sub(row, 0, self.pack_rows.min(x.rows - row), x.cols);
            let packed = self.packed(x);
            unsafe {
                blas::trsm(l, Op::Conjugate, packed.transposed());
                blas::copy(packed, x);
            }
        }
    }

    fn update(&mut self, a: &Matrix<T>, k: usize, targets: impl Iterator<Item = usize> + Clone) {
        let panel = a.tile_column(k);
        let Some(first) = targets.clone().next() else { return };
        let first_row = a.columns.tile(first).global;
        // Blocks of rows start at multiples of their height, whatever the target, so that the
        // arithmetic does not depend on which lane does it.
        let aligned = first_row / self.pack_rows * self.pack_rows;
        for start in (aligned..panel.rows).step_by(self.pack_rows) {
            let (top, end) = (start.max(first_row), (start + self.pack_rows).min(panel.rows));
            let rows = self.packed(panel.sub(top, 0, end - top, panel.cols));
            for j in targets.clone() {
                let tile = a.columns.tile(j);
                if tile.global >= end {
                    break;
                }
                let from = tile.global.max(top);
                let c = a.tile_column(j).sub(from, 0, end - from, tile.width);
                let b = panel.sub(tile.global, 0, tile.width, panel.cols);
                let a = rows.rows_from(from - top);
                unsafe { blas::gemm(c, -T::ONE, a, Op::None, b, Op::Adjoint) };
            }
        }
    }

    fn trsm(&mut self, l: Block<T>, op: Op, x: Block<T>) {
        unsafe { blas::trsm(l, op, x) };
    }

    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>) {
        unsafe { blas::gemm(c, alpha, a, op, b, Op::None) };
    }

    fn add(&mut self, c: Block<T>, s: Block<T>) {
        unsafe { blas::add(c, s) };
    }

    fn largest(&mut self, x: Block<T>) -> f64 {
        unsafe { blas::largest(x) }
    }

    fn keep_subnormals(&mut self, keep: bool) {
        if keep { FloatMode::IEEE.enter() } else { FloatMode::FLUSH.enter() }
    }

    fn copy(&mut self, from: Block<T>, to: Block<T>) {
        unsafe { blas::copy(from, to) };
    }

    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool) {
        unsafe { blas::mirror(from, to, diagonal) };
    }

    fn fill(&mut self, to: Block<T>, value: T) {
        unsafe { blas::fill(to, value) };
    }

    fn conjugate(&mut self, x: Block<T>) {
        unsafe { blas::conjugate(x) };
    }

    fn transpose(
        &mut self,
        plan: &transpose::Plan,
        phase: usize,
        units: Range<usize>,
        shard: *mut T,
        own: Block<T>,
        shared: *mut T,
    ) {
        assert!(own.rows * size_of::<T>() >= plan.scratch_bytes(), "scratch of a transposition");
        let (own, shared) = (own.ptr.cast(), shared.cast());
        unsafe { transpose::run_units(plan, phase, units, shard.cast(), own, shared) };
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        self.team.signal(signal).announce(count);
    }

    fn wait(&mut self, signal: Signal, count: usize) -> Step {
        self.team.signal(signal).wait(count)
    }

    fn barrier(&mut self) -> Step {
        self.team.barrier().wait()
    }

    fn give_up(&mut self, info: usize) -> Stopped {
        self.team.give_up(info)
    }

    fn progress(&mut self, done: usize, total: usize) {
        if self.lane == 0 && crate::settings::log_progress() && report_is_due() {
            eprintln!("meshsolve: rank 0: panel {done} of {total}");
        }
    }
}

/// At most once a second in the whole process.
fn report_is_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(|e| e.into_inner());
    let due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1));
    if due {
        *last = Some(Instant::now());
    }
    due
}
