//! A worker with its trace: each operation that takes time is a span.

use std::ops::Range;
use std::time::Instant;

use super::worker::Untraced;
use crate::comm::{Communicator, Group, Signal, Step, Stopped};
use crate::device::{Backend, Moduli, Op, Squares, Triangle, Update};
use crate::error::Error;
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;
use crate::trace::{Of, WorkerTrace};
use crate::transpose;

pub struct CpuWorker<'a, T> {
    worker: Untraced<'a, T>,
    trace: Option<WorkerTrace<'a>>,
}

impl<'a, T: Scalar> CpuWorker<'a, T> {
    /// `scratch` has `scratch_elements(widest_tile, ..)` elements in one piece.
    ///
    /// # Safety
    /// *Order* (see [`Cells`]), for all operands of this worker's operations and its scratch, in
    /// memory of the CPU: the workers of `comm`, one of each number, run one routine on the same
    /// views. Operands of one operation do not overlap where it writes.
    pub unsafe fn new(
        comm: &'a Communicator,
        worker: usize,
        widest_tile: usize,
        scratch: Cells<'a, T>,
    ) -> Self {
        CpuWorker {
            // SAFETY: the caller promises it.
            worker: unsafe { Untraced::new(comm, worker, widest_tile, scratch) },
            trace: comm.trace().map(|call| call.worker(worker)),
        }
    }

    fn span<V>(
        &mut self,
        name: &'static str,
        of: Of,
        work: impl FnOnce(&mut Untraced<'a, T>) -> V,
    ) -> V {
        let Some(trace) = &mut self.trace else { return work(&mut self.worker) };
        let from = Instant::now();
        let done = work(&mut self.worker);
        trace.note(name, of, from);
        done
    }
}

impl<T: Scalar> Backend<T> for CpuWorker<'_, T> {
    const IS_RANK: bool = Untraced::<T>::IS_RANK;
    const FLUSHES: bool = Untraced::<T>::FLUSHES;

    fn worker(&self) -> usize {
        self.worker.worker()
    }

    fn workers(&self) -> usize {
        self.worker.workers()
    }

    fn potrf(&mut self, a: Cells<T>, first: GlobalRow) -> Step {
        self.span("potrf", Of::Next, |worker| worker.potrf(a, first))
    }

    fn trsm_panel(&mut self, l: Cells<T>, x: Cells<T>) {
        self.span("trsm panel", Of::Next, |worker| worker.trsm_panel(l, x));
    }

    fn trsm_right(&mut self, a: Cells<T>, triangle: Triangle, x: Cells<T>) {
        self.span("trsm right", Of::Next, |worker| worker.trsm_right(a, triangle, x));
    }

    fn trtri(&mut self, a: Cells<T>, triangle: Triangle) {
        self.span("trtri", Of::Next, |worker| worker.trtri(a, triangle));
    }

    fn trmm(&mut self, a: Cells<T>, triangle: Triangle, alpha: T, x: Cells<T>) {
        self.span("trmm", Of::Last, |worker| worker.trmm(a, triangle, alpha, x));
    }

    fn getrf(
        &mut self,
        panel: Cells<T>,
        first: GlobalRow,
        pivots: Cells<i32>,
        group: &mut Group,
    ) -> Step {
        self.span("getrf panel", Of::Next, |worker| worker.getrf(panel, first, pivots, group))
    }

    fn swap_rows(&mut self, x: Cells<T>, first: GlobalRow, pivots: Cells<i32>, back: bool) {
        self.span("swap rows", Of::Last, |worker| worker.swap_rows(x, first, pivots, back));
    }

    fn update(
        &mut self,
        a: &Matrix<T>,
        k: TileColumn,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
    ) {
        self.span("update", Of::Panel(k.get()), |worker| worker.update(a, k, targets, update));
    }

    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: TileColumn,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        rows: Range<GlobalRow>,
    ) {
        self.span("update", Of::Panel(k.get()), |worker| {
            worker.update_rows(a, k, targets, update, rows)
        });
    }

    fn trsm(&mut self, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) {
        self.span("trsm", Of::Last, |worker| worker.trsm(a, triangle, op, x));
    }

    fn gemm(&mut self, c: Cells<T>, alpha: T, a: Cells<T>, op: Op, b: Cells<T>) {
        self.span("gemm", Of::Last, |worker| worker.gemm(c, alpha, a, op, b));
    }

    fn largest(&mut self, x: Cells<T>) -> Step<f64> {
        self.span("largest entry", Of::Call, |worker| worker.largest(x))
    }

    fn moduli(&mut self, x: Cells<T>, rows: Option<Cells<f64>>) -> Step<Moduli> {
        self.span("norms", Of::Call, |worker| worker.moduli(x, rows))
    }

    fn add_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        self.span("norms", Of::Call, |worker| worker.add_moduli(x, sums));
    }

    fn squares(&mut self, x: Cells<T>) -> Step<Squares> {
        self.span("norms", Of::Call, |worker| worker.squares(x))
    }

    fn hermitian_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        self.span("norms", Of::Call, |worker| worker.hermitian_moduli(x, sums));
    }

    fn copy(&mut self, from: Cells<T>, to: Cells<T>) {
        self.span("copy", Of::Call, |worker| worker.copy(from, to));
    }

    fn shift_columns<'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Cells<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    ) where
        T: 'c,
    {
        self.span("shift columns", Of::Call, |worker| worker.shift_columns(lists, spare));
    }

    fn mirror(&mut self, from: Cells<T>, to: Cells<T>, diagonal: bool, conjugated: bool) {
        self.span("mirror", Of::Call, |worker| worker.mirror(from, to, diagonal, conjugated));
    }

    fn clear_outside(&mut self, a: Cells<T>, triangle: Triangle) {
        self.span("clear", Of::Call, |worker| worker.clear_outside(a, triangle));
    }

    fn conjugate(&mut self, x: Cells<T>) {
        self.span("conjugate", Of::Call, |worker| worker.conjugate(x));
    }

    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[Cells<T>],
        own: Cells<T>,
        shared: Cells<T>,
    ) -> Step {
        self.span("transpose", Of::Call, |worker| {
            worker.transpose_shards(plan, shards, own, shared)
        })
    }

    fn transpose_square(&mut self, a: &Matrix<T>) -> Step {
        self.span("transpose across", Of::Call, |worker| worker.transpose_square(a))
    }

    fn group_barrier(&mut self, group: &mut Group) -> Step {
        self.span("group barrier", Of::Last, |worker| worker.group_barrier(group))
    }

    fn barrier(&mut self) -> Step {
        self.span("barrier", Of::Call, |worker| worker.barrier())
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        self.worker.announce(signal, count);
        if let (Some(trace), Signal::Panels) = (&mut self.trace, signal) {
            trace.announced(count - 1);
        }
    }

    fn wait(&mut self, signal: Signal, count: usize) -> Step {
        let (name, of) = match signal {
            Signal::Panels => ("wait for panel", Of::Next),
            Signal::PartialSums(_) => ("wait for sums", Of::Call),
            Signal::Solved => ("wait for solution", Of::Call),
        };
        let came = self.span(name, of, |worker| worker.wait(signal, count));
        if let (Some(trace), Signal::Panels) = (&mut self.trace, signal) {
            trace.awaits(count - 1);
        }
        came
    }

    fn interchanged(&mut self, pivots: Cells<i32>) -> Step<Vec<usize>> {
        self.worker.interchanged(pivots)
    }

    fn add(&mut self, c: Cells<T>, s: Cells<T>) {
        self.worker.add(c, s);
    }

    fn keep_subnormals(&mut self, keep: bool) {
        self.worker.keep_subnormals(keep);
    }

    fn fill(&mut self, to: Cells<T>, value: T) {
        self.worker.fill(to, value);
    }

    fn get(&mut self, from: Cells<T>, to: &mut [T]) -> Step {
        self.worker.get(from, to)
    }

    fn put(&mut self, from: &[T], to: Cells<T>) {
        self.worker.put(from, to);
    }

    fn sharers(&self, rows: usize) -> usize {
        self.worker.sharers(rows)
    }

    fn group_barrier_cost(&self) -> f64 {
        self.worker.group_barrier_cost()
    }

    fn fail(&mut self, error: Error) -> Stopped {
        self.worker.fail(error)
    }

    fn report(&mut self, info: usize) {
        self.worker.report(info);
    }

    fn ends_phase(&mut self, phase: &'static str, from: Instant, to: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.phase(phase, from, to);
        }
    }

    fn progress(&mut self, done: usize, total: usize) {
        self.worker.progress(done, total);
    }
}
