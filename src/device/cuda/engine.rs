//! cuSolverMg in one call of several ranks: the grid of their devices, descriptions of their
//! matrices, and access to each other's memory. The host thread of rank 0 calls it; the others
//! wait.

use std::sync::{Arc, Mutex};

use super::device::Device;
use super::device::queue::Lines;
use super::handle::Address;
use super::seat::Seat;
use super::vendor::mg::{Distributed, Grid, Outcome, Whole, Work};
use crate::error::Result;
use crate::layout::{Column, GlobalColumn, Layout, Partition};
use crate::matrix::{Cells, DistMatrix, Remote};
use crate::scalar::{DType, Scalar};

/// Parts of a rank's memory begin at multiples of this.
const ALIGNMENT: usize = 256;

/// Widths of tile columns that are neither slow nor leave devices without work, on paper. The
/// library is reported to be slow below 128. No device has measured this yet.
const WIDTHS: [usize; 2] = [128, 512];
/// The widest tiles that the library gets. Its LU is reported to stop at 512. Neither is tested.
pub const WIDEST: usize = 1024;
pub const WIDEST_OF_LU: usize = 512;

/// The width of all tile columns, `most` at most: a divisor of n / ranks. If there is none, the
/// error is the next larger order that has one.
pub fn cusolvermg_tile_width(
    n: usize,
    ranks: usize,
    most: usize,
) -> std::result::Result<usize, usize> {
    let [least, good] = WIDTHS;
    let columns = (n / ranks).max(1);
    let divides = |width: &usize| columns.is_multiple_of(*width);
    let found = (1..=good).rev().find(divides).filter(|&w| w >= least || w == columns);
    let wider = || (good + 1..=most).find(divides);
    found.or_else(wider).ok_or(columns.next_multiple_of(least) * ranks)
}

/// The operations that a call needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    pub potrf: bool,
    pub potri: bool,
    pub potrs: bool,
    pub getrf: bool,
    pub getrs: bool,
    /// Eigenvalues, with vectors or without.
    pub syevd: Option<bool>,
    /// Right-hand sides on each rank, and whether each rank has its own.
    pub rhs: usize,
    pub distributed: bool,
}

impl Asked {
    pub fn is_nothing(self) -> bool {
        let Asked { potrf, potri, potrs, getrf, getrs, syevd, .. } = self;
        ![potrf, potri, potrs, getrf, getrs, syevd.is_some()].contains(&true)
    }
}

/// A step of a vendor's solver on the whole matrix.
#[derive(Clone, Copy, Debug)]
pub enum WholeStep<'a, T> {
    /// `A = L L^H` in the lower triangle.
    Potrf,
    /// The lower triangle of A^-1 in the place of L.
    Potri,
    /// `P A = L U`, and the numbers of interchanged rows.
    Getrf(Cells<'a, i32>),
    /// The eigenvalues of A from its lower triangle, and eigenvectors in the place of A, or none.
    Syevd { vectors: bool, values: &'a Mutex<Vec<f64>> },
    /// `A X = B` from L, or from L and U with those numbers; with conj(A) if `conjugated`. A worker
    /// passes the right-hand sides that it holds.
    Solve { x: Option<Cells<'a, T>>, pivots: Option<Cells<'a, i32>>, conjugated: bool },
}

/// A rank's device and shard.
pub struct Member {
    pub device: Arc<Device>,
    pub shard: Address,
}

/// Addresses of the parts of a rank's memory.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// Numbers of interchanged rows, int32.
    rows: Address,
    /// Right-hand sides by columns.
    b: Address,
    work: Address,
}

pub struct CusolverMg {
    devices: Vec<Arc<Device>>,
    n: usize,
    asked: Asked,
    size: usize,
    /// Elements of the library's workspace on each device.
    work: usize,
    /// Present while a call lasts.
    used: Mutex<Option<Used>>,
}

/// Objects that the library has made for a call. They go back at its end.
struct Used {
    device: Arc<Device>,
    /// None after it has gone back.
    grid: Option<Grid>,
    /// A and, where there are right-hand sides, B.
    matrices: Vec<Distributed>,
}

impl Used {
    /// Also returns elements of workspace for the steps on each device. The library reads the
    /// addresses of matrices only in later calls, so these may be placeholders.
    fn new<T: Scalar>(
        devices: &[Arc<Device>],
        shards: &[Address],
        n: usize,
        tile: usize,
        asked: Asked,
    ) -> Result<(Used, usize)> {
        let device = devices[0].clone();
        let mg = devices[0].vendor()?.mg()?;
        let _entered = devices[0].enter()?;
        let grid = mg.grid(devices.iter().map(|device| device.number()).collect())?;
        let mut used = Used { device, grid: None, matrices: Vec::new() };
        let grid = used.grid.insert(grid);
        let all = if asked.distributed { asked.rhs * devices.len() } else { asked.rhs };
        for (cols, width) in [(n, tile), (all, asked.rhs)] {
            if width > 0 {
                let parts = shards.to_vec();
                used.matrices.push(mg.matrix::<T>(grid, [n, cols], width, parts)?);
            }
        }
        let Some(a) = used.matrices.first() else { return Ok((used, 0)) };
        let b = used.matrices.get(1);
        let steps = [
            asked.potrf.then_some(Whole::Potrf),
            asked.potri.then_some(Whole::Potri),
            asked.getrf.then_some(Whole::Getrf(shards)),
            b.filter(|_| asked.potrs).map(Whole::Potrs),
            b.filter(|_| asked.getrs).map(|b| Whole::Getrs(shards, b)),
            asked.syevd.map(|vectors| Whole::Syevd { vectors, values: std::ptr::null_mut() }),
        ];
        let needed = steps.into_iter().flatten().map(|step| mg.work(grid, a, step));
        let work = needed.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        Ok((used, work))
    }

    /// Gives the matrices back, and the grid unless it will be used again.
    fn give_back(&mut self, again: bool) -> Result<()> {
        let _entered = self.device.enter()?;
        let mg = self.device.vendor()?.mg()?;
        let matrices = std::mem::take(&mut self.matrices);
        let all: Vec<_> = matrices.into_iter().map(|matrix| mg.forget(matrix)).collect();
        let forgotten: Result<()> = all.into_iter().collect();
        let Some(grid) = self.grid.take() else { return forgotten };
        if again && forgotten.is_ok() {
            mg.keep(grid);
            return Ok(());
        }
        forgotten.and(mg.destroy(grid))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if self.grid.is_some() {
            // An earlier error is already reported.
            drop(self.give_back(false));
        }
    }
}

impl CusolverMg {
    /// For a matrix of order n, with column-major shards, distributed by tile columns.
    pub fn new<T: Scalar>(
        members: Vec<Member>,
        n: usize,
        tile: usize,
        asked: Asked,
    ) -> Result<CusolverMg> {
        let (devices, shards): (Vec<_>, Vec<_>) =
            members.into_iter().map(|member| (member.device, member.shard)).unzip();
        for device in &devices {
            let mut others = devices.iter().zip(&shards);
            others.try_for_each(|(other, &shard)| device.reach(other, std::iter::once(shard)))?;
        }
        let (used, work) = Used::new::<T>(&devices, &shards, n, tile, asked)?;
        let (size, used) = (size_of::<T>(), Mutex::new(Some(used)));
        Ok(CusolverMg { devices, n, asked, size, work, used })
    }

    fn columns(&self) -> usize {
        self.n / self.devices.len()
    }

    fn sizes(&self, rank: usize) -> [usize; 3] {
        let CusolverMg { n, size, asked, work, .. } = *self;
        let rhs = if asked.distributed || rank == 0 { asked.rhs } else { 0 };
        let sizes = [self.columns() * size_of::<i32>(), n * rhs * size, work * size];
        sizes.map(|bytes| bytes.next_multiple_of(ALIGNMENT))
    }

    /// Bytes of a rank's memory.
    pub fn bytes(&self, rank: usize) -> usize {
        self.sizes(rank).into_iter().sum()
    }

    fn parts(&self, rank: usize, seat: &Seat) -> Parts {
        let [rows, b, _] = self.sizes(rank).map(|bytes| bytes as Address);
        Parts { rows: seat.engine, b: seat.engine + rows, work: seat.engine + rows + b }
    }

    /// The view for a rank's right-hand sides, and then for its part of the solution.
    ///
    /// # Safety
    /// *Memory*: `seat.engine` has [`CusolverMg::bytes`] for the time of the call.
    pub unsafe fn rhs<'s, T>(&self, rank: usize, seat: &'s Seat) -> Cells<'s, T> {
        let at = std::ptr::without_provenance_mut(self.parts(rank, seat).b as usize);
        // SAFETY: the caller promises the memory.
        unsafe { Cells::new(at, &Layout::left((self.n, self.asked.rhs)), rank) }
    }

    /// Does a step, and waits until all devices have done it. Returns LAPACK's `info`.
    ///
    /// # Safety
    /// Rank 0 calls this while the others wait. All devices have done their earlier work.
    pub unsafe fn run<T: Scalar>(
        &self,
        seats: &[Seat],
        matrix: &DistMatrix<T>,
        step: WholeStep<T>,
    ) -> Result<usize> {
        let parts = seats.iter().enumerate().map(|(rank, seat)| self.parts(rank, seat));
        let parts: Vec<Parts> = parts.collect();
        let all = |part: fn(&Parts) -> Address| parts.iter().map(part).collect::<Vec<_>>();
        let (rows, parts_of_work) = (all(|p| p.rows), all(|p| p.work));
        let work = Work { parts: &parts_of_work, elements: self.work };
        let mut used = self.used.lock().unwrap_or_else(|e| e.into_inner());
        let Some(Used { grid: Some(grid), matrices, .. }) = &mut *used else { return Ok(0) };
        let address = |shard: &Remote<T>| shard.cells().as_ptr().addr() as Address;
        let shards = matrix.remote_shards().iter().map(address).collect();
        for (matrix, parts) in matrices.iter_mut().zip([shards, all(|p| p.b)]) {
            matrix.parts = parts;
        }
        let Some(a) = matrices.first() else { return Ok(0) };
        let b = matrices.get(1);
        if let WholeStep::Solve { pivots: Some(pivots), .. } = step {
            self.distribute_rows(seats, matrix.columns(), &rows, pivots)?;
        }
        let mut found = match step {
            WholeStep::Syevd { .. } => vec![T::ZERO; self.n],
            _ => Vec::new(),
        };
        let whole = match (step, b) {
            (WholeStep::Potrf, _) => Whole::Potrf,
            (WholeStep::Potri, _) => Whole::Potri,
            (WholeStep::Getrf(_), _) => Whole::Getrf(&rows),
            (WholeStep::Syevd { vectors, .. }, _) => {
                Whole::Syevd { vectors, values: found.as_mut_ptr().cast() }
            }
            (WholeStep::Solve { pivots: None, .. }, Some(b)) => Whole::Potrs(b),
            (WholeStep::Solve { .. }, Some(b)) => Whole::Getrs(&rows, b),
            // No right-hand sides.
            (WholeStep::Solve { .. }, None) => return Ok(0),
        };
        let outcome = {
            let _entered = self.devices[0].enter()?;
            let mg = self.devices[0].vendor()?.mg()?;
            // SAFETY: *memory* of the seats and of the matrix. *Order*: the ranks wait, as the
            // caller promises.
            unsafe { mg.run(grid, a, whole, work) }
        };
        // After an error, devices may still be busy.
        let finished: Vec<_> = self.devices.iter().map(|device| device.finish()).collect();
        let info = match outcome? {
            Outcome::Info(info) => info,
            Outcome::Nothing(error) if self.is_factor(seats, matrix)? => return Err(error),
            Outcome::Nothing(_) => self.n,
        };
        finished.into_iter().collect::<Result<()>>()?;
        if let WholeStep::Syevd { values, .. } = step {
            // Real ones, from the beginning of this memory on.
            let numbers = match T::DTYPE.real() {
                DType::F32 => {
                    let numbers: &[f32] = bytemuck::cast_slice(&found);
                    numbers[..self.n].iter().map(|&x| x.into()).collect()
                }
                _ => bytemuck::cast_slice(&found)[..self.n].to_vec(),
            };
            *values.lock().unwrap_or_else(|e| e.into_inner()) = numbers;
        }
        if let WholeStep::Getrf(pivots) = step {
            self.collect_rows(seats, matrix.columns(), &rows, pivots)?;
        }
        Ok(info)
    }

    /// Whether a diagonal is that of a Cholesky factor: of positive numbers.
    fn is_factor<T: Scalar>(&self, seats: &[Seat], matrix: &DistMatrix<T>) -> Result<bool> {
        for t in matrix.columns().each() {
            let tile = matrix.remote_tile(t.row(), t).cells();
            let (diagonal, size) = (tile.diagonal(), size_of::<T>());
            let Seat { device, stream, .. } = &seats[matrix.columns().tile(t).rank];
            let mut entries = vec![T::ZERO; diagonal.rows()];
            let at = diagonal.as_ptr().addr() as Address;
            let from = Lines { at, pitch: diagonal.row_stride() * size };
            // SAFETY: *memory* of the diagonal. *Order*: its rank waits, as the caller of `run`
            // promises.
            unsafe {
                let to = entries.as_mut_ptr().cast();
                device.read_lines(from, size, diagonal.rows(), to, *stream)?;
            }
            let is_positive = |entry: &T| {
                let size = entry.magnitude();
                size > 0.0 && size.is_finite() && *entry == T::from_f64_impl(size)
            };
            if !entries.iter().all(is_positive) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gathers numbers of interchanged rows: distributed and from 1 before, in one place and from 0
    /// after.
    fn collect_rows(
        &self,
        seats: &[Seat],
        columns: &Partition<Column>,
        distributed: &[Address],
        to: Cells<i32>,
    ) -> Result<()> {
        let mut of = vec![vec![0i32; columns.per_rank()]; seats.len()];
        let bytes = columns.per_rank() * size_of::<i32>();
        for ((seat, numbers), &at) in seats.iter().zip(&mut of).zip(distributed) {
            let (from, numbers) = (Lines { at, pitch: bytes }, numbers.as_mut_ptr().cast());
            // SAFETY: as many numbers of the seat. *Order*: its rank waits, as the caller of `run`
            // promises.
            unsafe { seat.device.read_lines(from, bytes, 1, numbers, seat.stream)? };
        }
        let row = |column: usize| {
            let (rank, local) = columns.local(GlobalColumn::new(column));
            // A matrix with NaN entries may leave any number here.
            of[rank][local.get()].wrapping_sub(1).clamp(column as i32, self.n as i32 - 1)
        };
        let rows: Vec<i32> = (0..self.n).map(row).collect();
        let (bytes, at) = (size_of_val(&rows[..]), to.as_ptr().addr() as Address);
        // SAFETY: *memory* of the interchanges. *Order*: all other ranks wait.
        unsafe {
            let to = Lines { at, pitch: bytes };
            seats[0].device.write_lines(to, rows.as_ptr().cast(), bytes, 1, seats[0].stream)
        }
    }

    /// The reverse of `collect_rows`.
    fn distribute_rows(
        &self,
        seats: &[Seat],
        columns: &Partition<Column>,
        distributed: &[Address],
        from: Cells<i32>,
    ) -> Result<()> {
        let mut rows = vec![0i32; self.n];
        let (bytes, at) = (size_of_val(&rows[..]), from.as_ptr().addr() as Address);
        // SAFETY: *memory* of the interchanges. *Order*: all other ranks wait.
        unsafe {
            let to = rows.as_mut_ptr().cast();
            let from = Lines { at, pitch: bytes };
            seats[0].device.read_lines(from, bytes, 1, to, seats[0].stream)?;
        }
        let mut of = vec![vec![0i32; columns.per_rank()]; seats.len()];
        for (column, row) in rows.into_iter().enumerate() {
            let (rank, local) = columns.local(GlobalColumn::new(column));
            of[rank][local.get()] = row + 1;
        }
        let bytes = columns.per_rank() * size_of::<i32>();
        for ((seat, numbers), &at) in seats.iter().zip(&of).zip(distributed) {
            let to = Lines { at, pitch: bytes };
            // SAFETY: as many numbers of the seat. *Order*: its rank waits, as the caller of `run`
            // promises.
            unsafe {
                seat.device.write_lines(to, numbers.as_ptr().cast(), bytes, 1, seat.stream)?;
            }
        }
        Ok(())
    }

    /// Ends the call. After one that `failed`, no object is reused.
    pub fn close(&self, failed: bool) -> Result<()> {
        let used = self.used.lock().unwrap_or_else(|e| e.into_inner()).take();
        used.map_or(Ok(()), |mut used| used.give_back(!failed))
    }
}
