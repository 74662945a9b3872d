//! One rank of a call on a CUDA device: the `Backend` whose operations go on streams.
//!
//! The host thread of a rank runs the algorithm and gives its device the work; it waits for other host
//! threads where the algorithm waits for a signal, and lets its streams wait for the events that go with
//! it. Operands may be any rank's: what is far is copied to the rank's own memory first, what is far and
//! written is copied back. There are two streams, the caller's and one beside it for panels that others
//! wait for (`Backend::ahead`), which joins the other at a signal or a barrier.
//!
//! A failure of the driver or of a library ends the call for all ranks where they next wait.

use std::ops::Range;

use super::crew::Crew;
use super::device::{Address, Device, Stream};
use super::queue::{Event, Lines};
use super::room::Room;
use super::tools::Tools;
use super::transposition;
use super::vendor::blas::BlasHandle;
use super::vendor::solver::Workspace;
use super::vendor::{Libraries, Operand};
use crate::backend::host::Team;
use crate::backend::{
    Backend, Group, Moduli, Op, Signal, Squares, Step, Stopped, Triangle, Update,
};
use crate::error::{Error, Kind, Result};
use crate::matrix::{Block, Matrix};
use crate::scalar::{DType, Scalar};
use crate::transpose;

mod operands;

use operands::{Form, Piece, is_columns};

/// Interchanges of one launch, as `kernels/rows.cu` has it.
const INTERCHANGES: usize = 128;

pub struct CudaLane<'a> {
    team: &'a Team,
    crew: &'a Crew,
    rank: usize,
    device: &'a Device,
    tools: Tools,
    room: Room,
    /// Whether the next work goes on the side stream, and whether that has work that the caller's stream
    /// has not waited for.
    ahead: bool,
    apart: bool,
    /// Bytes of an arena that the present operation has taken.
    taken: usize,
    /// Panels of other ranks: where they lie there, and their copies here.
    staged: [Option<Staged>; 2],
    /// When the caller's stream has last used each of them.
    read: [Option<Event>; 2],
    /// Rows of the matrix before each tile or panel that has been factored.
    factored: Vec<usize>,
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Staged {
    from: Piece,
    number: usize,
}

impl<'a> CudaLane<'a> {
    pub fn new(
        team: &'a Team,
        crew: &'a Crew,
        rank: usize,
        tools: Tools,
        room: Room,
    ) -> CudaLane<'a> {
        let mut lane = CudaLane {
            team,
            crew,
            rank,
            device: &crew.seats[rank].device,
            tools,
            room,
            ahead: false,
            apart: false,
            taken: 0,
            staged: [None; 2],
            read: [None; 2],
            factored: Vec::new(),
            failed: false,
        };
        lane.give(CudaLane::start);
        lane
    }

    fn start(&mut self) -> Result<()> {
        let (room, main) = (self.room, self.main());
        let libraries = self.libraries()?;
        {
            let _entered = self.device.enter()?;
            for (k, stream) in [main, self.tools.side].into_iter().enumerate() {
                // SAFETY: memory of this call for this stream.
                unsafe {
                    let (at, bytes) = (room.blas[k], room.needs.blas);
                    libraries.blas.work_on(self.tools.blas[k], stream, at, bytes)?;
                }
            }
        }
        // What others have given to the caller's stream comes first.
        let before = self.mark(main)?;
        self.device.wait_for(before, self.tools.side)?;
        // SAFETY: scratch of this call; sums are added to what is there.
        unsafe { self.device.clear(room.sums, room.needs.sums, main) }
    }

    fn libraries(&self) -> Result<&'a Libraries> {
        self.device.vendor()
    }

    fn main(&self) -> Stream {
        self.crew.seats[self.rank].stream
    }

    fn stream(&self) -> Stream {
        if self.ahead { self.tools.side } else { self.main() }
    }

    fn handle(&self) -> BlasHandle {
        self.tools.blas[usize::from(self.ahead)]
    }

    /// Waits for all that has been given to the device and reports what factorisations have found. The
    /// tools come back: other ranks may still wait for their events until all have come to the end.
    pub fn close(mut self) -> (Result<()>, Tools) {
        let done = self.device.wait(self.tools.side).and(self.device.wait(self.main()));
        let closed = done.and_then(|()| match self.failed {
            true => Ok(()),
            false => self.report_infos(),
        });
        self.tools.reset();
        (closed, self.tools)
    }

    fn report_infos(&self) -> Result<()> {
        for (before, info) in self.factored.iter().zip(self.infos()?) {
            match usize::try_from(info) {
                Ok(0) => {}
                Ok(info) => self.team.report(before + info),
                Err(_) => return Err(refused(info)),
            }
        }
        Ok(())
    }

    fn infos(&self) -> Result<Vec<i32>> {
        let mut infos = vec![0; self.factored.len()];
        let bytes = infos.len() * size_of::<i32>();
        let from = Lines { at: self.room.infos, pitch: bytes };
        // SAFETY: one for each factorisation.
        unsafe {
            let to = infos.as_mut_ptr().cast();
            self.device.read_lines(from, bytes, 1, to, self.main())?;
        }
        Ok(infos)
    }

    /// Gives the device work, unless the call has failed.
    fn give(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) {
        if self.failed {
            return;
        }
        self.taken = 0;
        if let Err(error) = work(self) {
            self.fail_with(error);
        }
    }

    /// The same where something is read.
    fn ask<V>(&mut self, work: impl FnOnce(&mut Self) -> Result<V>) -> Step<V> {
        if self.failed {
            return Err(Stopped);
        }
        self.taken = 0;
        work(self).map_err(|error| self.fail_with(error))
    }

    fn fail_with(&mut self, error: Error) -> Stopped {
        self.failed = true;
        self.team.fail(error)
    }

    fn launch(&self, file: &'static str, entry: &str, arguments: &[u64]) -> Result<()> {
        let kernel = self.device.kernel(file, entry)?;
        // SAFETY: the callers give the arguments that the source says, of this call's memory.
        unsafe { self.device.launch(&kernel, arguments, self.stream()) }
    }

    /// An event for what the stream has been given so far.
    fn mark(&mut self, stream: Stream) -> Result<Event> {
        let event = self.tools.event(self.device)?;
        self.device.record(event, stream)?;
        Ok(event)
    }

    /// The caller's stream waits for the other one.
    fn join(&mut self) -> Result<()> {
        if std::mem::take(&mut self.apart) {
            let event = self.mark(self.tools.side)?;
            self.device.wait_for(event, self.main())?;
        }
        Ok(())
    }

    /// Interchanges rows, whose numbers are `pivots` in this rank's memory.
    fn interchange<T>(
        &mut self,
        x: Block<T>,
        first: usize,
        pivots: Block<i32>,
        back: bool,
    ) -> Result<()> {
        let size = size_of::<T>();
        let mut starts: Vec<usize> = (0..pivots.rows).step_by(INTERCHANGES).collect();
        if back {
            starts.reverse();
        }
        for start in starts {
            let count = INTERCHANGES.min(pivots.rows - start);
            let at = pivots.sub(start, 0, count, 1).ptr.addr() as u64;
            let arguments = [
                x.ptr.addr() as u64,
                x.row_stride as u64,
                x.col_stride as u64,
                x.cols as u64,
                (first + start) as u64,
                at,
                count as u64,
                u64::from(back),
            ];
            self.launch("rows", &format!("swap_rows_{size}"), &arguments)?;
        }
        Ok(())
    }

    /// What panel k says to the targets, in some rows.
    fn subtract<T: Scalar>(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        within: Range<usize>,
    ) -> Result<()> {
        let Some(first) = targets.clone().next() else { return Ok(()) };
        let (of_panel, n) = (a.columns.tile(k), a.columns.n());
        let rows = match update {
            Update::Cholesky => a.columns.tile(first).global..n,
            Update::Lu => of_panel.global + of_panel.width..n,
            Update::Above => 0..of_panel.global,
        };
        let rows = rows.start.max(within.start)..rows.end.min(within.end);
        if rows.is_empty() {
            return Ok(());
        }
        let whole = a.tile_column(k);
        // Of a panel of another rank, all that any target will ask for.
        let needed = match update {
            Update::Above => 0..of_panel.global,
            Update::Cholesky | Update::Lu => of_panel.global..n,
        };
        let panel = self.panel(whole, needed.clone(), k)?;
        let part =
            |rows: Range<usize>| panel.sub(rows.start - needed.start, 0, rows.len(), panel.cols);
        if update == Update::Cholesky {
            for j in targets {
                let tile = a.columns.tile(j);
                let rows = tile.global.max(rows.start)..rows.end;
                if rows.is_empty() {
                    continue;
                }
                let b = part(tile.global..tile.global + tile.width);
                let c = a.tile_column(j).sub(rows.start, 0, rows.len(), tile.width);
                self.multiply_at(c, -T::ONE, (part(rows), Op::None), (b, Op::Adjoint))?;
            }
        } else {
            for wide in side_by_side(a, targets) {
                let b = wide.sub(of_panel.global, 0, of_panel.width, wide.cols);
                let c = wide.sub(rows.start, 0, rows.len(), wide.cols);
                self.multiply_at(c, -T::ONE, (part(rows.clone()), Op::None), (b, Op::None))?;
            }
        }
        if let Some(used) = self.staged.iter().position(|s| s.is_some_and(|s| s.number == k))
            && !self.ahead
            && self.crew.seats.len() > 1
        {
            self.read[used] = Some(self.mark(self.main())?);
        }
        Ok(())
    }

    /// Rows of a panel in this rank's memory. Another rank's is copied beside the work on the caller's
    /// stream, once for all targets.
    fn panel<T: Scalar>(
        &mut self,
        whole: Block<T>,
        rows: Range<usize>,
        number: usize,
    ) -> Result<Block<T>> {
        let far = whole.sub(rows.start, 0, rows.len(), whole.cols);
        if self.is_near(far)? {
            return Ok(far);
        }
        let from = Piece::of(far);
        let place = number % 2;
        let near = Block::column_major(
            std::ptr::without_provenance_mut(self.room.panels[place] as usize),
            far.rows,
            far.cols,
            far.rows,
        );
        let staged = Some(Staged { from, number });
        if self.staged[place] != staged {
            let side = self.tools.side;
            if let Some(read) = self.read[place].take() {
                self.device.wait_for(read, side)?;
            }
            let (to, from) = (Piece::of(near), from);
            // SAFETY: a panel that its owner has announced, and this rank's scratch.
            unsafe { self.crew.copy(to.lines, from.lines, from.size(), self.device, side)? };
            self.staged[place] = staged;
            let copied = self.mark(side)?;
            self.device.wait_for(copied, self.main())?;
        }
        Ok(near)
    }
}

/// Tile columns as blocks of those that lie side by side in a shard.
fn side_by_side<T>(a: &Matrix<T>, tiles: impl Iterator<Item = usize>) -> Vec<Block<T>> {
    let mut blocks: Vec<Block<T>> = Vec::new();
    let mut end = None;
    for t in tiles {
        let tile = a.columns.tile(t);
        if end == Some((tile.rank, tile.local))
            && let Some(last) = blocks.last_mut()
        {
            last.cols += tile.width;
        } else {
            blocks.push(a.tile_column(t));
        }
        end = Some((tile.rank, tile.local + tile.width));
    }
    blocks
}

fn refused(info: i32) -> Error {
    let text = format!(
        "meshsolve: cuSOLVER: expected arguments that it takes, got info = {info}; this is a defect of \
         meshsolve"
    );
    Error::new(Kind::Internal, text)
}

/// As `kernels/scale.cu` and `moduli.cu` call the types.
fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::C64 => "c64",
        DType::C128 => "c128",
        _ => "f64",
    }
}

fn address<T>(block: Block<T>) -> Address {
    block.ptr.addr() as Address
}

impl<T: Scalar> Backend<T> for CudaLane<'_> {
    const IS_RANK: bool = true;
    const FLUSHES: bool = false;

    fn lane(&self) -> usize {
        self.rank
    }

    fn lanes(&self) -> usize {
        self.crew.seats.len()
    }

    fn potrf(&mut self, a: Block<T>, before: usize) -> Step {
        self.ask(|lane| {
            let info = lane.room.infos + (lane.factored.len() * size_of::<i32>()) as Address;
            lane.factored.push(before);
            let workspace = Workspace { at: lane.room.solver, bytes: lane.room.needs.solver, info };
            let near = lane.near(a)?;
            let operand = Form::of(near, Op::None).operand();
            {
                let (solver, stream) = (&lane.libraries()?.solver, lane.stream());
                let _entered = lane.device.enter()?;
                solver.work_on(&lane.tools.solver, stream)?;
                // SAFETY: this rank's tile, which others read after it is announced.
                unsafe { solver.potrf::<T>(&mut lane.tools.solver, a.rows, operand, workspace)? };
            }
            // LAPACK's rule, whatever the library says of pivots that are no numbers.
            let arguments = [operand.at, operand.leading as u64, a.rows as u64, info];
            lane.launch("pivots", &format!("find_no_number_{}", suffix(T::DTYPE)), &arguments)?;
            lane.back(near, a)
        })
    }

    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>) {
        self.give(|lane| lane.solve_right_at((l, Op::Adjoint), Triangle::Lower, x));
    }

    fn trsm_right(&mut self, a: Block<T>, triangle: Triangle, x: Block<T>) {
        self.give(|lane| lane.solve_right_at((a, Op::None), triangle, x));
    }

    fn trtri(&mut self, a: Block<T>, triangle: Triangle) {
        self.give(|lane| {
            let n = a.rows;
            let ptr = std::ptr::without_provenance_mut(lane.room.own as usize);
            let inverse = Block::<T>::column_major(ptr, n, n, n);
            lane.identity(inverse)?;
            // The transpose, of which a triangle is mirrored to its place.
            lane.solve_left((a, Op::Transpose), triangle, inverse)?;
            let near = lane.near(a)?;
            lane.reflect(inverse, near, Some(triangle.is_lower()), false)?;
            lane.back(near, a)
        });
    }

    fn trmm(&mut self, a: Block<T>, triangle: Triangle, alpha: T, x: Block<T>) {
        self.give(|lane| {
            let (near, home) = (lane.near(x)?, x);
            let a = lane.near(a)?;
            let form = Form::of(a, Op::None);
            assert!(is_columns(&near) && form.op() == Op::None, "columns of a matrix");
            let _entered = lane.device.enter()?;
            let (blas, handle) = (&lane.libraries()?.blas, lane.handle());
            let x = Form::of(near, Op::None).operand();
            // SAFETY: operands of this call by its phases.
            unsafe {
                blas.trmm(handle, triangle, [near.rows, near.cols], alpha, form.operand(), x)?;
            }
            lane.back(near, home)
        });
    }

    fn getrf(
        &mut self,
        panel: Block<T>,
        first: usize,
        pivots: Block<i32>,
        group: &mut Group,
    ) -> Step {
        assert_eq!(group.size, 1, "a rank has its panels alone");
        self.ask(|lane| {
            let info = lane.room.infos + (lane.factored.len() * size_of::<i32>()) as Address;
            lane.factored.push(first);
            let workspace = Workspace { at: lane.room.solver, bytes: lane.room.needs.solver, info };
            let here = lane.near(panel)?;
            let (operand, from) = (Form::of(here, Op::None).operand(), lane.room.panel_pivots);
            {
                let (solver, stream) = (&lane.libraries()?.solver, lane.stream());
                let _entered = lane.device.enter()?;
                solver.work_on(&lane.tools.solver, stream)?;
                let shape = [panel.rows, panel.cols];
                // SAFETY: this rank's panel, which others read after it is announced.
                unsafe {
                    solver.getrf::<T>(&mut lane.tools.solver, shape, operand, from, workspace)?;
                }
            }
            lane.back(here, panel)?;
            let near = lane.near(pivots)?;
            let (count, rows) = (near.rows as u64, panel.rows as u64);
            let arguments = [address(near), from, count, first as u64, rows];
            lane.launch("pivots", "number_pivots", &arguments)?;
            lane.back(near, pivots)
        })
    }

    fn swap_rows(&mut self, x: Block<T>, first: usize, pivots: Block<i32>, back: bool) {
        self.give(|lane| {
            let pivots = lane.near(pivots)?;
            let near = lane.near(x)?;
            lane.interchange(near, first, pivots, back)?;
            lane.back(near, x)
        });
    }

    fn interchanged(&mut self, pivots: Block<i32>) -> Step<Vec<usize>> {
        self.ask(|lane| {
            let near = lane.near(pivots)?;
            let mut numbers = vec![0i32; near.rows];
            let piece = Piece::of(near);
            let to = numbers.as_mut_ptr().cast();
            // SAFETY: as many numbers.
            unsafe {
                lane.device.read_lines(piece.lines, piece.width, piece.height, to, lane.main())?
            };
            let mut rows: Vec<usize> = (0..numbers.len()).collect();
            numbers.iter().enumerate().for_each(|(i, &p)| rows.swap(i, p as usize));
            Ok(rows)
        })
    }

    fn update(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
    ) {
        self.give(|lane| lane.subtract(a, k, targets, update, 0..a.columns.n()));
    }

    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        rows: Range<usize>,
    ) {
        self.give(|lane| lane.subtract(a, k, targets, update, rows));
    }

    fn trsm(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
        self.give(|lane| {
            let near = lane.near(x)?;
            lane.solve_left((a, op), triangle, near)?;
            lane.back(near, x)
        });
    }

    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>) {
        self.give(|lane| lane.multiply_at(c, alpha, (a, op), (b, Op::None)));
    }

    fn add(&mut self, c: Block<T>, s: Block<T>) {
        self.give(|lane| {
            let (near, s) = (lane.near(c)?, lane.near(s)?);
            lane.raise(near, s)?;
            lane.back(near, c)
        });
    }

    fn largest(&mut self, x: Block<T>) -> Step<f64> {
        let x = if is_columns(&x) { x } else { x.transposed() };
        self.moduli(x, None).map(|found| found.entry)
    }

    fn moduli(&mut self, x: Block<T>, rows: Option<Block<f64>>) -> Step<Moduli> {
        self.ask(|lane| lane.sums(x, rows))
    }

    fn add_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.give(|lane| lane.add_sums(x, sums));
    }

    fn squares(&mut self, x: Block<T>) -> Step<Squares> {
        self.ask(|lane| lane.sum_squares(x))
    }

    fn hermitian_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.give(|lane| lane.hermitian_sums(x, sums));
    }

    /// Subnormal numbers cost nothing here.
    fn keep_subnormals(&mut self, _: bool) {}

    fn ahead(&mut self, on: bool) {
        if on && !self.ahead {
            self.give(|lane| {
                let event = lane.mark(lane.main())?;
                lane.device.wait_for(event, lane.tools.side)
            });
            self.apart = true;
        }
        self.ahead = on;
    }

    fn copy(&mut self, from: Block<T>, to: Block<T>) {
        self.give(|lane| lane.put_at(from, to));
    }

    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool, conjugated: bool) {
        self.give(|lane| {
            let (source, target) = (lane.near(from)?, lane.near(to)?);
            lane.reflect(source, target, diagonal.then_some(true), conjugated)?;
            lane.back(target, to)
        });
    }

    fn fill(&mut self, to: Block<T>, value: T) {
        if value == T::ZERO {
            self.give(|lane| {
                let near = lane.near(to)?;
                let Piece { lines, width, height } = Piece::of(near);
                // SAFETY: a block of this call by its phases.
                unsafe { lane.device.clear_lines(lines, width, height, lane.stream())? };
                lane.back(near, to)
            });
        } else {
            self.put(&vec![value; to.rows * to.cols], to);
        }
    }

    fn clear_outside(&mut self, a: Block<T>, triangle: Triangle) {
        self.give(|lane| {
            let near = lane.near(a)?;
            let (stored, lower) = match is_columns(&near) {
                true => (near, triangle.is_lower()),
                false => (near.transposed(), !triangle.is_lower()),
            };
            let (rows, cols) = (stored.rows as u64, stored.cols as u64);
            let stride = stored.col_stride as u64;
            let arguments = [address(stored), stride, rows, cols, u64::from(lower)];
            lane.launch("triangle", &format!("clear_outside_{}", size_of::<T>()), &arguments)?;
            lane.back(near, a)
        });
    }

    fn conjugate(&mut self, x: Block<T>) {
        if T::IS_COMPLEX {
            self.give(|lane| {
                let near = lane.near(x)?;
                lane.conjugate_in_place(near)?;
                lane.back(near, x)
            });
        }
    }

    fn get(&mut self, from: Block<T>, to: &mut [T]) -> Step {
        self.ask(|lane| {
            let near = lane.near(from)?;
            let piece = Piece::of(near);
            let mut stored = vec![T::ZERO; to.len()];
            // SAFETY: as many elements.
            unsafe {
                let at = stored.as_mut_ptr().cast();
                lane.device.read_lines(
                    piece.lines,
                    piece.width,
                    piece.height,
                    at,
                    lane.stream(),
                )?;
            }
            reorder(&mut stored, near, |stored, row| to[row] = *stored);
            Ok(())
        })
    }

    fn put(&mut self, from: &[T], to: Block<T>) {
        self.give(|lane| {
            let near = lane.near(to)?;
            let mut stored = vec![T::ZERO; from.len()];
            reorder(&mut stored, near, |stored, row| *stored = from[row]);
            let piece = Piece::of(near);
            // SAFETY: as many elements.
            unsafe {
                let at = stored.as_ptr().cast();
                lane.device.write_lines(
                    piece.lines,
                    at,
                    piece.width,
                    piece.height,
                    lane.stream(),
                )?;
            }
            lane.back(near, to)
        });
    }

    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[*mut T],
        _: Block<T>,
        _: *mut T,
    ) -> Step {
        self.ask(|lane| {
            let (data, scratch) = (shards[lane.rank].addr() as Address, lane.room.transposition);
            // SAFETY: this rank's shard, of the plan's shape, and scratch of this call for it.
            unsafe { transposition::transpose(lane.device, plan, data, scratch, lane.main()) }
        })?;
        Backend::<T>::barrier(self)
    }

    fn transpose_square(&mut self, a: &Matrix<T>) -> Step {
        // Nobody writes into another rank's shard while that has work of its own there.
        Backend::<T>::barrier(self)?;
        self.ask(|lane| {
            let (size, ranks, n) = (size_of::<T>(), a.columns.ranks(), a.columns.n());
            lane.crew.seats.iter().try_for_each(|seat| lane.device.reach(&seat.device))?;
            let table: Vec<u64> = a.shards.iter().map(|shard| address(*shard)).collect();
            let bytes = size_of_val(&table[..]);
            let place = Lines { at: lane.room.arenas[0], pitch: bytes };
            assert!(bytes <= lane.room.needs.arenas[0], "room for the table");
            // SAFETY: scratch of this rank.
            unsafe {
                lane.device.write_lines(place, table.as_ptr().cast(), bytes, 1, lane.main())?;
            }
            let tiles = ranks * (n / ranks).div_ceil(transpose::device::tile_side(size));
            let pairs = tiles * (tiles + 1) / 2;
            let share = |rank: usize| (pairs as u128 * rank as u128 / ranks as u128) as u64;
            let arguments =
                [place.at, ranks as u64, n as u64, share(lane.rank), share(lane.rank + 1)];
            lane.launch("transpose_square", &format!("transpose_shards_{size}"), &arguments)
        })?;
        Backend::<T>::barrier(self)
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        let ranks = self.crew.seats.len();
        self.give(|lane| {
            if ranks > 1 || lane.ahead {
                let event = lane.mark(lane.stream())?;
                lane.crew.announce(signal, count, event);
            }
            Ok(())
        });
        if !self.failed {
            self.team.signal(signal).announce(count);
        }
    }

    fn wait(&mut self, signal: Signal, count: usize) -> Step {
        self.team.signal(signal).wait(count)?;
        self.ask(|lane| {
            let Some(event) = lane.crew.event(signal, count) else { return Ok(()) };
            lane.device.wait_for(event, lane.main())?;
            if signal == Signal::Panels {
                lane.device.wait_for(event, lane.tools.side)?;
            }
            Ok(())
        })
    }

    fn sharers(&self, _: usize) -> usize {
        1
    }

    fn meeting(&self) -> f64 {
        f64::INFINITY
    }

    fn meet(&mut self, group: &mut Group) -> Step {
        assert_eq!(group.size, 1, "a rank has its panels alone");
        Ok(())
    }

    fn barrier(&mut self) -> Step {
        let number = self.ask(|lane| {
            lane.join()?;
            let event = lane.mark(lane.main())?;
            Ok(lane.crew.arrive(lane.rank, event))
        })?;
        self.team.barrier().wait()?;
        self.ask(|lane| {
            let events = lane.crew.at_barrier(lane.rank, number);
            let main = lane.main();
            events.into_iter().try_for_each(|event| lane.device.wait_for(event, main))?;
            // What lay in others' panels may be another thing now.
            lane.staged = [None; 2];
            Ok(())
        })
    }

    fn fail(&mut self, error: Error) -> Stopped {
        self.fail_with(error)
    }

    fn report(&mut self, info: usize) {
        self.team.report(info);
    }

    /// Panels are given to the device long before it factors them: there is nothing to tell.
    fn progress(&mut self, _: usize, _: usize) {}
}

/// Visits the elements as a block is stored in memory, each with its number row by row.
fn reorder<T>(stored: &mut [T], block: Block<T>, mut visit: impl FnMut(&mut T, usize)) {
    let by_columns = is_columns(&block);
    for (k, element) in stored.iter_mut().enumerate() {
        let number = if by_columns { k % block.rows * block.cols + k / block.rows } else { k };
        visit(element, number);
    }
}
