//! A solver of which every process has a part: the same routines. The library factors by Cholesky and LU
//! itself (`factor`), ScaLAPACK performs the other stages. The process' columns of B (see `Storage`) are brought to the block-cyclic order in their
//! memory, and a factor stays in that order.
//!
//! A factor is what the routines of one process make, but for that order: in B's lower triangle, the
//! LU factors of A itself, or R and reflectors of A.
//!
//! `stages` has what each stage does, `sides` right-hand sides, `measure` norms and diagonals, `eigen`
//! eigenproblems, `qr` reflectors, `results` what the call gives back, `sizes` the memory that it needs,
//! `joined` the shards of several devices of a process as one.

mod eigen;
mod factor;
mod joined;
mod measure;
mod panels;
mod qr;
mod results;
mod sides;
mod sizes;
mod stages;

pub use sizes::Sizes;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::operands::{Problem, check_rows};
use super::options::{EngineName, Options, Rhs};
use super::routine::{SolverRoutine, Stage};
use super::slot::{Kind, Signature};
use crate::call::{Buffer, Call};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::layout::{Grid as Devices, Storage};
use crate::log::Task;
use crate::processes::moves::Cyclic;
use crate::processes::{Grid, Work};
use crate::routines::Across;
use crate::scalar::{DType, Scalar};

impl SolverRoutine {
    /// Whether it works over processes.
    pub fn is_across(&self) -> bool {
        let (run, moves) = (self.run, [Stage::Arrange, Stage::Restore, Stage::ConjugateFactor]);
        // Factors stay in the order of the work: none goes to or comes from another form.
        let converts = run.iter().all(|stage| moves.contains(stage));
        !converts && run.iter().all(|stage| stages::KNOWN.contains(stage))
    }
}

impl Options {
    /// The work of processes, if the call site names their engine.
    pub(super) fn of_processes(&self) -> Option<&dyn Across> {
        (self.engine == EngineName::Scalapack).then_some(self)
    }
}

impl Across for Options {
    fn prepare(&self, world: usize, calls: Vec<Call>) -> Result<Box<dyn Work>> {
        if !self.routine.is_across() {
            return Err(Error::invalid(format!(
                "meshsolve.{}: engine: expected \"meshsolve\" for this routine, got {:?}; use the devices \
                 of one process",
                self.routine.name,
                self.engine.name()
            )));
        }
        let (first, devices) = (calls[0].rank, calls.len());
        if first % devices != 0 || calls.iter().enumerate().any(|(i, c)| c.rank != first + i) {
            let ranks: Vec<_> = calls.iter().map(|call| call.rank).collect();
            return Err(Error::invalid(format!(
                "meshsolve.{}: expected devices of a process that follow one another on the mesh axis, got \
                 positions {ranks:?}; make the mesh from jax.devices() in their order",
                self.routine.name
            )));
        }
        let problem = self.problem(world, &calls)?.of_processes(self.rhs, devices);
        let world = problem.ranks();
        // ScaLAPACK counts the elements of a process in 32 bits.
        let of_a = problem.m * (problem.n / world);
        // The work of eigenvectors has up to three parts.
        let of_work = if self.routine.has(Stage::Divide) { 3 * of_a + 20 * problem.n } else { 0 };
        let part = of_a.max(problem.m * problem.rhs).max(of_work);
        if i32::try_from(part.max(problem.rhs * world)).is_err() {
            return Err(Error::invalid(format!(
                "meshsolve.{}: a: expected less than 2^31 elements of A, of B and of work on each process, got {part}; \
                 use more processes, or fewer right-hand sides at a time",
                self.routine.name
            )));
        }
        dispatch!(problem.dtype, T => {
            joined::work::<T>(*self, &problem, calls)
        },
        else => Err(self.wrong_dtype(problem.dtype)))
    }
}

impl Problem {
    /// The same of processes with so many devices each.
    pub(super) fn of_processes(self, rhs: Rhs, devices: usize) -> Problem {
        let each = if rhs == Rhs::Columns { devices } else { 1 };
        Problem { grid: Devices::new(1, self.ranks() / devices), rhs: self.rhs * each, ..self }
    }
}

/// This process' part of a call.
struct Part<T> {
    options: Options,
    /// Devices of this process.
    devices: usize,
    /// Their buffers, as those of one device.
    call: Call,
    order: Cyclic,
    /// Right-hand sides of a device.
    rhs: usize,
    /// Buffers of moves.
    staged: [Vec<T>; 2],
    /// This process' right-hand sides, by columns, and room for those of another process.
    sides: [Vec<T>; 2],
    /// What threads need to factor, what ScaLAPACK needs, or columns of a triangle that the caller has
    /// by rows.
    work: Vec<T>,
    /// Memory of real numbers for eigenvectors of complex matrices.
    reals: Vec<T>,
    scratch_bytes: usize,
    pivots: Vec<i32>,
    /// Coefficients of reflectors, of all columns.
    coefficients: Vec<T>,
    info: usize,
    norm: f64,
    /// The largest entry is finite.
    is_finite: bool,
    rcond: f64,
    values: [T; 2],
    logdet: f64,
    eigenvalues: Vec<f64>,
    since: Instant,
    /// The stage of the call, on the first process, and when the work began.
    task: Option<(Task, Instant)>,
    phases: Vec<(&'static str, f64)>,
}

impl<T: Scalar> Part<T> {
    fn new(options: Options, problem: &Problem, devices: usize, call: Call) -> Result<Self> {
        let (sizes, rhs) = (Sizes::new::<T>(&options, problem), problem.rhs);
        let Sizes { order, staged, sides: [sides, others], work, reals, pivots, coefficients } =
            sizes;
        let (name, routine) = (options.routine.name, options.routine);
        let part = Part {
            staged: [room(name, staged)?, room(name, staged)?],
            sides: [room(name, sides)?, room(name, others)?],
            work: room(name, work)?,
            reals: room(name, reals)?,
            scratch_bytes: sizes.scratch_bytes::<T>(),
            pivots: room(name, pivots)?,
            coefficients: room(name, coefficients)?,
            // No factor of a matrix without full rank has a condition.
            norm: if routine.has(Stage::TriangleCondition) { 0.0 } else { f64::NAN },
            options,
            devices,
            order,
            rhs,
            call,
            info: 0,
            is_finite: true,
            rcond: 0.0,
            values: [T::ZERO; 2],
            logdet: f64::NAN,
            eigenvalues: Vec::new(),
            since: Instant::now(),
            task: None,
            phases: Vec::new(),
        };
        part.with_operands()
    }

    /// Rows of B.
    fn m(&self) -> usize {
        self.order.rows
    }

    /// Its columns.
    fn n(&self) -> usize {
        self.order.columns
    }

    /// The order of A without its identity corner.
    fn unpadded(&self) -> usize {
        self.options.unpadded.unwrap_or(self.n())
    }

    /// Whether B is A^T.
    fn is_transpose(&self) -> bool {
        self.options.storage.is_transpose() && !self.options.routine.upright
    }

    /// Whether the columns of B are rows in memory, as the call only reads them.
    fn is_by_rows(&self) -> bool {
        self.options.routine.family.reads_only() && self.options.storage == Storage::Columns
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
        if let Some(coefficients) = self.operand(Kind::Coefficients) {
            // SAFETY: the same.
            self.coefficients = unsafe { elements::<T>(coefficients) }.to_vec();
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
        self.call.rank / self.devices
    }

    fn describe(&self) -> String {
        let Options { routine, storage, lower, structure, .. } = self.options;
        let Options { op, norm, rhs, unpadded, unit_diagonal, .. } = self.options;
        let (m, n, dtype, k, info) = (self.m(), self.n(), T::DTYPE.name(), self.rhs, self.info);
        let size = if m == n { format!("order {n}") } else { format!("shape {m} x {n}") };
        let mut hasher = DefaultHasher::new();
        self.pivots.hash(&mut hasher);
        format!(
            "{} of {size} ({unpadded:?}), {dtype}, {storage:?}, lower {lower}, {structure:?}, {op:?}, \
             {norm:?}, ones on the diagonal {unit_diagonal}, {k} right-hand sides ({rhs:?}), info {info}, \
             pivots {:x}",
            routine.name,
            hasher.finish()
        )
    }

    fn run(mut self: Box<Self>, grid: &Grid) -> Result<()> {
        let begun = Instant::now();
        self.phases.push(("wait", (begun - self.since).as_secs_f64()));
        for (ret, slot) in self.options.routine.signature.rets.iter().enumerate() {
            if let Some(arg) = slot.from {
                // SAFETY: memory of the CPU, which this thread alone uses until the reply.
                unsafe { self.call.pass_through(arg, ret) };
            }
        }
        if self.info == 0 && self.n() > 0 {
            let (m, n, k) = (self.m(), self.n(), self.rhs);
            for (stage, task) in self.options.routine.tasks([m, n, k, n], false) {
                let from = Instant::now();
                self.task = Some((task, begun)).filter(|_| grid.ranks.rank() == 0);
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
