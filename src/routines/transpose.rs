//! Transposes every device's part of an array in its own memory.
//!
//! Operand x `[m, n]`, result `[m, n]` in its memory, which then holds the row-major `[n, m]`
//! transpose. (For XLA an alias has the dimensions of its operand; a reshape follows.) It moves
//! elements of 4, 8 or 16 bytes unchanged. No attributes.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use super::{Array, Configured, Description, OnCuda, Part, Routine};
use crate::call::{Attributes, Call, Job};
use crate::comm::{Comm, Communicator};
use crate::device::Worker;
use crate::device::cpu::{CpuWorker, Scratch, shared_elements, worker_count};
use crate::device::cuda::transposition;
use crate::error::{Error, Result};
use crate::scalar::Scalar;
use crate::stats::CallStats;
use crate::transpose::Plan;
use crate::{log, settings, trace};

pub struct Transpose;

impl Routine for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn description(&self) -> Description {
        let array =
            |name, from| Array { name, kind: "matrix", elements: "a", shape: vec!["m", "n"], from };
        Description {
            summary: "every device's part of an array, transposed in its own memory",
            family: "transpose",
            operands: vec![array("x", None)],
            results: vec![array("y", Some(0))],
            ..Description::default()
        }
    }

    fn configure(&'static self, _: &dyn Attributes) -> Result<Box<dyn Configured>> {
        Ok(Box::new(Transpose))
    }
}

impl Configured for Transpose {
    fn prepare(&self, calls: Vec<Call>, since: Instant) -> Result<Arc<dyn Job>> {
        let first = calls[0].args.first().map(|x| (x.dtype(), x.dims().to_vec()));
        let Some((dtype, dims)) = first.filter(|(_, dims)| dims.len() == 2) else {
            return Err(Error::invalid("meshsolve.transpose: x: expected a matrix as operand"));
        };
        for Call { rank, args, rets, .. } in &calls {
            let ([x], [y]) = (&args[..], &rets[..]) else {
                return Err(Error::invalid(format!(
                    "meshsolve.transpose: rank {rank}: expected operands place, x and result y"
                )));
            };
            x.check("transpose", &format!("x of rank {rank}"), dtype, &dims)?;
            y.check("transpose", &format!("y of rank {rank}"), dtype, &dims)?;
        }
        let plan = Plan::new(dims[0], dims[1], dtype.size());
        // Only the size of an element matters.
        Ok(match dtype.size() {
            4 => Arc::new(Turn::<f32>::new(plan, calls, since)?),
            8 => Arc::new(Turn::<f64>::new(plan, calls, since)?),
            _ => Arc::new(Turn::<faer::c64>::new(plan, calls, since)?),
        })
    }

    fn on_cuda(&self) -> Box<dyn OnCuda> {
        Box::new(Transpose)
    }
}

/// No device waits for another: their parts are independent.
impl OnCuda for Transpose {
    fn run(&self, part: &mut Part) -> Result<()> {
        let ([x], [y]) = (part.args(), part.rets()) else {
            return Err(Error::invalid(
                "meshsolve.transpose: expected operands place, x and result y",
            ));
        };
        let &[rows, cols] = x.dims() else {
            return Err(Error::invalid("meshsolve.transpose: x: expected a matrix as operand"));
        };
        y.check("transpose", "y", x.dtype(), x.dims())?;
        let (data, dtype) = (y.as_ptr().addr() as u64, x.dtype());
        let plan = transposition::plan(rows, cols, dtype.size());
        let scratch_bytes = transposition::scratch_bytes(&plan, data);
        let scratch = part.scratch("transpose", scratch_bytes)?;
        part.pass_through(0, 0)?;
        // SAFETY: XLA owns y, of this shape, and keeps it for this call. The scratch belongs to the
        // stream until the work after the call.
        unsafe { transposition::transpose(part.device(), &plan, data, scratch, part.stream()) }?;
        log::record(CallStats {
            routine: Transpose.name(),
            dtype: dtype.name(),
            n: rows,
            ranks: part.world,
            scratch_bytes,
            ..CallStats::default()
        });
        Ok(())
    }
}

/// T has the size of an element.
struct Turn<T> {
    plan: Plan,
    calls: Vec<Call>,
    comm: Communicator,
    /// Each worker's own scratch, then the shared scratch of each shard.
    scratch: Scratch,
    /// Elements of scratch of each worker.
    own: usize,
    since: Instant,
    of: PhantomData<T>,
}

impl<T: Scalar> Turn<T> {
    fn new(plan: Plan, calls: Vec<Call>, since: Instant) -> Result<Self> {
        let units = (0..plan.phases()).map(|phase| plan.units(phase)).max().unwrap_or(1);
        let workers = worker_count(calls.len(), settings::threads()).min(units * calls.len());
        let own = plan.scratch_bytes().div_ceil(size_of::<T>());
        let elements = workers * own + shared_elements::<T>(&plan, calls.len());
        let scratch = Scratch::new(elements * size_of::<T>())?;
        let figures = || CallStats {
            routine: Transpose.name(),
            dtype: calls[0].args[0].dtype().name(),
            n: plan.rows(),
            ranks: calls.len(),
            workers,
            ..CallStats::default()
        };
        let comm = Communicator::of_call(workers, trace::call(since, figures));
        Ok(Turn { plan, calls, comm, scratch, own, since, of: PhantomData })
    }
}

impl<T: Scalar> Job for Turn<T> {
    fn workers(&self) -> usize {
        self.comm.workers()
    }

    unsafe fn run(&self, worker: usize) -> Result<()> {
        let own = self.scratch.cells(worker * self.own * size_of::<T>(), self.own);
        // SAFETY: *order*: one transposition. The caller promises that each worker runs it once.
        let mut worker = unsafe { CpuWorker::<T>::new(&self.comm, worker, 0, own) };
        for call in self.calls.iter().skip(worker.worker()).step_by(self.comm.workers()) {
            // SAFETY: *order*: this worker's shards until the barrier below.
            unsafe { call.pass_through(0, 0) };
        }
        // A stop is no error here: the worker that stopped the call has recorded the reason.
        if self.comm.barrier().wait().is_ok() {
            let elements = shared_elements::<T>(&self.plan, self.calls.len());
            let at = self.comm.workers() * self.own * size_of::<T>();
            let shared = self.scratch.cells(at, elements);
            let shard = |rank: usize| self.calls[rank].rets[0].column();
            let _ = worker.transpose_shards(&self.plan, self.calls.len(), shard, own, shared);
        }
        Ok(())
    }

    fn stop(&self) {
        self.comm.stop();
    }

    fn finish(&self) -> Result<()> {
        log::record(CallStats {
            routine: Transpose.name(),
            dtype: self.calls[0].args[0].dtype().name(),
            n: self.plan.rows(),
            ranks: self.calls.len(),
            workers: self.comm.workers(),
            scratch_bytes: self.scratch.bytes(),
            phases: vec![("total", self.since.elapsed().as_secs_f64())],
            ..CallStats::default()
        });
        Ok(())
    }
}
