//! The algorithms' operations for a rank, as work for its streams.

use super::*;
use crate::comm::Stopped;
use crate::device::cpu::back::{Back, Place, Room};
use crate::device::cpu::chase::{self, Turn};
use crate::device::cpu::divide::Divided;
use crate::device::cpu::real_columns;
use crate::device::reflectors::triangle_of;
use crate::device::{
    Band, Device as Kernels, OneStagePanel, Reflectors, SweepReflectors, Tridiagonal,
};
use crate::matrix::Columns;

impl Comm for CudaWorker<'_> {
    const IS_RANK: bool = true;

    fn worker(&self) -> usize {
        self.rank
    }

    fn communicator(&self) -> &Communicator {
        self.comm
    }

    fn entered(&mut self) -> &mut usize {
        &mut self.phases
    }

    fn broadcast<'c, T: Scalar>(
        &mut self,
        a: &DistMatrix<'c, T>,
        k: TileColumn,
        rows: Range<GlobalRow>,
    ) -> Step<Panel<'c, T>> {
        let cells = self.ask(|worker| worker.bring_panel(a, k, rows.clone()))?;
        Ok(Panel::new(a, k, rows, cells))
    }

    fn fetch<'c, T: Scalar>(&mut self, there: Remote<'c, T>) -> Step<Cells<'c, T>> {
        self.ask(|worker| worker.bring(there.cells()))
    }

    fn receive<T: Pod>(&mut self, there: Remote<T>, here: Cells<T>) {
        let there = there.cells();
        if there.as_ptr() != here.as_ptr() || there.rank() != here.rank() {
            self.give(|worker| worker.transfer(there, here));
        }
    }

    fn exchange_columns<'c, T: Scalar + 'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Remote<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    ) {
        let lists = lists.map(|list| list.map(Remote::cells).collect());
        self.give(|worker| worker.exchange_all(lists, spare));
    }

    fn transpose_square<T: Scalar>(&mut self, a: &DistMatrix<T>) -> Step {
        assert!(a.is_square_by_columns(), "a square matrix by whole columns");
        // No rank may write into another's shard while that rank still works there.
        self.barrier()?;
        self.ask(|worker| {
            let (size, ranks, n) = (size_of::<T>(), a.columns().ranks(), a.n());
            worker.cuda_comm.reach_all(worker.rank)?;
            let shards = a.remote_shards().iter();
            let table: Vec<u64> = shards.map(|shard| address(shard.cells())).collect();
            let bytes = size_of_val(&table[..]);
            let table_at = Lines { at: worker.scratch.arenas[0], pitch: bytes };
            assert!(bytes <= worker.scratch.needs.arenas[0], "room for the table");
            // SAFETY: this rank's scratch, of this size (checked), promised to `CudaWorker::new`.
            unsafe {
                worker.device.write_lines(
                    table_at,
                    table.as_ptr().cast(),
                    bytes,
                    1,
                    worker.main(),
                )?;
            }
            let tiles = ranks * (n / ranks).div_ceil(transpose::device::tile_side(size));
            let pairs = tiles * (tiles + 1) / 2;
            let share = |rank: usize| (pairs as u128 * rank as u128 / ranks as u128) as u64;
            let arguments =
                [table_at.at, ranks as u64, n as u64, share(worker.rank), share(worker.rank + 1)];
            worker.launch("transpose_square", &format!("transpose_shards_{size}"), &arguments)
        })?;
        self.barrier()
    }

    fn announce(&mut self, phase: &Phase, count: usize) {
        let ranks = self.cuda_comm.seats.len();
        self.give(|worker| {
            if ranks > 1 || worker.ahead || worker.clique.is_some() {
                let event = worker.mark(worker.stream())?;
                worker.cuda_comm.announce(phase, worker.rank, count, event);
            }
            Ok(())
        });
        if !self.failed {
            phase.announce(self.rank, count);
        }
    }

    fn wait(&mut self, phase: &Phase, rank: usize, count: usize) -> Step {
        phase.wait(rank, count)?;
        self.ask(|worker| {
            let Some(event) = worker.cuda_comm.event(phase, rank, count) else { return Ok(()) };
            worker.device.wait_for(event, worker.main())?;
            if phase.signal() == Signal::Panels {
                worker.device.wait_for(event, worker.tools.side)?;
            }
            Ok(())
        })
    }

    fn sharers(&self, _: usize) -> usize {
        1
    }

    fn group_barrier(&mut self, group: &mut Group) -> Step {
        assert_eq!(group.size(), 1, "a rank has its panels alone");
        Ok(())
    }

    fn barrier(&mut self) -> Step {
        let number = self.ask(|worker| {
            worker.join()?;
            let event = worker.mark(worker.main())?;
            Ok(worker.cuda_comm.arrive(worker.rank, event))
        })?;
        self.comm.barrier().wait()?;
        self.ask(|worker| {
            let events = worker.cuda_comm.at_barrier(worker.rank, number);
            let main = worker.main();
            worker.met = true;
            events.into_iter().try_for_each(|event| worker.device.wait_for(event, main))
        })
    }
}

impl<T: Scalar> Kernels<T> for CudaWorker<'_> {
    fn potrf(&mut self, a: Cells<T>, first: GlobalRow) -> Step {
        self.ask(|worker| {
            let info = worker.next_info(first);
            let workspace =
                Workspace { at: worker.scratch.solver, bytes: worker.scratch.needs.solver, info };
            let local = worker.own(a);
            let operand = Form::of(local, Op::None).operand();
            {
                let (solver, stream) = (&worker.libraries()?.solver, worker.stream());
                let _entered = worker.device.enter()?;
                solver.work_on(&worker.tools.solver, stream)?;
                // SAFETY: *memory* and *order* of the tile, promised to `CudaWorker::new`.
                unsafe {
                    solver.potrf::<T>(&mut worker.tools.solver, a.rows(), operand, workspace)?
                };
            }
            worker.find_no_number(local, info)
        })
    }

    fn trtri(&mut self, a: Cells<T>, triangle: Triangle) {
        self.give(|worker| {
            let room = (worker.scratch.own, worker.scratch.needs.own);
            let inverse = worker.in_scratch::<T>(room, a.rows(), a.rows());
            worker.identity(inverse)?;
            // Computes the transpose, then mirrors its triangle into place.
            worker.solve_left((a, Op::Transpose), triangle, inverse)?;
            worker.mirror_block(inverse, worker.own(a), Some(triangle.is_lower()), false)
        });
    }

    fn trmm(&mut self, a: Cells<T>, triangle: Triangle, alpha: T, x: Cells<T>) {
        self.give(|worker| {
            let (a, target) = (worker.own(a), Form::of(worker.own(x), Op::None));
            let form = Form::of(a, Op::None);
            assert!(is_columns(&x) && form.op() == Op::None, "columns of a matrix");
            let _entered = worker.device.enter()?;
            let (blas, handle) = (&worker.libraries()?.blas, worker.handle());
            let (shape, x) = ([x.rows(), x.cols()], target.operand());
            // SAFETY: *memory* and *order* of the operands, promised to `CudaWorker::new`.
            unsafe { blas.trmm(handle, triangle, shape, alpha, form.operand(), x) }
        });
    }

    fn getrf(
        &mut self,
        panel: Cells<T>,
        first: GlobalRow,
        pivots: Cells<i32>,
        group: &mut Group,
    ) -> Step {
        assert_eq!(group.size(), 1, "a rank has its panels alone");
        self.ask(|worker| {
            let info = worker.next_info(first);
            let workspace =
                Workspace { at: worker.scratch.solver, bytes: worker.scratch.needs.solver, info };
            let here = worker.own(panel);
            let (operand, from) = (Form::of(here, Op::None).operand(), worker.scratch.panel_pivots);
            let bytes = panel.cols().min(panel.rows()) * size_of::<i64>();
            assert!(bytes <= worker.scratch.needs.panel_pivots, "room for a panel's interchanges");
            {
                let (solver, stream) = (&worker.libraries()?.solver, worker.stream());
                let _entered = worker.device.enter()?;
                solver.work_on(&worker.tools.solver, stream)?;
                let shape = [panel.rows(), panel.cols()];
                // SAFETY: *memory* and *order* of the panel, promised to `CudaWorker::new`.
                unsafe {
                    solver.getrf::<T>(&mut worker.tools.solver, shape, operand, from, workspace)?;
                }
            }
            worker.find_no_number(here, info)?;
            let (count, rows) = (pivots.rows() as u64, panel.rows() as u64);
            let to = address(worker.own(pivots));
            let arguments = [to, from, count, first.get() as u64, rows];
            // The pivots at known addresses may have changed.
            worker.found = Default::default();
            worker.launch("pivots", "number_pivots", &arguments)
        })
    }

    fn swap_rows(&mut self, x: Cells<T>, first: GlobalRow, pivots: Cells<i32>, back: bool) {
        self.give(|worker| {
            let (x, pivots) = (worker.own(x), worker.own(pivots));
            worker.interchange(x, first.get(), pivots, back)
        });
    }

    fn update(
        &mut self,
        a: &DistMatrix<T>,
        panel: &Panel<T>,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        rows: Range<GlobalRow>,
    ) {
        self.give(|worker| worker.subtract(a, panel, targets, update, rows));
    }

    fn reduce(&mut self, r: Cells<T>, c: Cells<T>, coefficients: Cells<T>, _: Cells<T>) {
        let (n, a) = (r.rows(), r.above(c));
        self.give(|worker| {
            let (a, coefficients) = (worker.own(a), worker.own(coefficients));
            worker.factor_qr(a, coefficients)
        });
        // The reflectors are there. B becomes a triangle as well, whose columns have the norms; a
        // number in B that is no finite one therefore spreads to the norms of later columns.
        let (rows, all) = (a.rows(), a.cols());
        self.clear_outside(a.sub(0, 0, all.min(rows), all), Triangle::Upper);
        if all > n && rows > all {
            self.clear(a.sub(all, n, rows - all, all - n));
        }
    }

    fn geqrf(&mut self, panel: Cells<T>, coefficients: Cells<T>, t: Cells<T>, room: Cells<T>) {
        self.give(|worker| worker.factor_qr(worker.own(panel), worker.own(coefficients)));
        let k = panel.cols();
        let by = Reflectors::of(self, panel, t, room.by_columns(k, k, k));
        triangle_of(self, by, coefficients, room.rows_from(k * k));
    }

    fn make_unit_lower(&mut self, a: Cells<T>) {
        self.clear_outside(a, Triangle::Lower);
        self.give(|worker| worker.ones_on_diagonal(worker.own(a)));
    }

    fn trsm(&mut self, side: Side, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>) {
        self.give(|worker| match side {
            Side::Left => worker.solve_left((a, op), triangle, x),
            Side::Right => worker.solve_triangle((a, op), triangle, x, true),
        });
    }

    fn gemm(&mut self, c: Cells<T>, alpha: T, a: Cells<T>, op: Op, b: Cells<T>) {
        self.give(|worker| worker.multiply(c, alpha, (a, op), (b, Op::None)));
    }

    fn add(&mut self, c: Cells<T>, s: Cells<T>) {
        self.give(|worker| worker.raise(worker.own(c), worker.own(s)));
    }

    fn largest(&mut self, x: Cells<T>) -> Step<f64> {
        self.moduli(stored(x).0, None).map(|found| found.entry)
    }

    fn moduli(&mut self, x: Cells<T>, rows: Option<Cells<f64>>) -> Step<Moduli> {
        self.ask(|worker| worker.sums(x, rows))
    }

    fn add_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        self.give(|worker| worker.add_sums(x, sums));
    }

    fn squares(&mut self, x: Cells<T>) -> Step<Squares> {
        self.ask(|worker| worker.sum_squares(x))
    }

    fn hermitian_moduli(&mut self, x: Cells<T>, sums: Cells<f64>) {
        self.give(|worker| worker.hermitian_sums(x, sums));
    }

    fn copy(&mut self, from: Cells<T>, to: Cells<T>) {
        self.give(|worker| worker.put_at(from, to));
    }

    fn mirror(&mut self, from: Cells<T>, to: Cells<T>, diagonal: bool, conjugated: bool) {
        self.give(|worker| {
            let (from, to) = (worker.own(from), worker.own(to));
            worker.mirror_block(from, to, diagonal.then_some(true), conjugated)
        });
    }

    fn clear(&mut self, to: Cells<T>) {
        self.give(|worker| {
            let Piece { lines, width, height, .. } = Piece::of(worker.own(to));
            // SAFETY: *memory* and *order* of the operand, promised to `CudaWorker::new`.
            unsafe { worker.device.clear_lines(lines, width, height, worker.stream()) }
        });
    }

    fn clear_outside(&mut self, a: Cells<T>, triangle: Triangle) {
        self.give(|worker| {
            let (stored, by_columns) = stored(worker.own(a));
            let lower = triangle.is_lower() == by_columns;
            let (rows, cols) = (stored.rows() as u64, stored.cols() as u64);
            let stride = stored.col_stride() as u64;
            let arguments = [address(stored), stride, rows, cols, u64::from(lower)];
            worker.launch("triangle", &format!("clear_outside_{}", size_of::<T>()), &arguments)
        });
    }

    fn conjugate(&mut self, x: Cells<T>) {
        if T::IS_COMPLEX {
            self.give(|worker| worker.conjugate_in_place(worker.own(x)));
        }
    }
}

impl<T: Scalar> Worker<T> for CudaWorker<'_> {
    const FLUSHES: bool = false;

    /// Subnormal numbers cost no time here.
    fn keep_subnormals(&mut self, _: bool) {}

    fn fork(&mut self) {
        self.give(|worker| {
            let event = worker.mark(worker.main())?;
            worker.device.wait_for(event, worker.tools.side)
        });
        self.apart = true;
    }

    fn ahead(&mut self, on: bool) {
        self.ahead = on;
    }

    fn get<U: Pod>(&mut self, from: Cells<U>, to: &mut [U]) -> Step {
        self.ask(|worker| {
            let local = worker.own(from);
            let piece = Piece::of(local);
            let mut stored = vec![U::zeroed(); to.len()];
            // SAFETY: `stored` has as many elements; *memory* and *order* as promised to
            // `CudaWorker::new`.
            unsafe {
                let at = stored.as_mut_ptr().cast();
                worker.device.read_lines(
                    piece.lines,
                    piece.width,
                    piece.height,
                    at,
                    worker.stream(),
                )?;
            }
            reorder(&mut stored, local, |stored, row| to[row] = *stored);
            Ok(())
        })
    }

    fn put(&mut self, from: &[T], to: Cells<T>) {
        self.give(|worker| {
            let local = worker.own(to);
            let mut stored = vec![T::ZERO; from.len()];
            reorder(&mut stored, local, |stored, row| *stored = from[row]);
            let piece = Piece::of(local);
            // SAFETY: `stored` has as many elements; *memory* and *order* as promised to
            // `CudaWorker::new`.
            unsafe {
                let at = stored.as_ptr().cast();
                worker.device.write_lines(
                    piece.lines,
                    at,
                    piece.width,
                    piece.height,
                    worker.stream(),
                )
            }
        });
    }

    fn transpose_shards<'c>(
        &mut self,
        plan: &transpose::Plan,
        _: usize,
        shard: impl Fn(usize) -> Cells<'c, T>,
        _: Cells<T>,
        _: Cells<T>,
    ) -> Step
    where
        T: 'c,
    {
        self.ask(|worker| {
            let (data, scratch) =
                (address(shard(worker.rank).flat()), worker.scratch.transposition);
            // SAFETY: *memory* of the shard and of this rank's scratch, promised to
            // `CudaWorker::new`.
            unsafe { transposition::transpose(worker.device, plan, data, scratch, worker.main()) }
        })?;
        self.barrier()
    }

    fn reduce_in_one_stage(&mut self, _: &OneStagePanel<T>) -> Step {
        unreachable!("ranks reduce to a band")
    }

    /// The first rank's host does it alone.
    fn tridiagonal(
        &mut self,
        band: Band<T>,
        kept: Option<&SweepReflectors<T>>,
    ) -> Step<Option<Tridiagonal>> {
        if self.rank != 0 {
            return Ok(None);
        }
        let (cells, width) = (band.cells(), band.width());
        let mut memory = vec![T::ZERO; cells.rows() * cells.cols()];
        Worker::<T>::get(self, cells.transposed(), &mut memory)?;
        let here = Cells::of(&mut memory).by_columns(cells.rows(), cells.cols(), cells.rows());
        let (band, mut room) = (Band::new(here, width), vec![T::ZERO; chase::room(width)]);
        let comm = self.comm;
        let wait = |_, _| if comm.is_stopped() { Err(Stopped) } else { Ok(()) };
        // SAFETY: *order*: this thread alone has the memory, and that of the reflectors until ranks meet.
        unsafe {
            chase::sweep(band, Turn::ALONE, kept, &mut room, wait, |_, _| {})?;
            Ok(Some(chase::tridiagonal(band)))
        }
    }

    /// The ranks' hosts do it.
    fn divide(&mut self, divided: &Divided, z: &Columns<T>, _: Cells<T>) -> Step<usize> {
        let mut room = vec![T::ZERO; real_columns::room::<T>(divided.order())];
        let (rank, comm) = (self.rank, self.comm);
        let (barrier, is_stopped) = (|| comm.barrier().wait(), || comm.is_stopped());
        // SAFETY: *order*: all ranks do this, and have met.
        let left =
            unsafe { real_columns::divide(divided, rank, z, &mut room, barrier, &is_stopped) }?;
        comm.barrier().wait().map(|()| left)
    }

    fn transform_back(
        &mut self,
        back: &Back<T>,
        z: &Columns<T>,
        [shared, _]: [Cells<T>; 2],
    ) -> Step {
        let comm = self.comm;
        let place = Place { worker: self.rank, workers: comm.workers() };
        let sweeps = back.sweeps;
        let sizes = Room::of::<T>(sweeps.order(), sweeps.width());
        let mut own = vec![T::ZERO; sizes.own];
        let (barrier, is_stopped) = (|| comm.barrier().wait(), || comm.is_stopped());
        // SAFETY: *order*: all ranks do this, and have met.
        unsafe { back.apply(z, (place, comm.queue()), shared, &mut own, barrier, &is_stopped) }
    }

    fn group_barrier_cost(&self) -> f64 {
        f64::INFINITY
    }

    fn begins(&mut self, task: Task) {
        self.task = Some(task);
    }

    /// Reports it when the caller's stream has done the work, which may be long after its submission.
    fn progress(&mut self, share: f64) {
        let task = self.task.filter(|_| self.rank == 0 && log::is_progress_wanted());
        if let Some(task) = task {
            let since = self.since;
            let report = move || log::report(&task, since, share);
            self.give(|worker| worker.device.run_after(worker.main(), report));
        }
    }
}

/// Visits the elements in the order of a block's memory, each with its number row by row.
fn reorder<T>(stored: &mut [T], block: Cells<T>, mut visit: impl FnMut(&mut T, usize)) {
    let by_columns = is_columns(&block);
    for (k, element) in stored.iter_mut().enumerate() {
        let number =
            if by_columns { k % block.rows() * block.cols() + k / block.rows() } else { k };
        visit(element, number);
    }
}
