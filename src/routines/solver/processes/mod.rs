//! A solver of which every process has a part: the same routines, with their stages performed by
//! ScaLAPACK. The process' columns of B (see `Storage`) are brought to the block-cyclic order in their
//! memory, and a factor stays in that order.
//!
//! A factor is what the routines of one process make, but for that order: in B's lower triangle, or the
//! LU factors of A itself.
//!
//! `stages` has what each stage does, `sides` right-hand sides, `measure` norms and diagonals, `eigen`
//! eigenproblems.

mod eigen;
mod measure;
mod sides;
mod stages;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::operands::check_rows;
use super::options::{EngineName, Options, Rhs, Structure};
use super::routine::{Family, SolverRoutine, Stage};
use super::run::no_answer;
use super::slot::{Kind, Signature};
use crate::call::{Buffer, Call};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::layout::Storage;
use crate::log;
use crate::processes::moves::{Cyclic, mirrored};
use crate::processes::{Grid, Work};
use crate::routines::Across;
use crate::scalar::{DType, Scalar};
use crate::stats::CallStats;

impl SolverRoutine {
    /// Whether it works over processes.
    pub fn is_across(&self) -> bool {
        let is_known = |stage: &Stage| stages::KNOWN.contains(stage);
        let scipys = self.signature.args.iter().chain(self.signature.rets);
        let is_scipys = scipys.clone().any(|slot| matches!(slot.name, "c" | "lu"));
        self.run.iter().all(is_known) && !is_scipys
    }
}

impl Options {
    /// The work of processes, if the call site names their engine.
    pub(super) fn of_processes(&self) -> Option<&dyn Across> {
        (self.engine == EngineName::Scalapack).then_some(self)
    }
}

impl Across for Options {
    fn prepare(&self, world: usize, call: Call) -> Result<Box<dyn Work>> {
        if !self.routine.is_across() {
            return Err(Error::invalid(format!(
                "meshsolve.{}: engine: expected \"meshsolve\" for this routine, got {:?}; use the devices \
                 of one process",
                self.routine.name,
                self.engine.name()
            )));
        }
        let problem = self.problem(world, std::slice::from_ref(&call))?;
        // ScaLAPACK counts the elements of a process in 32 bits.
        let of_a = problem.n * (problem.n / world);
        // The work of eigenvectors has up to three parts.
        let of_work = if self.routine.has(Stage::Divide) { 3 * of_a + 20 * problem.n } else { 0 };
        let part = of_a.max(problem.n * problem.rhs).max(of_work);
        if i32::try_from(part.max(problem.rhs * world)).is_err() {
            return Err(Error::invalid(format!(
                "meshsolve.{}: a: expected less than 2^31 elements of A, of B and of work on each process, got {part}; \
                 use more processes, or fewer right-hand sides at a time",
                self.routine.name
            )));
        }
        dispatch!(problem.dtype, T => {
            Ok(Box::new(Part::<T>::new(*self, problem.n, problem.rhs, world, call)?))
        },
        else => Err(self.wrong_dtype(problem.dtype)))
    }
}

/// This process' part of a call.
struct Part<T> {
    options: Options,
    call: Call,
    order: Cyclic,
    /// Right-hand sides of a device.
    rhs: usize,
    /// Buffers of moves.
    staged: [Vec<T>; 2],
    /// This process' right-hand sides, by columns, and room for those of another process.
    sides: [Vec<T>; 2],
    /// What ScaLAPACK's inverse and eigenvectors need, or columns of a triangle that the caller has by
    /// rows.
    work: Vec<T>,
    /// Memory of real numbers for eigenvectors of complex matrices.
    reals: Vec<T>,
    scratch_bytes: usize,
    pivots: Vec<i32>,
    info: usize,
    norm: f64,
    /// The largest entry is finite.
    is_finite: bool,
    rcond: f64,
    values: [T; 2],
    logdet: f64,
    eigenvalues: Vec<f64>,
    since: Instant,
    phases: Vec<(&'static str, f64)>,
}

impl<T: Scalar> Part<T> {
    fn new(options: Options, n: usize, rhs: usize, world: usize, call: Call) -> Result<Self> {
        let routine = options.routine;
        // With tiles of 128 columns Cholesky took 0.96 of the time with 64 at n = 8192, two processes. LU
        // took 1.24 times as long at 4096.
        let prefers_wide = routine.family == Family::Cholesky;
        let width = match routine.family.reads_only() {
            true => n / world,
            false => Cyclic::square(n, world, prefers_wide).width,
        };
        let order = Cyclic { rows: n, columns: n, ranks: world, width: width.max(1) };
        let turns = options.storage.is_transpose() && routine.upright;
        let mirrors = options.structure != Structure::General
            || matches!(routine.family, Family::Cholesky | Family::Eigen);
        let staged = match routine.takes_matrix() || routine.inverts() {
            true if turns || mirrors => order.staged::<T>().max(mirrored::<T>(n, world)),
            true => order.staged::<T>(),
            false => 0,
        };
        let (sides, others) = match options.rhs {
            _ if !routine.has_rhs() => (0, 0),
            Rhs::Replicated => (n * rhs.div_ceil(world), n * rhs.div_ceil(world)),
            Rhs::Columns => (n * rhs, 0),
        };
        let by_rows = options.storage == Storage::Columns && routine.has(Stage::TriangularSolve);
        let work = match by_rows {
            true => n * order.local(),
            false if routine.has(Stage::LuInverse) => n * order.width,
            false if routine.has(Stage::Divide) && T::IS_COMPLEX => {
                (n + order.local() + order.width) * order.width + 2 * n
            }
            false if routine.has(Stage::Divide) => 2 * n * order.local() + 20 * n,
            false => 0,
        };
        let reals = match routine.has(Stage::Divide) && T::IS_COMPLEX {
            true => (3 * n * order.local() + 20 * n) / 2,
            false => 0,
        };
        let name = routine.name;
        let part = Part {
            staged: [room(name, staged)?, room(name, staged)?],
            sides: [room(name, sides)?, room(name, others)?],
            work: room(name, work)?,
            reals: room(name, reals)?,
            scratch_bytes: (2 * staged + sides + others + work + reals) * size_of::<T>(),
            // ScaLAPACK's row interchanges are a tile longer than the matrix.
            pivots: room(name, if routine.family == Family::Lu { n + order.width } else { 0 })?,
            options,
            order,
            rhs,
            call,
            info: 0,
            norm: f64::NAN,
            is_finite: true,
            rcond: 0.0,
            values: [T::ZERO; 2],
            logdet: f64::NAN,
            eigenvalues: Vec::new(),
            since: Instant::now(),
            phases: Vec::new(),
        };
        part.with_operands()
    }

    fn n(&self) -> usize {
        self.order.rows
    }

    /// The order of A without its identity corner.
    fn unpadded(&self) -> usize {
        self.options.unpadded.unwrap_or(self.n())
    }

    /// Whether B is A^T.
    fn is_transpose(&self) -> bool {
        self.options.storage.is_transpose() && !self.options.routine.upright
    }

    /// Whether the call transposes B across the processes, so that it is A.
    fn turns(&self) -> bool {
        self.options.storage.is_transpose() && self.options.routine.upright
    }

    fn operand(&self, kind: Kind) -> Option<&Buffer> {
        let at = Signature::find(self.options.routine.signature.args, kind)?;
        Some(&self.call.args[at])
    }

    fn results(&self, kind: Kind) -> impl Iterator<Item = &Buffer> {
        let slots = self.options.routine.signature.rets.iter().zip(&self.call.rets);
        slots.filter(move |(slot, _)| slot.kind == kind).map(|(_, buffer)| buffer)
    }

    /// This process' columns of B: a result of the call, or an operand that the call only reads.
    fn columns(&self) -> &Buffer {
        let Signature { args, rets } = self.options.routine.signature;
        match Signature::matrix(rets) {
            Some(at) => &self.call.rets[at],
            None => &self.call.args[Signature::matrix(args).expect("a matrix")],
        }
    }

    fn write<V: bytemuck::Pod>(&self, kind: Kind, values: &[V]) {
        for to in self.results(kind) {
            // SAFETY: a result of the call, which this thread alone uses until the reply.
            unsafe { elements_mut::<V>(to) }.copy_from_slice(values);
        }
    }

    fn write_real(&self, kind: Kind, value: f64) {
        match T::DTYPE.real() {
            DType::F32 => self.write(kind, &[value as f32]),
            _ => self.write(kind, &[value]),
        }
    }

    fn write_eigenvalues(&self) {
        let count = if self.results(Kind::Eigenvalues).next().is_some() { self.n() } else { 0 };
        let values = match self.info {
            0 => self.eigenvalues.clone(),
            _ => vec![f64::NAN; count],
        };
        if count > 0 && T::DTYPE.real() == DType::F32 {
            let narrow: Vec<f32> = values.iter().map(|&x| x as f32).collect();
            self.write(Kind::Eigenvalues, &narrow);
        } else if count > 0 {
            self.write(Kind::Eigenvalues, &values);
        }
    }

    fn fill_nan(&self, kind: Kind) {
        for to in self.results(kind) {
            // SAFETY: as in `write`.
            unsafe { elements_mut::<T>(to) }.fill(T::NAN);
        }
    }

    /// Whether A had only finite entries, as far as the call knows.
    fn is_of_numbers(&self) -> bool {
        !self.norm.is_nan() && self.is_finite
    }

    /// As `Solver::rcond` gives it.
    fn reciprocal_condition(&self) -> f64 {
        match self.norm {
            _ if self.unpadded() == 0 => 1.0,
            norm if norm.is_nan() => norm,
            _ => self.rcond,
        }
    }

    fn finish(&self) -> Result<()> {
        let (routine, info) = (self.options.routine, self.info);
        let of_numbers =
            !routine.factors() || routine.inverts() || info == 0 || self.is_of_numbers();
        if info != 0 {
            self.fill_nan(Kind::Rhs);
            self.fill_nan(Kind::Matrix);
        }
        if !of_numbers {
            self.fill_nan(Kind::Factor);
        }
        if routine.has(Stage::Getrf) {
            self.write(Kind::Pivots, &self.pivots[..self.n()]);
        }
        self.write(Kind::Info, &[info as i32]);
        let values = if info == 0 { self.values } else { [T::NAN; 2] };
        for (to, value) in self.results(Kind::Value).zip(values) {
            // SAFETY: as in `write`.
            unsafe { elements_mut::<T>(to) }.fill(value);
        }
        let real = |value| if of_numbers { value } else { f64::NAN };
        self.write_real(Kind::Norm, real(self.norm));
        self.write_real(Kind::Rcond, real(self.reciprocal_condition()));
        self.write_real(Kind::Logdet, self.logdet);
        self.write_eigenvalues();
        self.record();
        if self.options.raises && info > 0 {
            return Err(no_answer(&self.options, self.unpadded(), info as i32));
        }
        Ok(())
    }

    fn record(&self) {
        let mut phases = self.phases.clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        log::record(CallStats {
            routine: self.options.routine.name,
            dtype: T::DTYPE.name(),
            n: self.n(),
            rhs: self.rhs,
            ranks: self.order.ranks,
            visible: self.order.ranks,
            workers: 1,
            tiles: self.n() / self.order.width,
            tile: self.order.width,
            scratch_bytes: self.scratch_bytes,
            float64: "native",
            info: self.info as i32,
            phases,
        });
    }

    /// With the `info`, the row interchanges and the norm that come with an earlier factor.
    fn with_operands(mut self) -> Result<Self> {
        if let Some(info) = self.operand(Kind::Info) {
            // SAFETY: an operand of the call, which nothing writes until the reply.
            self.info = unsafe { elements::<i32>(info) }[0].max(0) as usize;
        }
        if let Some(pivots) = self.operand(Kind::Pivots) {
            // SAFETY: the same.
            let given = unsafe { elements::<i32>(pivots) }.to_vec();
            check_rows(self.options.routine.name, &given, self.n())?;
            self.pivots[..given.len()].copy_from_slice(&given);
        }
        if let Some(norm) = self.operand(Kind::Norm) {
            // SAFETY: the same.
            self.norm = unsafe {
                match norm.dtype() {
                    DType::F32 => elements::<f32>(norm)[0].into(),
                    _ => elements::<f64>(norm)[0],
                }
            };
        }
        Ok(self)
    }
}

impl<T: Scalar> Work for Part<T> {
    fn rank(&self) -> usize {
        self.call.rank
    }

    fn describe(&self) -> String {
        let Options { routine, storage, lower, structure, .. } = self.options;
        let Options { op, norm, rhs, unpadded, unit_diagonal, .. } = self.options;
        let (n, dtype, k, info) = (self.n(), T::DTYPE.name(), self.rhs, self.info);
        let mut hasher = DefaultHasher::new();
        self.pivots.hash(&mut hasher);
        format!(
            "{} of order {n} ({unpadded:?}), {dtype}, {storage:?}, lower {lower}, {structure:?}, {op:?}, \
             {norm:?}, ones on the diagonal {unit_diagonal}, {k} right-hand sides ({rhs:?}), info {info}, \
             pivots {:x}",
            routine.name,
            hasher.finish()
        )
    }

    fn run(mut self: Box<Self>, grid: &Grid) -> Result<()> {
        self.phases.push(("wait", self.since.elapsed().as_secs_f64()));
        for (ret, slot) in self.options.routine.signature.rets.iter().enumerate() {
            if let Some(arg) = slot.from {
                // SAFETY: memory of the CPU, which this thread alone uses until the reply.
                unsafe { self.call.pass_through(arg, ret) };
            }
        }
        if self.info == 0 && self.n() > 0 {
            for &stage in self.options.routine.run {
                let from = Instant::now();
                self.perform(stage, grid)?;
                self.phases.push((stage.name(), from.elapsed().as_secs_f64()));
            }
        }
        self.finish()
    }
}

/// Zeros, or an error if the memory is too small.
fn room<V: bytemuck::Zeroable + Clone>(routine: &str, count: usize) -> Result<Vec<V>> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| {
        let bytes = count * size_of::<V>();
        let text = format!("meshsolve.{routine}: expected {bytes} bytes of memory on each process, got less; use more processes");
        Error::new(crate::error::Kind::ResourceExhausted, text)
    })?;
    room.resize(count, V::zeroed());
    Ok(room)
}

/// # Safety
/// Memory of the CPU that nothing writes meanwhile, nor after the reply of its call.
unsafe fn elements<'a, V: bytemuck::Pod>(of: &Buffer) -> &'a [V] {
    let cells = of.column::<V>();
    // SAFETY: *memory* (see `Cells`) of so many elements; the caller promises the rest.
    unsafe { std::slice::from_raw_parts(cells.as_ptr(), cells.rows()) }
}

/// # Safety
/// Memory of the CPU that nothing else uses meanwhile, nor after the reply of its call.
unsafe fn elements_mut<'a, V: bytemuck::Pod>(of: &Buffer) -> &'a mut [V] {
    let cells = of.column::<V>();
    // SAFETY: as in `elements`.
    unsafe { std::slice::from_raw_parts_mut(cells.as_ptr(), cells.rows()) }
}
