//! Cholesky and LU factors over processes, by the kernels of one process. As there
//! (`algorithms::cholesky`, `algorithms::lu`) the owner of the next panel updates and factors that
//! before its other columns. Then the panel is on its way to the others while all update theirs.
//!
//! ScaLAPACK's p?potrf and p?getrf have no lookahead, and all wait for each panel.

use std::thread;
use std::time::Instant;

use super::Part;
use super::panels::Panels;
use crate::algorithms::lu::finish_row;
use crate::algorithms::share_of_square;
use crate::comm::{Communicator, Group};
use crate::device::cpu::float_mode::FloatMode;
use crate::device::cpu::{CpuWorker, scratch_elements};
use crate::device::{Device, Op, Side, Triangle, Update};
use crate::error::Result;
use crate::layout::{Distribution, Layout, Mapping, TileColumn};
use crate::log::{self, Task};
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::processes::{self, Grid};
use crate::scalar::Scalar;

/// Tile columns of a thread that are updated before messages go on.
const GROUP: usize = 8;

/// Elements of scratch of each thread, for tiles of so many columns.
pub fn scratch<T: Scalar>(width: usize) -> usize {
    scratch_elements::<T>(width, GROUP)
}

/// Threads of this process that have tile columns to update.
pub fn threads(tiles: usize) -> usize {
    processes::launch().map_or(1, |launch| launch.threads).min(tiles).max(1)
}

impl<T: Scalar> Part<T> {
    /// Factors B. Gives the number, from 1 on, of a pivot of this process that is not usable, or 0.
    pub(super) fn factor(&mut self, grid: &Grid, update: Update) -> Result<usize> {
        let (n, order, me) = (self.n(), self.order, grid.ranks.rank());
        let cut =
            Distribution::whole_columns((n, n), order.ranks, order.width, Mapping::BlockCyclic);
        let (comm, at) = (Communicator::new(1), self.a());
        // SAFETY: this process' columns of B, which only this call uses. The shards of others are not
        // reached.
        let shard = |rank| unsafe { Cells::new(at, &Layout::left((n, order.local())), rank) };
        let shards = (0..order.ranks).map(shard).collect();
        let (mut pivots, mut work) =
            (std::mem::take(&mut self.pivots), std::mem::take(&mut self.work));
        pivots.resize(n.max(pivots.len()), 0);
        let parts = work.chunks_exact_mut(scratch::<T>(order.width)).take(threads(order.tiles()));
        let scratch: Vec<_> = parts.map(Cells::of).collect();
        let mut factorisation = Factorisation {
            a: DistMatrix::new(shards, &cut).seen_from(Some(me)),
            update,
            me,
            pivots: Cells::of(&mut pivots[..n]),
            comm: &comm,
            scratch,
            panels: Panels::new(&grid.ranks, order.width, &mut self.staged),
            task: self.task,
        };
        factorisation.run()?;
        drop(factorisation);
        (self.pivots, self.work) = (pivots, work);
        Ok(comm.info())
    }
}

struct Factorisation<'a, T> {
    a: DistMatrix<'a, T>,
    update: Update,
    me: usize,
    /// Rows, of the matrix.
    pivots: Cells<'a, i32>,
    comm: &'a Communicator,
    /// Of each thread.
    scratch: Vec<Cells<'a, T>>,
    panels: Panels<'a, T>,
    /// For reports of progress.
    task: Option<(Task, Instant)>,
}

impl<'a, T: Scalar> Factorisation<'a, T> {
    fn worker(&self) -> CpuWorker<'a, T> {
        worker(self.comm, self.scratch[0], self.a.columns().widest())
    }

    fn run(&mut self) -> Result<()> {
        let (columns, first) = (self.a.columns(), TileColumn::new(0));
        self.prepare(first)?;
        for k in columns.each() {
            let Some(panel) = self.bring(k)? else { break };
            let next = k + 1;
            if next < columns.end() {
                let own = TileColumn::each(next..columns.end());
                let own: Vec<_> = own.filter(|&t| columns.tile(t).rank == self.me).collect();
                let (ahead, others) = own.split_at(usize::from(own.first() == Some(&next)));
                self.apply(&panel, ahead)?;
                self.prepare(next)?;
                self.apply(&panel, others)?;
            }
            if let Some((task, begun)) = &self.task {
                log::report(task, *begun, share_of_square(next.get(), columns.count()));
            }
        }
        (0..2).try_for_each(|either| self.panels.finish(either))?;
        if self.update == Update::Lu {
            self.swap_rows_of_l();
        }
        Ok(())
    }

    /// Makes a panel and sends it, or begins to receive it.
    fn prepare(&mut self, k: TileColumn) -> Result<()> {
        let tile = self.a.columns().tile(k);
        let rows = self.a.all_rows().end - tile.rows().start;
        if tile.rank == self.me {
            let failed = self.make(k);
            let panel = self.a.rows_of(k, tile.rows().start..self.a.all_rows().end);
            let pivots = self.pivots.matrix_rows(tile.rows());
            let (numbers, columns) = self.panels.message(k.get())?;
            numbers[0] = failed.into();
            // SAFETY: this process' own memory, which no other thread uses now.
            let (panel, pivots) = unsafe { (panel.read(), pivots.read()) };
            for (to, from) in numbers[1..].iter_mut().zip(pivots.col_iter().flat_map(|c| c.iter()))
            {
                *to = *from;
            }
            for (to, from) in columns.chunks_exact_mut(rows).zip(panel.col_iter()) {
                to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to = *from);
            }
        }
        self.panels.begin(k.get(), rows, tile.rank)
    }

    /// Factors a panel of this process; whether it has failed.
    fn make(&mut self, k: TileColumn) -> bool {
        let (mut worker, rows) = (self.worker(), self.a.columns().tile(k).rows());
        match self.update {
            Update::Cholesky => {
                let diagonal = self.a.diagonal(k);
                let done = worker.potrf(diagonal, rows.start);
                if done.is_ok() {
                    let below = self.a.below(k);
                    worker.trsm(Side::Right, diagonal, Triangle::Lower, Op::Adjoint, below);
                }
                done.is_err()
            }
            _ => {
                let panel = self.a.rows_of(k, rows.start..self.a.all_rows().end);
                let pivots = self.pivots.matrix_rows(rows.clone());
                worker.getrf(panel, rows.start, pivots, &mut Group::new(0, 1, None)).is_err()
            }
        }
    }

    /// A finished panel, as this process has it; `None` if it has failed.
    fn bring(&mut self, k: TileColumn) -> Result<Option<Panel<'a, T>>> {
        let tile = self.a.columns().tile(k);
        let rows = tile.rows().start..self.a.all_rows().end;
        let height = rows.end - rows.start;
        if tile.rank == self.me {
            let panel = Panel::new(&self.a, k, rows.clone(), self.a.rows_of(k, rows));
            return Ok((!self.comm.is_stopped()).then_some(panel));
        }
        let own_pivots = self.pivots.matrix_rows(tile.rows());
        let (numbers, columns) = self.panels.message(k.get())?;
        if numbers[0] != 0 {
            return Ok(None);
        }
        // SAFETY: this process' own memory, which no other thread uses now.
        let own_pivots = unsafe { own_pivots.write() };
        let to = own_pivots.col_iter_mut().flat_map(|column| column.iter_mut());
        to.zip(&numbers[1..]).for_each(|(to, from)| *to = *from);
        let layout = Layout::left((height, tile.width));
        // SAFETY: memory that is borrowed for 'a, with so many elements. The next message in it is
        // that of panel k + 2, which begins when this one has been used.
        let cells = unsafe { Cells::new(columns.as_mut_ptr(), &layout, self.me) };
        Ok(Some(Panel::new(&self.a, k, rows, cells)))
    }

    /// Updates tile columns of this process by a panel, all threads some of them.
    fn apply(&mut self, panel: &Panel<T>, targets: &[TileColumn]) -> Result<()> {
        let threads = self.scratch.len().min(targets.len()).max(1);
        let share = |thread: usize| -> Vec<_> {
            targets.iter().copied().skip(thread).step_by(threads).collect()
        };
        let (a, update, pivots, comm) = (&self.a, self.update, self.pivots, self.comm);
        let widest = a.columns().widest();
        let (panels, scratch) = (&mut self.panels, &self.scratch);
        thread::scope(|scope| {
            let mut mine = share(0);
            for (thread, &own) in scratch.iter().enumerate().take(threads).skip(1) {
                let its = share(thread);
                let work = move || {
                    FloatMode::IEEE.enter();
                    let mut worker = worker(comm, own, widest);
                    apply_to(&mut worker, a, panel, &its, update, pivots);
                };
                // Without a thread this one does its part, too.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    mine.extend(share(thread));
                }
            }
            mine.sort_unstable();
            let mut worker = worker(comm, scratch[0], widest);
            for some in mine.chunks(GROUP) {
                apply_to(&mut worker, a, panel, some, update, pivots);
                panels.poll()?;
            }
            Ok(())
        })
    }

    /// The row interchanges of later panels, in columns of L.
    fn swap_rows_of_l(&mut self) {
        let (columns, mut worker) = (self.a.columns(), self.worker());
        for t in columns.each().filter(|&t| columns.tile(t).rank == self.me) {
            let rest = columns.tile(t).rows().end..self.a.all_rows().end;
            let pivots = self.pivots.matrix_rows(rest.clone());
            worker.swap_rows(self.a.tile_column(t), rest.start, pivots, false);
        }
    }
}

fn worker<'a, T: Scalar>(
    comm: &'a Communicator,
    scratch: Cells<'a, T>,
    widest: usize,
) -> CpuWorker<'a, T> {
    // SAFETY: threads have scratch of their own, and different columns of the matrix. All meet before
    // what they have written is read.
    unsafe { CpuWorker::new(comm, 0, widest, scratch) }
}

fn apply_to<T: Scalar>(
    worker: &mut CpuWorker<T>,
    a: &DistMatrix<T>,
    panel: &Panel<T>,
    targets: &[TileColumn],
    update: Update,
    pivots: Cells<i32>,
) {
    if update == Update::Lu {
        targets.iter().for_each(|&t| finish_row(worker, pivots, panel, a.tile_column(t)));
    }
    worker.update(a, panel, targets.iter().copied(), update, a.all_rows());
}
