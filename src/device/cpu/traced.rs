//! A lane and its trace: each piece of work that takes time is a span.

use std::ops::Range;
use std::time::Instant;

use super::lane::Untraced;
use super::team::Team;
use crate::device::{Backend, Group, Moduli, Op, Signal, Squares, Step, Stopped, Triangle, Update};
use crate::error::Error;
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;
use crate::trace::{LaneTrace, Of};
use crate::transpose;

pub struct HostLane<'a, T> {
    lane: Untraced<'a, T>,
    trace: Option<LaneTrace<'a>>,
}

impl<'a, T: Scalar> HostLane<'a, T> {
    /// `scratch` is contiguous memory of `scratch_elements(widest_tile, ..)` elements for this lane alone.
    pub fn new(team: &'a Team, lane: usize, widest_tile: usize, scratch: Block<T>) -> Self {
        HostLane {
            lane: Untraced::new(team, lane, widest_tile, scratch),
            trace: team.trace().map(|call| call.lane(lane)),
        }
    }

    fn span<V>(
        &mut self,
        name: &'static str,
        of: Of,
        work: impl FnOnce(&mut Untraced<'a, T>) -> V,
    ) -> V {
        let Some(trace) = &mut self.trace else { return work(&mut self.lane) };
        let from = Instant::now();
        let done = work(&mut self.lane);
        trace.note(name, of, from);
        done
    }
}

impl<T: Scalar> Backend<T> for HostLane<'_, T> {
    const IS_RANK: bool = Untraced::<T>::IS_RANK;
    const FLUSHES: bool = Untraced::<T>::FLUSHES;

    fn lane(&self) -> usize {
        self.lane.lane()
    }

    fn lanes(&self) -> usize {
        self.lane.lanes()
    }

    fn potrf(&mut self, a: Block<T>, before: usize) -> Step {
        self.span("potrf", Of::Next, |lane| lane.potrf(a, before))
    }

    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>) {
        self.span("trsm panel", Of::Next, |lane| lane.trsm_panel(l, x));
    }

    fn trsm_right(&mut self, a: Block<T>, triangle: Triangle, x: Block<T>) {
        self.span("trsm right", Of::Next, |lane| lane.trsm_right(a, triangle, x));
    }

    fn trtri(&mut self, a: Block<T>, triangle: Triangle) {
        self.span("trtri", Of::Next, |lane| lane.trtri(a, triangle));
    }

    fn trmm(&mut self, a: Block<T>, triangle: Triangle, alpha: T, x: Block<T>) {
        self.span("trmm", Of::Last, |lane| lane.trmm(a, triangle, alpha, x));
    }

    fn getrf(
        &mut self,
        panel: Block<T>,
        first: usize,
        pivots: Block<i32>,
        group: &mut Group,
    ) -> Step {
        self.span("getrf panel", Of::Next, |lane| lane.getrf(panel, first, pivots, group))
    }

    fn swap_rows(&mut self, x: Block<T>, first: usize, pivots: Block<i32>, back: bool) {
        self.span("swap rows", Of::Last, |lane| lane.swap_rows(x, first, pivots, back));
    }

    fn update(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
    ) {
        self.span("update", Of::Panel(k), |lane| lane.update(a, k, targets, update));
    }

    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        rows: Range<usize>,
    ) {
        self.span("update", Of::Panel(k), |lane| lane.update_rows(a, k, targets, update, rows));
    }

    fn trsm(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
        self.span("trsm", Of::Last, |lane| lane.trsm(a, triangle, op, x));
    }

    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>) {
        self.span("gemm", Of::Last, |lane| lane.gemm(c, alpha, a, op, b));
    }

    fn largest(&mut self, x: Block<T>) -> Step<f64> {
        self.span("largest entry", Of::Call, |lane| lane.largest(x))
    }

    fn moduli(&mut self, x: Block<T>, rows: Option<Block<f64>>) -> Step<Moduli> {
        self.span("norms", Of::Call, |lane| lane.moduli(x, rows))
    }

    fn add_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.span("norms", Of::Call, |lane| lane.add_moduli(x, sums));
    }

    fn squares(&mut self, x: Block<T>) -> Step<Squares> {
        self.span("norms", Of::Call, |lane| lane.squares(x))
    }

    fn hermitian_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.span("norms", Of::Call, |lane| lane.hermitian_moduli(x, sums));
    }

    fn copy(&mut self, from: Block<T>, to: Block<T>) {
        self.span("copy", Of::Call, |lane| lane.copy(from, to));
    }

    fn shift_columns(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Block<T>>>,
        spare: Option<Block<T>>,
    ) {
        self.span("shift columns", Of::Call, |lane| lane.shift_columns(lists, spare));
    }

    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool, conjugated: bool) {
        self.span("mirror", Of::Call, |lane| lane.mirror(from, to, diagonal, conjugated));
    }

    fn clear_outside(&mut self, a: Block<T>, triangle: Triangle) {
        self.span("clear", Of::Call, |lane| lane.clear_outside(a, triangle));
    }

    fn conjugate(&mut self, x: Block<T>) {
        self.span("conjugate", Of::Call, |lane| lane.conjugate(x));
    }

    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[*mut T],
        own: Block<T>,
        shared: *mut T,
    ) -> Step {
        self.span("transpose", Of::Call, |lane| lane.transpose_shards(plan, shards, own, shared))
    }

    fn transpose_square(&mut self, a: &Matrix<T>) -> Step {
        self.span("transpose across", Of::Call, |lane| lane.transpose_square(a))
    }

    fn meet(&mut self, group: &mut Group) -> Step {
        self.span("meet", Of::Last, |lane| lane.meet(group))
    }

    fn barrier(&mut self) -> Step {
        self.span("barrier", Of::Call, |lane| lane.barrier())
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        self.lane.announce(signal, count);
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
        let came = self.span(name, of, |lane| lane.wait(signal, count));
        if let (Some(trace), Signal::Panels) = (&mut self.trace, signal) {
            trace.awaits(count - 1);
        }
        came
    }

    fn interchanged(&mut self, pivots: Block<i32>) -> Step<Vec<usize>> {
        self.lane.interchanged(pivots)
    }

    fn add(&mut self, c: Block<T>, s: Block<T>) {
        self.lane.add(c, s);
    }

    fn keep_subnormals(&mut self, keep: bool) {
        self.lane.keep_subnormals(keep);
    }

    fn fill(&mut self, to: Block<T>, value: T) {
        self.lane.fill(to, value);
    }

    fn get(&mut self, from: Block<T>, to: &mut [T]) -> Step {
        self.lane.get(from, to)
    }

    fn put(&mut self, from: &[T], to: Block<T>) {
        self.lane.put(from, to);
    }

    fn sharers(&self, rows: usize) -> usize {
        self.lane.sharers(rows)
    }

    fn meeting(&self) -> f64 {
        self.lane.meeting()
    }

    fn fail(&mut self, error: Error) -> Stopped {
        self.lane.fail(error)
    }

    fn report(&mut self, info: usize) {
        self.lane.report(info);
    }

    fn ends_phase(&mut self, phase: &'static str, from: Instant, to: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.phase(phase, from, to);
        }
    }

    fn progress(&mut self, done: usize, total: usize) {
        self.lane.progress(done, total);
    }
}
