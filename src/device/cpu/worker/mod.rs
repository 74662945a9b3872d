//! One worker of a call on CPU devices: a thread.

mod comm;
mod pair;
mod reflect;
mod rows;
mod sweep;
mod update;
mod vectors;

use std::ops::Range;
use std::time::Instant;

use bytemuck::Pod;
use faer::dyn_stack::MemBuffer;
use faer::{MatMut, MatRef};

use super::back::{Back, Place};
use super::blas;
use super::divide::Divided;
use super::float_mode::FloatMode;
use super::getrf::swap_rows;
use super::norm;
use super::one_stage;
use super::panel::GroupPanel;
use super::product::{self, Coefficients, Units};
use super::reflect::{Products, factor_panel, reduce, reflect as apply_reflectors};
use super::sizes::{LINE, packed_elements, packed_rows, shared_elements, tile_elements};
use crate::comm::{Comm, Communicator, Group, Members, Step};
use crate::device::{
    Band, Device, Moduli, OneStagePanel, Op, Reflectors, Side, Squares, SweepReflectors, Target,
    Triangle, Tridiagonal, Update, Worker,
};
use crate::layout::{GlobalRow, TileColumn};
use crate::log::{self, Task};
use crate::matrix::{Cells, Columns, DistMatrix, Panel};
use crate::scalar::Scalar;
use crate::trace::WorkerTrace;
use crate::transpose;

/// A substitution with fewer columns than this does not pack: so few fit in one set of a cache.
const NARROWEST_PRODUCT: usize = 8;

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

pub struct CpuWorker<'a, T> {
    comm: &'a Communicator,
    worker: usize,
    /// The number of phases that it has entered.
    phases: usize,
    pack_rows: usize,
    pack: Cells<'a, T>,
    widest: usize,
    /// Memory for packed tiles.
    tiles: Cells<'a, T>,
    /// Both.
    packs: Cells<'a, T>,
    /// Of the product kernel; without one, faer does all products.
    units: Option<Units>,
    potrf: MemBuffer,
    since: Instant,
    /// The stage of the call.
    task: Option<Task>,
    /// Operations that take time are its spans.
    trace: Option<WorkerTrace<'a>>,
}

impl<'a, T: Scalar> CpuWorker<'a, T> {
    /// `scratch` has `scratch_elements(widest_tile, ..)` elements in one piece.
    ///
    /// # Safety
    /// *Order* (see [`Cells`]), for all operands of this worker's operations and its scratch, in
    /// memory of the CPU: the workers of `comm`, one of each number, run one routine on the same
    /// views. Operands of one operation do not overlap where it writes, except in `mirror`.
    pub unsafe fn new(
        comm: &'a Communicator,
        worker: usize,
        widest_tile: usize,
        scratch: Cells<'a, T>,
    ) -> Self {
        let packed = packed_elements::<T>(widest_tile);
        CpuWorker {
            comm,
            worker,
            phases: 0,
            pack_rows: packed_rows::<T>(widest_tile),
            pack: scratch.sub(0, 0, packed, 1),
            widest: widest_tile,
            tiles: scratch.rows_from(packed),
            packs: scratch,
            units: Units::of::<T>(),
            potrf: blas::potrf_scratch::<T>(widest_tile),
            since: Instant::now(),
            task: None,
            trace: comm.trace().map(|call| call.worker(worker)),
        }
    }

    /// The same worker with all products by faer, as on processors without a kernel.
    #[cfg(feature = "internals")]
    pub fn without_kernel(self) -> Self {
        CpuWorker { units: None, ..self }
    }

    /// Does `work` as a span of the trace, if there is one. Spans within it are none.
    fn traced<V>(
        &mut self,
        name: &'static str,
        panel: Option<usize>,
        work: impl FnOnce(&mut Self) -> V,
    ) -> V {
        let Some(mut trace) = self.trace.take() else { return work(self) };
        let from = Instant::now();
        let done = work(self);
        trace.note(name, panel, from, Instant::now());
        self.trace = Some(trace);
        done
    }

    /// Elements that this worker reads.
    fn read<'v, U>(&self, cells: Cells<'v, U>) -> MatRef<'v, U> {
        // SAFETY: memory of the CPU and *order*, promised to `CpuWorker::new` for all operations.
        unsafe { cells.read() }
    }

    /// Elements that only this worker accesses now.
    fn write<'v, U>(&self, cells: Cells<'v, U>) -> MatMut<'v, U> {
        // SAFETY: memory of the CPU and *order*, promised to `CpuWorker::new` for all operations.
        unsafe { cells.write() }
    }

    /// This worker's scratch as a matrix.
    fn packing(&self, rows: usize, cols: usize) -> Cells<'a, T> {
        self.pack.by_columns(rows, cols, rows + LINE / size_of::<T>())
    }

    fn packed(&self, from: Cells<T>) -> Cells<'a, T> {
        let to = self.packing(from.rows(), from.cols());
        blas::copy(self.read(from), self.write(to));
        to
    }

    /// Solves with the transpose of X, packed, as many rows at a time as fit.
    fn solve_right(&mut self, x: Cells<T>, solve: impl Fn(&mut Self, Cells<T>)) {
        for row in (0..x.rows()).step_by(self.pack_rows) {
            let x = x.sub(row, 0, self.pack_rows.min(x.rows() - row), x.cols());
            let packed = self.packed(x);
            solve(self, packed.transposed());
            self.copy(packed, x);
        }
    }

    /// `X <- op(A)^-1 X` with the kernel, if it is faster.
    fn solve_lines(&mut self, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) -> bool {
        let Some(units) = self.units else { return false };
        let a = if op.transposes() { a.transposed() } else { a };
        let (mut m, mut lines) = (self.read(a), self.write(x.transposed()));
        if triangle.is_lower() == op.transposes() {
            // From the last element to the first.
            (m, lines) = (m.reverse_rows_and_cols(), lines.reverse_cols_mut());
        }
        let [tiles, pack] = [self.tiles, self.pack].map(|own| blas::column_mut(self.write(own), 0));
        let (conjugated, has_ones) = (op.conjugates(), triangle.has_ones());
        let m = Coefficients::new(m, conjugated, has_ones, lines.nrows(), units, tiles);
        m.map(|m| m.solve(lines, units, pack)).is_some()
    }

    fn solve_left(&mut self, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) {
        if self.solve_lines(a, triangle, op, x) {
            return;
        }
        let fits = (x.rows() + LINE / size_of::<T>()) * x.cols() <= self.pack.rows();
        if x.row_stride() != 1 || x.cols() < NARROWEST_PRODUCT || !fits {
            return self.substitute(a, triangle, op, x);
        }
        let packed = self.packed(x);
        self.substitute(a, triangle, op, packed);
        self.copy(packed, x);
    }

    /// `X <- op(A)^-1 X` without packing X.
    fn substitute(&mut self, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) {
        // faer multiplies by reciprocals of the diagonal. The computation of a complex one, or of
        // that of a very large number, has subnormal numbers, which must not be flushed to zero.
        let mode = FloatMode::current();
        if !triangle.has_ones() {
            FloatMode::IEEE.enter();
        }
        blas::trsm(self.read(a), triangle, op, self.write(x));
        mode.enter();
    }
}

impl<T: Scalar> Products<T> for CpuWorker<'_, T> {
    fn product(&mut self, c: MatMut<T>, alpha: T, a: MatRef<T>, op: Op, b: MatRef<T>) {
        if self.units.is_some() && product::suits_dots(alpha, a, op, b) {
            return product::add_dots(c, a, b);
        }
        let sizes = [self.pack.rows(), self.tiles.rows()];
        let blocks = |units| product::Blocks::new(&c, alpha, b.nrows(), units, sizes);
        match self.units.and_then(blocks) {
            Some(blocks) => {
                let memory =
                    [self.pack, self.tiles].map(|own| blas::column_mut(self.write(own), 0));
                product::gemm(c, alpha == -T::ONE, a, op, b, blocks, memory);
            }
            None => blas::gemm(c, alpha, a, op, b),
        }
    }

    fn reflect(&mut self, v: MatRef<T>, t: MatRef<T>, r: MatMut<T>, c: MatMut<T>, w: &mut [T]) {
        match self.pack_factors(v, t, r.ncols()) {
            Some(mut factors) => factors.apply(r, c, w),
            None => apply_reflectors(self, v, t, r, c, w),
        }
    }
}

impl<T: Scalar> Device<T> for CpuWorker<'_, T> {
    fn potrf(&mut self, a: Cells<T>, first: GlobalRow) -> Step {
        let done = blas::potrf(self.write(a), &mut self.potrf);
        done.map_err(|minor| {
            let pivot = self.read(a)[(minor, minor)];
            self.comm.give_up(first.get() + minor + 1, pivot.is_number())
        })
    }

    fn trtri(&mut self, a: Cells<T>, triangle: Triangle) {
        let inverse = self.packing(a.rows(), a.rows());
        self.clear(inverse);
        self.write(inverse.diagonal()).fill(T::ONE);
        self.substitute(a, triangle, Op::Transpose, inverse.transposed());
        blas::copy_triangle(self.read(inverse), self.write(a), triangle);
    }

    fn trmm(&mut self, a: Cells<T>, triangle: Triangle, alpha: T, x: Cells<T>) {
        let packed = self.packed(x);
        blas::trmm(self.write(x), alpha, self.read(a), triangle, self.read(packed));
    }

    fn getrf(
        &mut self,
        panel: Cells<T>,
        first: GlobalRow,
        pivots: Cells<i32>,
        group: &mut Group,
    ) -> Step {
        let members = Members::new(self.comm, self.worker, group);
        let (rows, leads) = (members.rows(first.get(), panel.rows()), members.leads());
        // SAFETY: *order*, promised to `CpuWorker::new`: the group factors this panel alone.
        let unusable = unsafe { GroupPanel::new(panel, pivots, rows, members) }.factor()?;
        if leads {
            let rows = blas::column_mut(self.write(pivots), 0);
            rows.iter_mut().for_each(|row| *row += first.get() as i32);
            if let Some(column) = unusable {
                self.report(first.get() + column + 1, self.read(panel)[(column, column)]);
            }
        }
        Ok(())
    }

    fn swap_rows(&mut self, x: Cells<T>, first: GlobalRow, pivots: Cells<i32>, back: bool) {
        let pivots = self.read(pivots);
        swap_rows(self.write(x), first.get(), blas::column(pivots, 0), back);
    }

    fn update(
        &mut self,
        a: &DistMatrix<T>,
        panel: &Panel<T>,
        mut targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        within: Range<GlobalRow>,
    ) {
        let most = (self.tiles.rows() / tile_elements::<T>(self.widest).max(1)).max(1);
        loop {
            let some: Vec<_> = targets.by_ref().take(most).collect();
            if some.is_empty() {
                return;
            }
            self.update_some(a, panel, &some, update, &within);
        }
    }

    fn reduce(&mut self, r: Cells<T>, c: Cells<T>, coefficients: Cells<T>, room: Cells<T>) {
        let (r, c, scratch) = (self.write(r), self.write(c), self.write(room));
        let to = blas::column_mut(self.write(coefficients), 0);
        reduce(self, r, c, to, blas::column_mut(scratch, 0));
    }

    fn geqrf(&mut self, panel: Cells<T>, coefficients: Cells<T>, t: Cells<T>, room: Cells<T>) {
        self.clear(t);
        let (scratch, factor) = (self.write(room), self.write(t));
        factor_panel(self, self.write(panel), factor, blas::column_mut(scratch, 0));
        blas::copy(self.read(t.diagonal()), self.write(coefficients));
    }

    fn reflect(&mut self, by: Reflectors<T>, op: Op, targets: &[Target<T>], room: Cells<T>) {
        self.reflect_all(by, op, targets, room);
    }

    fn subtract_pair(
        &mut self,
        pair: [Cells<T>; 2],
        targets: &[(usize, Cells<T>)],
        room: Cells<T>,
    ) {
        self.subtract_all(pair, targets, room);
    }

    fn make_unit_lower(&mut self, a: Cells<T>) {
        blas::clear_outside(self.write(a), Triangle::Lower);
        self.write(a.diagonal()).fill(T::ONE);
    }

    fn trsm(&mut self, side: Side, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) {
        // X op(A) = B is op(A)^T X^T = B^T.
        let of_lines = if op == Op::Adjoint { Op::Conjugate } else { Op::Transpose };
        match (side, op) {
            (Side::Left, _) => self.solve_left(a, triangle, op, x),
            // X L^H = A is conj(L) X^T = A^T. The diagonal of L is real, so its reciprocals are.
            (Side::Right, Op::Adjoint | Op::None)
                if self.solve_lines(a, triangle, of_lines, x.transposed()) => {}
            (Side::Right, Op::Adjoint) => self.solve_right(x, |worker, packed| {
                blas::trsm(worker.read(a), triangle, Op::Conjugate, worker.write(packed));
            }),
            (Side::Right, op) => {
                assert_eq!(op, Op::None, "on the right, A or its adjoint");
                self.solve_right(x, |worker, packed| {
                    worker.substitute(a, triangle, Op::Transpose, packed);
                });
            }
        }
    }

    fn gemm(&mut self, c: Cells<T>, alpha: T, a: Cells<T>, op: Op, b: Cells<T>) {
        self.product(self.write(c), alpha, self.read(a), op, self.read(b));
    }

    fn add(&mut self, c: Cells<T>, s: Cells<T>) {
        blas::add(self.write(c), self.read(s));
    }

    fn largest(&mut self, x: Cells<T>) -> Step<f64> {
        Ok(blas::largest(self.read(x)))
    }

    fn moduli(&mut self, x: Cells<T>, rows: Option<Cells<f64>>) -> Step<Moduli> {
        let rows = rows.map(|rows| blas::column_mut(self.write(rows), 0));
        Ok(norm::moduli(self.read(x), rows))
    }

    fn add_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        norm::add_moduli(self.read(x), blas::column_mut(self.write(sums), 0));
    }

    fn squares(&mut self, x: Cells<T>) -> Step<Squares> {
        Ok(norm::squares(self.read(x)))
    }

    fn hermitian_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        norm::hermitian_moduli(self.read(x), blas::column_mut(self.write(sums), 0));
    }

    fn copy(&mut self, from: Cells<T>, to: Cells<T>) {
        if from.row_stride() != 1 && from.col_stride() == 1 && to.row_stride() == 1 {
            return self.mirror(from.transposed(), to, false, false);
        }
        blas::copy(self.read(from), self.write(to));
    }

    fn mirror(&mut self, from: Cells<T>, to: Cells<T>, diagonal: bool, conjugated: bool) {
        // SAFETY: *order*, promised to `CpuWorker::new`.
        unsafe { blas::mirror(from, to, diagonal, conjugated) };
    }

    fn clear(&mut self, to: Cells<T>) {
        self.write(to).fill(T::ZERO);
    }

    fn clear_outside(&mut self, a: Cells<T>, triangle: Triangle) {
        blas::clear_outside(self.write(a), triangle);
    }

    fn conjugate(&mut self, x: Cells<T>) {
        let x = self.write(x);
        faer::zip!(x).for_each(|faer::unzip!(x)| *x = T::conj_impl(x));
    }
}

impl<T: Scalar> Worker<T> for CpuWorker<'_, T> {
    const FLUSHES: bool = true;

    fn keep_subnormals(&mut self, keep: bool) {
        if keep { FloatMode::IEEE.enter() } else { FloatMode::FLUSH.enter() }
    }

    fn span<V>(
        &mut self,
        name: &'static str,
        panel: Option<TileColumn>,
        work: impl FnOnce(&mut Self) -> V,
    ) -> V {
        self.traced(name, panel.map(TileColumn::get), work)
    }

    fn get<U: Pod>(&mut self, from: Cells<U>, to: &mut [U]) -> Step {
        let to = MatMut::from_row_major_slice_mut(to, from.rows(), from.cols());
        copy_bits(self.read(from), to);
        Ok(())
    }

    fn put(&mut self, from: &[T], to: Cells<T>) {
        let from = MatRef::from_row_major_slice(from, to.rows(), to.cols());
        blas::copy(from, self.write(to));
    }

    fn transpose_shards<'c>(
        &mut self,
        plan: &transpose::Plan,
        ranks: usize,
        shard: impl Fn(usize) -> Cells<'c, T>,
        own: Cells<T>,
        shared: Cells<T>,
    ) -> Step
    where
        T: 'c,
    {
        self.traced("transpose", None, |worker| {
            let (size, elements) = (size_of::<T>(), plan.rows() * plan.cols());
            assert!(own.rows() * size >= plan.scratch_bytes(), "scratch of a transposition");
            for phase in 0..plan.phases() {
                for (rank, units) in
                    shares(plan.units(phase), ranks, worker.worker, worker.workers())
                {
                    let each = shared_elements::<T>(plan, 1);
                    let shared = shared.sub(rank * each, 0, each, 1);
                    let shard = shard(rank).flat().sub(0, 0, elements, 1);
                    let [shard, own, shared] =
                        [shard, own, shared].map(|view| view.as_ptr().cast());
                    // SAFETY: *memory* of these views, contiguous and long enough. *Order*,
                    // promised to `CpuWorker::new`: workers have different units, and meet after
                    // each phase.
                    unsafe { transpose::run_units(plan, phase, units, shard, own, shared) };
                }
                worker.barrier()?;
            }
            if plan.phases() == 0 { worker.barrier() } else { Ok(()) }
        })
    }

    fn reduce_in_one_stage(&mut self, panel: &OneStagePanel<T>) -> Step {
        let place = Place { worker: self.worker, workers: self.comm.workers() };
        // SAFETY: *order*, promised to `CpuWorker::new`: all workers do this, and have met.
        unsafe { one_stage::reduce(panel, place, || self.barrier()) }
    }

    fn tridiagonal(
        &mut self,
        band: Band<T>,
        kept: Option<&SweepReflectors<T>>,
    ) -> Step<Option<Tridiagonal>> {
        self.sweep_all(band, kept)
    }

    fn divide(&mut self, divided: &Divided, z: &Columns<T>, room: Cells<T>) -> Step<usize> {
        self.divide_all(divided, z, room)
    }

    fn transform_back(&mut self, back: &Back<T>, z: &Columns<T>, room: [Cells<T>; 2]) -> Step {
        self.transform_all(back, z, room)
    }

    fn group_barrier_cost(&self) -> f64 {
        let width = size_of::<f64>() as f64 / size_of::<T::Real>() as f64;
        self.comm.sharing().barrier_cost * if T::IS_COMPLEX { width / 4.0 } else { width }
    }

    fn ends_phase(&mut self, phase: &'static str, from: Instant, to: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.note(phase, None, from, to);
        }
    }

    fn begins(&mut self, task: Task) {
        self.task = Some(task);
    }

    fn progress(&mut self, share: f64) {
        if let Some(task) = self.task.as_ref().filter(|_| self.worker == 0) {
            log::report(task, self.since, share);
        }
    }
}

/// Copies elements that need not be numbers.
fn copy_bits<U: Pod>(from: MatRef<U>, to: MatMut<U>) {
    faer::zip!(to, from).for_each(|faer::unzip!(to, from)| *to = *from);
}
