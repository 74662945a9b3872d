//! One rank of a call on a CUDA device: a worker with operations on streams.
//!
//! A rank's host thread runs the algorithm and submits work to its device. It waits for other host
//! threads where the algorithm waits for an announcement, and makes its streams wait for the matching
//! events. Kernels use this rank's memory alone; what others have comes through `Comm`. There are two
//! streams: the caller's, and a second one for panels that others wait for (`Worker::ahead`). The
//! caller's stream waits for it at an announcement or a barrier. Other ranks' panels arrive there,
//! too.
//!
//! A failure of the driver or of a library ends the call for all ranks at their next wait.

use std::ops::Range;
use std::time::Instant;

use bytemuck::Pod;

use super::communicator::CudaCommunicator;
use super::device::Device;
use super::device::queue::{Event, Lines};
use super::device::tools::Tools;
use super::handle::{Address, Stream};
use super::rank_scratch::RankScratch;
use super::sources::suffix;
use super::transposition;
use super::vendor::blas::BlasHandle;
use super::vendor::nccl::Clique;
use super::vendor::solver::Workspace;
use super::vendor::{Libraries, Operand};
use crate::comm::{Comm, Communicator, Group, Phase, Signal, Step, Stopped};
use crate::device::{Moduli, Op, Side, Squares, Triangle, Update, Worker};
use crate::error::{Error, Kind, Result};
use crate::layout::{GlobalRow, Layout, TileColumn};
use crate::log::{self, Task};
use crate::matrix::{Cells, DistMatrix, Panel, Remote};
use crate::scalar::{DType, Scalar};
use crate::settings::Float64;
use crate::transpose;

mod backend;
pub mod columns;
pub mod interchanges;
mod operands;
mod panels;
mod reflectors;
mod whole;

use interchanges::Found;
use operands::{Form, Piece, is_columns, stored};

/// Tiles of one product. It is short enough that panels on the other stream soon find free
/// multiprocessors, and wide enough to keep all of them busy.
const TILES_OF_PIECE: usize = 8;

/// The same as in `kernels/pivots.cu`.
const NOT_FINITE: usize = 1 << 30;

pub struct CudaWorker<'a> {
    comm: &'a Communicator,
    cuda_comm: &'a CudaCommunicator,
    /// Present where NCCL transfers panels.
    clique: Option<&'a Clique>,
    rank: usize,
    /// The number of phases that it has entered.
    phases: usize,
    device: &'a Device,
    tools: Tools,
    scratch: RankScratch,
    /// `ahead`: whether the next work goes to the side stream. `apart`: whether the caller's stream
    /// has yet to wait for work there.
    ahead: bool,
    apart: bool,
    /// Bytes of an arena that the present operation has taken.
    taken: usize,
    /// Which of two buffers has the last panel of another rank.
    buffer: usize,
    /// What the caller's stream had when that panel came.
    used: Option<Event>,
    /// Whether the side stream has yet to wait for what came before the last barrier.
    met: bool,
    /// Rows of the matrix before each tile or panel that has been factored.
    factored: Vec<usize>,
    /// Interchanges with known moves, by stream.
    found: [Found; 2],
    /// Whether kernels may use addresses of all ranks; none before the first check.
    reaches: Option<bool>,
    failed: bool,
    /// The stage of the call, and when all ranks had come.
    task: Option<Task>,
    since: Instant,
}

impl<'a> CudaWorker<'a> {
    /// # Safety
    /// *Memory* and *order* (see [`Cells`]), for all operands of this worker's operations and for
    /// `scratch`, on the devices of `cuda_comm`: the ranks run one routine on the same views. The
    /// order is that of the streams, which wait for each other's events.
    pub unsafe fn new(
        comm: &'a Communicator,
        cuda_comm: &'a CudaCommunicator,
        clique: Option<&'a Clique>,
        rank: usize,
        tools: Tools,
        scratch: RankScratch,
    ) -> CudaWorker<'a> {
        let mut worker = CudaWorker {
            comm,
            cuda_comm,
            clique,
            rank,
            phases: 0,
            device: &cuda_comm.seats[rank].device,
            tools,
            scratch,
            ahead: false,
            apart: false,
            taken: 0,
            buffer: 0,
            used: None,
            met: false,
            factored: Vec::new(),
            found: Default::default(),
            reaches: None,
            failed: false,
            task: None,
            since: Instant::now(),
        };
        worker.give(CudaWorker::start);
        worker
    }

    fn start(&mut self) -> Result<()> {
        let (scratch, main) = (self.scratch, self.main());
        let libraries = self.libraries()?;
        let float64 = self.cuda_comm.float64;
        self.tools.multiply(self.device, float64)?;
        {
            let _entered = self.device.enter()?;
            for (k, stream) in [main, self.tools.side].into_iter().enumerate() {
                // Emulation needs a larger workspace: the library's own.
                let ours = Some((scratch.blas[k], scratch.needs.blas));
                let memory = ours.filter(|_| float64 == Float64::Native);
                // SAFETY: this rank's scratch, promised to `new`, for this stream alone.
                unsafe { libraries.blas.work_on(self.tools.blas[k], stream, memory)? };
            }
        }
        // Earlier work on the caller's stream comes first.
        let before = self.mark(main)?;
        self.device.wait_for(before, self.tools.side)?;
        // SAFETY: this rank's scratch, promised to `new`. It must be zero: sums are added to it.
        unsafe { self.device.clear(scratch.sums, scratch.needs.sums, main) }
    }

    fn libraries(&self) -> Result<&'a Libraries> {
        self.device.vendor()
    }

    fn main(&self) -> Stream {
        self.cuda_comm.seats[self.rank].stream
    }

    fn stream(&self) -> Stream {
        if self.ahead { self.tools.side } else { self.main() }
    }

    fn handle(&self) -> BlasHandle {
        self.tools.blas[usize::from(self.ahead)]
    }

    /// Waits for all work of the device and reports what factorisations have found. Returns the
    /// tools: other ranks may wait for their events until all reach the end.
    pub fn close(mut self) -> (Result<()>, Tools) {
        let done = self.device.wait(self.main()).and(self.device.wait(self.tools.side));
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
                Ok(info) => self.comm.report(before + info % NOT_FINITE, info < NOT_FINITE),
                Err(_) => return Err(refused(info)),
            }
        }
        Ok(())
    }

    /// The address for `info` of the next factorisation: of a tile or panel from this row on.
    fn next_info(&mut self, first: GlobalRow) -> Address {
        self.factored.push(first.get());
        self.scratch.infos + ((self.factored.len() - 1) * size_of::<i32>()) as Address
    }

    /// Applies the rule for pivots that are not finite, whatever the library reports for them.
    fn find_no_number<T: Scalar>(&self, factor: Cells<T>, info: Address) -> Result<()> {
        let Operand { at, leading, .. } = Form::of(factor, Op::None).operand();
        let arguments = [at, leading as u64, factor.rows().min(factor.cols()) as u64, info];
        let entry = format!("find_no_number_{}", suffix(T::DTYPE));
        let kernel = self.device.kernel("pivots", &entry)?.on_blocks(1);
        // SAFETY: the source's arguments; *memory* and *order* as promised to `CudaWorker::new`.
        unsafe { self.device.launch(&kernel, &arguments, self.stream()) }
    }

    fn infos(&self) -> Result<Vec<i32>> {
        let mut infos = vec![0; self.factored.len()];
        let bytes = infos.len() * size_of::<i32>();
        let from = Lines { at: self.scratch.infos, pitch: bytes };
        // SAFETY: one number for each factorisation, in scratch that is promised to `new`.
        unsafe {
            let to = infos.as_mut_ptr().cast();
            self.device.read_lines(from, bytes, 1, to, self.main())?;
        }
        Ok(infos)
    }

    /// Submits work to the device, unless the call has failed.
    fn give(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) {
        if self.failed {
            return;
        }
        self.taken = 0;
        if let Err(error) = work(self) {
            self.fail_with(error);
        }
    }

    /// The same for work that returns a value.
    fn ask<V>(&mut self, work: impl FnOnce(&mut Self) -> Result<V>) -> Step<V> {
        if self.failed {
            return Err(Stopped);
        }
        self.taken = 0;
        work(self).map_err(|error| self.fail_with(error))
    }

    fn fail_with(&mut self, error: Error) -> Stopped {
        self.failed = true;
        let stopped = self.comm.fail(error);
        // After this, no device waits for operations that this rank will not submit.
        if let Some(clique) = self.clique {
            clique.abort(self.device.context());
        }
        stopped
    }

    /// `rows x cols` elements by columns, in a part of this rank's scratch with `room` bytes.
    fn in_scratch<'c, T>(
        &self,
        (at, room): (Address, usize),
        rows: usize,
        cols: usize,
    ) -> Cells<'c, T> {
        assert!(rows * cols * size_of::<T>() <= room, "inside the scratch");
        let first = std::ptr::without_provenance_mut(at as usize);
        // SAFETY: *memory* of the scratch, promised to `new` for the call.
        unsafe { Cells::new(first, &Layout::left((rows, cols)), self.rank) }
    }

    fn launch(&self, file: &'static str, entry: &str, arguments: &[u64]) -> Result<()> {
        let kernel = self.device.kernel(file, entry)?;
        // SAFETY: the callers pass the arguments of the kernel's source, in memory promised to
        // `new`.
        unsafe { self.device.launch(&kernel, arguments, self.stream()) }
    }

    /// An event for all work that the stream has now.
    fn mark(&mut self, stream: Stream) -> Result<Event> {
        let event = self.tools.event(self.device)?;
        self.device.record(event, stream)?;
        Ok(event)
    }

    /// Makes the caller's stream wait for the other one.
    fn join(&mut self) -> Result<()> {
        if std::mem::take(&mut self.apart) {
            let event = self.mark(self.tools.side)?;
            self.device.wait_for(event, self.main())?;
        }
        Ok(())
    }

    /// The update by a panel of the targets, in some rows.
    fn subtract<T: Scalar>(
        &mut self,
        a: &DistMatrix<T>,
        panel: &Panel<T>,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        within: Range<GlobalRow>,
    ) -> Result<()> {
        let Some(first) = targets.clone().next() else { return Ok(()) };
        let (columns, of_panel, all) = (a.columns(), panel.diagonal_rows(), a.all_rows());
        let rows = match update {
            Update::Cholesky => columns.tile(first).rows().start..all.end,
            Update::Lu => of_panel.end..all.end,
            Update::Above => all.start..of_panel.start,
        };
        let rows = rows.start.max(within.start)..rows.end.min(within.end);
        if rows.is_empty() {
            return Ok(());
        }
        if update == Update::Cholesky {
            for j in targets {
                let tile = columns.tile(j).rows();
                let rows = tile.start.max(rows.start)..rows.end;
                if rows.is_empty() {
                    continue;
                }
                let (b, c) = (panel.rows(tile), a.rows_of(j, rows.clone()));
                self.multiply(c, -T::ONE, (panel.rows(rows), Op::None), (b, Op::Adjoint))?;
            }
        } else {
            let most = TILES_OF_PIECE * columns.widest();
            for (_, wide) in a.adjacent(targets, most) {
                let b = wide.matrix_rows(of_panel.clone());
                let c = wide.matrix_rows(rows.clone());
                self.multiply(c, -T::ONE, (panel.rows(rows.clone()), Op::None), (b, Op::None))?;
            }
        }
        Ok(())
    }
}

fn refused(info: i32) -> Error {
    let text = format!(
        "meshsolve: cuSOLVER: expected arguments that it takes, got info = {info}; this is a defect of \
         meshsolve"
    );
    Error::new(Kind::Internal, text)
}

fn address<T>(block: Cells<T>) -> Address {
    block.as_ptr().addr() as Address
}
