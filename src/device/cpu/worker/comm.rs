//! What a worker does with the others, whose memory it reaches.

use std::ops::Range;

use bytemuck::Pod;

use super::{CpuWorker, copy_bits};
use crate::comm::{Comm, Communicator, Group, Phase, Step};
use crate::device::cpu::blas;
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix, Panel, Remote};
use crate::scalar::Scalar;
use crate::transpose::Square;

impl<T: Scalar> Comm for CpuWorker<'_, T> {
    const IS_RANK: bool = false;

    fn worker(&self) -> usize {
        self.worker
    }

    fn communicator(&self) -> &Communicator {
        self.comm
    }

    fn entered(&mut self) -> &mut usize {
        &mut self.phases
    }

    fn broadcast<'c, U: Scalar>(
        &mut self,
        a: &DistMatrix<'c, U>,
        k: TileColumn,
        rows: Range<GlobalRow>,
    ) -> Step<Panel<'c, U>> {
        let cells = a.rows_of(k, rows.clone());
        Ok(Panel::new(a, k, rows, cells))
    }

    fn fetch<'c, U: Scalar>(&mut self, there: Remote<'c, U>) -> Step<Cells<'c, U>> {
        Ok(there.cells())
    }

    fn receive<U: Pod>(&mut self, there: Remote<U>, here: Cells<U>) {
        let there = there.cells();
        if there.as_ptr() != here.as_ptr() {
            copy_bits(self.read(there), self.write(here));
        }
    }

    fn exchange_columns<'c, U: Scalar + 'c>(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Remote<'c, U>>>,
        spare: Option<Cells<'c, U>>,
    ) {
        self.traced("exchange columns", None, |worker| {
            let copy = |from, to| blas::copy(worker.read(from), worker.write(to));
            for mut list in lists.map(|list| list.map(Remote::cells)) {
                let Some(first) = list.next() else { continue };
                if let Some(spare) = spare {
                    copy(first, spare);
                }
                let mut last = first;
                for next in list {
                    copy(next, last);
                    last = next;
                }
                if let Some(spare) = spare {
                    copy(spare, last);
                }
            }
        });
    }

    fn transpose_square<U: Scalar>(&mut self, a: &DistMatrix<U>) -> Step {
        assert!(a.is_square_by_columns(), "a square matrix by whole columns");
        self.traced("transpose across", None, |worker| {
            let square = Square::new(a.n(), a.columns().ranks(), size_of::<U>());
            let (units, workers) = (square.units(), worker.workers());
            let share = |worker: usize| (units as u128 * worker as u128 / workers as u128) as usize;
            // A column of the matrix is a row for `transpose`.
            let part = |rank: usize| a.shard(rank).flat().as_ptr().cast();
            // SAFETY: *memory* of the shards, which are contiguous. *Order*, promised to
            // `CpuWorker::new`: workers have different units, and meet at the end.
            unsafe { square.run(share(worker.worker)..share(worker.worker + 1), part) };
            worker.barrier()
        })
    }

    fn announce(&mut self, phase: &Phase, count: usize) {
        phase.announce(self.worker, count);
    }

    fn wait(&mut self, phase: &Phase, worker: usize, count: usize) -> Step {
        phase.wait(worker, count)
    }

    fn sharers(&self, rows: usize) -> usize {
        let sharing = self.comm.sharing();
        self.comm.workers().min(sharing.workers).min(rows / sharing.rows).max(1)
    }

    fn group_barrier(&mut self, group: &mut Group) -> Step {
        self.traced("group barrier", None, |worker| {
            group.barrier(worker.worker, worker.comm.workers())
        })
    }

    fn barrier(&mut self) -> Step {
        self.traced("barrier", None, |worker| worker.comm.barrier().wait())
    }
}
