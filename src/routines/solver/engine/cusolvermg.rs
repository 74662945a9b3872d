//! cuSolverMg, NVIDIA's solver of whole matrices over the CUDA devices of a process, as an engine: what
//! it supports, its requests, and the stages that it performs.

use std::sync::{Arc, Mutex};

use super::native::Native;
use super::{CudaEngine, Engine, Performs, is_vendors};
use crate::algorithms::eigen::Leading;
use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::call::Call;
use crate::comm::{Comm, Step};
use crate::device::Worker;
use crate::device::cuda::engine::{self, Asked, WholeStep};
use crate::device::cuda::worker::CudaWorker;
use crate::error::{Error, Result};
use crate::layout::Mapping;
use crate::matrix::Cells;
use crate::routines::Part;
use crate::routines::solver::job::Solver;
use crate::routines::solver::operands::{Problem, shard};
use crate::routines::solver::options::{Options, Rhs};
use crate::routines::solver::routine::{Family, Stage};
use crate::routines::solver::sizes::whole_columns;
use crate::routines::solver::{cholesky, eigen, eigenvectors, lu};
use crate::scalar::Scalar;
use crate::settings::Float64;

#[derive(Clone, Copy, Debug)]
pub struct CusolverMg;

impl Engine for CusolverMg {
    fn is_on_host(&self) -> bool {
        false
    }

    fn check(&self, options: &Options, problem: &Problem) -> Result<()> {
        let (routine, ranks) = (options.routine, problem.ranks());
        if routine.family.reads_only() {
            return Ok(());
        }
        if options.mapping == Some(Mapping::Block) && ranks > 1 {
            return Err(Error::invalid(format!(
                "meshsolve.{}: attribute `order`: expected \"auto\" or \"cyclic\" with engine \
                 \"cusolvermg\", got \"natural\"; leave it out, or leave engine=None",
                routine.name
            )));
        }
        let widest = widest(routine.family);
        let Ok(wanted) = engine::cusolvermg_tile_width(problem.n, ranks, widest) else {
            return match options.tile {
                None => Err(no_width(options, problem)),
                Some(tile) => check_tile(options, problem, tile),
            };
        };
        check_tile(options, problem, options.tile.unwrap_or(wanted))
    }

    fn tile(&self, options: &Options, problem: &Problem) -> Option<usize> {
        let family = options.routine.family;
        let width = || engine::cusolvermg_tile_width(problem.n, problem.ranks(), widest(family));
        (!family.reads_only()).then(|| width().unwrap_or(1))
    }

    /// Its `getrs` supports no transposes.
    fn performs(&self, options: &Options, stage: Stage) -> bool {
        match stage {
            Stage::Potrf | Stage::Getrf | Stage::CholeskySolve | Stage::CholeskyInverse => true,
            // A function of A needs eigenvectors of the tridiagonal matrix.
            Stage::ToBand | Stage::ToTridiagonal | Stage::Eigenvalues => !is_function(options),
            Stage::Divide | Stage::TransformBack => !is_function(options),
            Stage::LuSolve => !options.op_on_b(options.op).transposes(),
            _ => false,
        }
    }

    fn float64(&self, _: Float64) -> Float64 {
        Float64::Native
    }
}

fn is_function(options: &Options) -> bool {
    options.routine.has(Stage::Weigh)
}

/// The engine in a call.
struct InCall {
    mg: Arc<engine::CusolverMg>,
}

impl<T: Scalar> Performs<T, CudaWorker<'_>> for InCall {
    fn workspace(&self, rank: usize) -> usize {
        self.mg.bytes(rank)
    }

    fn perform(
        &self,
        stage: Stage,
        job: &Solver<T>,
        worker: &mut CudaWorker,
        scale: &mut Option<f64>,
    ) -> Step {
        if !CusolverMg.performs(&job.options, stage) {
            return Native.perform(stage, job, worker, scale);
        }
        match stage {
            Stage::Potrf => {
                cholesky::prepare(job, worker, scale, true)?;
                worker.whole(&self.mg, &job.a(worker), WholeStep::Potrf)
            }
            Stage::Getrf => {
                lu::prepare(job, worker, scale)?;
                let pivots = job.pivots(worker.worker());
                worker.whole(&self.mg, &job.a(worker), WholeStep::Getrf(pivots.own()))?;
                worker.replicate(&pivots, 0)
            }
            Stage::ToBand => self.decompose(job, worker),
            Stage::ToTridiagonal | Stage::Eigenvalues | Stage::Divide => Ok(()),
            // All workers know of a failure.
            _ if job.info() != 0 => Ok(()),
            Stage::CholeskySolve => {
                let conjugated = cholesky::solves_with_conjugate(&job.options, job.options.op);
                self.solve(job, worker, None, conjugated)
            }
            Stage::LuSolve => {
                let (op, pivots) =
                    (job.options.op_on_b(job.options.op), job.pivots(worker.worker()));
                self.solve(job, worker, Some(pivots.own()), op.conjugates())
            }
            Stage::TransformBack => eigenvectors::copy_to_answer(job, worker),
            _ => {
                cholesky::prepare_inverse(job, worker, scale)?;
                worker.whole(&self.mg, &job.a(worker), WholeStep::Potri)?;
                mirror_triangle(worker, &job.a(worker), Missing::Upper, true)
            }
        }
    }

    fn close(&self, failed: bool) -> Result<()> {
        self.mg.close(failed)
    }
}

impl InCall {
    /// The eigenvalues, and eigenvectors in the memory of A.
    fn decompose<T: Scalar>(&self, job: &Solver<T>, worker: &mut CudaWorker) -> Step {
        let (me, a, n) = (worker.worker(), job.a(worker), job.unpadded());
        let widest = job.sizes.columns().widest();
        let room = job.own_blocks(me, 0, widest * widest).own().by_columns(widest, widest, widest);
        let leading = Leading::new(&a, n);
        let Some(most) = eigen::prepare(job, worker, &leading, room)? else { return Ok(()) };
        // The corner of a matrix that is padded gets the largest ones.
        eigenvectors::clear_padding(worker, &a, n);
        for t in a.columns().each().filter(|&t| a.columns().tile(t).rank == me) {
            let diagonal = a.diagonal(t).diagonal();
            let first = n.saturating_sub(a.columns().tile(t).global.get()).min(diagonal.rows());
            let corner = diagonal.rows_from(first);
            let number = if most > 0.0 { 2.0 * most } else { 1.0 };
            worker.put(&vec![T::from_f64_impl(number); corner.rows()], corner);
        }
        let values = Mutex::default();
        let vectors = job.options.routine.has(Stage::TransformBack);
        worker.whole(&self.mg, &a, WholeStep::Syevd { vectors, values: &values })?;
        if me == 0 && job.info() == 0 {
            let mut values = values.into_inner().unwrap_or_else(|e| e.into_inner());
            values.truncate(n);
            let exponent = job.found().exponent;
            job.give_eigenvalues(values, exponent);
        }
        worker.barrier()
    }

    /// Solves with its factor for all right-hand sides.
    fn solve<T: Scalar>(
        &self,
        job: &Solver<T>,
        worker: &mut CudaWorker,
        pivots: Option<Cells<i32>>,
        conjugated: bool,
    ) -> Step {
        let (index, distributed) = (worker.worker(), job.options.rhs == Rhs::Columns);
        let x = (index == 0 || distributed).then(|| job.x_block(index));
        let step = WholeStep::Solve { x, pivots, conjugated };
        worker.whole(&self.mg, &job.a(worker), step)?;
        worker.barrier()?;
        if !distributed {
            let x = job.replicated(index, |rank| job.x_block(rank));
            worker.replicate(&x, 0)?;
        }
        worker.barrier()
    }
}

/// The engine for a call, in which all ranks meet; the native one if the call has no work for it.
pub fn for_call<T: Scalar>(
    options: &Options,
    problem: &Problem,
    tile: impl Fn() -> usize,
    part: &mut Part,
    call: &Call,
) -> Result<CudaEngine<T>> {
    let asked = asked(options, problem);
    if asked.is_nothing() || problem.n == 0 {
        return Ok(Arc::new(Native));
    }
    let member = engine::Member { device: part.device().clone(), shard: shard(call) };
    let (n, tile) = (problem.n, tile());
    let make = |members| engine::CusolverMg::new::<T>(members, n, tile, asked).map(Arc::new);
    Ok(Arc::new(InCall { mg: part.gather(member, make)? }))
}

/// The requests of the routine.
fn asked(options: &Options, problem: &Problem) -> Asked {
    let has = |stage| is_vendors(options, stage);
    let (potrs, getrs) = (has(Stage::CholeskySolve), has(Stage::LuSolve));
    Asked {
        potrf: has(Stage::Potrf),
        potri: has(Stage::CholeskyInverse),
        getrf: has(Stage::Getrf),
        potrs,
        getrs,
        syevd: has(Stage::ToBand).then(|| has(Stage::TransformBack)),
        rhs: if potrs || getrs { problem.rhs } else { 0 },
        distributed: options.rhs == Rhs::Columns,
    }
}

/// The widest tile column that the engine accepts for routines of a family.
pub fn widest(family: Family) -> usize {
    match family {
        Family::Lu => engine::WIDEST_OF_LU,
        _ => engine::WIDEST,
    }
}

/// All tile columns must have one width, and the engine must accept it.
fn check_tile(options: &Options, problem: &Problem, tile: usize) -> Result<()> {
    let (shape, ranks) = ((problem.m, problem.n), problem.ranks());
    let mapping = if ranks > 1 { Mapping::BlockCyclic } else { Mapping::Block };
    let distribution = whole_columns(options.routine.family, shape, ranks, tile, mapping);
    let (columns, widest) = (distribution.columns(), widest(options.routine.family));
    let tile = columns.widest();
    if columns.each().any(|t| columns.tile(t).width != tile) {
        return Err(no_width(options, problem));
    }
    if tile > widest {
        return Err(Error::invalid(format!(
            "meshsolve.{}: attribute `tile`: expected at most {widest} with engine \"cusolvermg\", got \
             {tile}; leave it out",
            options.routine.name
        )));
    }
    Ok(())
}

fn no_width(options: &Options, problem: &Problem) -> Error {
    let (n, ranks) = (problem.n, problem.ranks());
    let remedy = match (
        options.tile,
        engine::cusolvermg_tile_width(n, ranks, widest(options.routine.family)),
    ) {
        (None, Err(order)) => format!("pad A with an identity corner to order {order}"),
        _ => "leave `tile` out".to_owned(),
    };
    Error::invalid(format!(
        "meshsolve.{}: a: engine \"cusolvermg\" expected one width of tile columns that divides \
             {} columns of a device, got none for order {n} over {ranks} devices; {remedy}, or leave \
             engine=None",
        options.routine.name,
        n / ranks
    ))
}
