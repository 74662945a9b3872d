//! One rank of a call on a CUDA device: the `Backend` whose operations go on streams.
//!
//! The host thread of a rank runs the algorithm and gives its device the work; it waits for other host
//! threads where the algorithm waits for a signal, and lets its streams wait for the events that go with
//! it. Operands may be any rank's: what is far is copied to the rank's own memory first, what is far and
//! written is copied back. There are two streams, the caller's and one beside it for panels that others
//! wait for (`Backend::ahead`), which joins the other at a signal or a barrier. Panels come there, too.
//!
//! A failure of the driver or of a library ends the call for all ranks where they next wait.

use std::ops::Range;

use super::communicator::CudaCommunicator;
use super::device::{Address, Device, Stream};
use super::queue::{Event, Lines};
use super::room::Room;
use super::sources::suffix;
use super::tools::Tools;
use super::transposition;
use super::vendor::blas::BlasHandle;
use super::vendor::nccl::Clique;
use super::vendor::solver::Workspace;
use super::vendor::{Libraries, Operand};
use crate::comm::{Communicator, Group, Signal, Step, Stopped};
use crate::device::{Backend, Moduli, Op, Squares, Triangle, Update, WholeStep};
use crate::error::{Error, Kind, Result};
use crate::matrix::{Block, Matrix};
use crate::scalar::{DType, Scalar};
use crate::settings::Float64;
use crate::transpose;

mod backend;
pub mod columns;
pub mod interchanges;
mod operands;
mod panels;

use interchanges::Found;
use operands::{Form, Piece, is_columns};
use panels::Staged;

/// Tiles of one product: it ends soon, so that panels on the other stream find multiprocessors free, and is wide
/// enough to keep all of them busy.
const TILES_OF_PIECE: usize = 8;

pub struct CudaWorker<'a> {
    comm: &'a Communicator,
    cuda_comm: &'a CudaCommunicator,
    /// Where panels go by NCCL.
    clique: Option<&'a Clique>,
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
    /// Interchanges whose moves are known, by stream.
    found: [Found; 2],
    /// Whether kernels follow addresses of all ranks, once that was asked.
    reaches: Option<bool>,
    failed: bool,
}

impl<'a> CudaWorker<'a> {
    pub fn new(
        comm: &'a Communicator,
        cuda_comm: &'a CudaCommunicator,
        clique: Option<&'a Clique>,
        rank: usize,
        tools: Tools,
        room: Room,
    ) -> CudaWorker<'a> {
        let mut worker = CudaWorker {
            comm,
            cuda_comm,
            clique,
            rank,
            device: &cuda_comm.seats[rank].device,
            tools,
            room,
            ahead: false,
            apart: false,
            taken: 0,
            staged: [None; 2],
            read: [None; 2],
            factored: Vec::new(),
            found: Default::default(),
            reaches: None,
            failed: false,
        };
        worker.give(CudaWorker::start);
        worker
    }

    fn start(&mut self) -> Result<()> {
        let (room, main) = (self.room, self.main());
        let libraries = self.libraries()?;
        let float64 = self.cuda_comm.float64;
        self.tools.multiply(self.device, float64)?;
        {
            let _entered = self.device.enter()?;
            for (k, stream) in [main, self.tools.side].into_iter().enumerate() {
                // What emulation needs is more, and the library's own.
                let ours = Some((room.blas[k], room.needs.blas));
                let memory = ours.filter(|_| float64 == Float64::Native);
                // SAFETY: memory of this call for this stream.
                unsafe { libraries.blas.work_on(self.tools.blas[k], stream, memory)? };
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
        self.cuda_comm.seats[self.rank].stream
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
                Ok(info) => self.comm.report(before + info),
                Err(_) => return Err(refused(info)),
            }
        }
        Ok(())
    }

    /// Where the next factorisation leaves its number, of a tile or panel below so many rows.
    fn next_info(&mut self, before: usize) -> Address {
        self.factored.push(before);
        self.room.infos + ((self.factored.len() - 1) * size_of::<i32>()) as Address
    }

    /// The rule for pivots that are no finite numbers, whatever the library says of them.
    fn find_no_number<T: Scalar>(&self, factor: Block<T>, info: Address) -> Result<()> {
        let Operand { at, leading, .. } = Form::of(factor, Op::None).operand();
        let arguments = [at, leading as u64, factor.rows.min(factor.cols) as u64, info];
        let entry = format!("find_no_number_{}", suffix(T::DTYPE));
        let kernel = self.device.kernel("pivots", &entry)?.on_blocks(1);
        // SAFETY: the arguments that the source says, of this call's memory.
        unsafe { self.device.launch(&kernel, &arguments, self.stream()) }
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
        let stopped = self.comm.fail(error);
        // Nobody's device waits for what this rank does not give its own any more.
        if let Some(clique) = self.clique {
            clique.abort(self.device);
        }
        stopped
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
            let most = TILES_OF_PIECE * a.columns.widest();
            for wide in side_by_side(a, targets, most) {
                let b = wide.sub(of_panel.global, 0, of_panel.width, wide.cols);
                let c = wide.sub(rows.start, 0, rows.len(), wide.cols);
                self.multiply_at(c, -T::ONE, (part(rows.clone()), Op::None), (b, Op::None))?;
            }
        }
        if let Some(used) = self.staged.iter().position(|s| s.is_some_and(|s| s.number == k))
            && !self.ahead
            && self.cuda_comm.seats.len() > 1
        {
            self.read[used] = Some(self.mark(self.main())?);
        }
        Ok(())
    }
}

/// Tile columns as blocks of those that lie side by side in a shard, of so many columns at most.
fn side_by_side<T>(
    a: &Matrix<T>,
    tiles: impl Iterator<Item = usize>,
    most: usize,
) -> Vec<Block<T>> {
    let mut blocks: Vec<Block<T>> = Vec::new();
    let mut end = None;
    for t in tiles {
        let tile = a.columns.tile(t);
        if end == Some((tile.rank, tile.local))
            && let Some(last) = blocks.last_mut()
            && last.cols + tile.width <= most
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

fn address<T>(block: Block<T>) -> Address {
    block.ptr.addr() as Address
}
