//! A call that is only a rendezvous. Tests let one device fail or panic in the middle of it, without
//! a solver. The wheel does not have it (`benchmarks/native`).
//!
//! Operands and results: one array of any shape, passed through. Attributes: `fault` ("none",
//! "error", "panic") happens on `fault_rank` while all other ranks wait for it.

use std::sync::Arc;
use std::time::Instant;

use meshsolve::call::{Attributes, Buffer, Call, Job};
use meshsolve::comm::progress::Barrier;
use meshsolve::error::{Error, Kind, Result};
use meshsolve::routines::{Configured, Description, OnCuda, Part, Routine};

pub struct Diagnose;

#[derive(Clone, Copy)]
enum Fault {
    None,
    Error,
    Panic,
}

#[derive(Clone, Copy)]
struct Options {
    fault: Fault,
    rank: usize,
}

impl Routine for Diagnose {
    fn name(&self) -> &'static str {
        "diagnose"
    }

    fn description(&self) -> Description {
        let summary = "all devices meet and hand their operand back";
        Description { summary, ..Description::default() }
    }

    fn configure(&'static self, attributes: &dyn Attributes) -> Result<Box<dyn Configured>> {
        let fault = match attributes.text("fault").as_deref() {
            None | Some("none") => Fault::None,
            Some("error") => Fault::Error,
            Some("panic") => Fault::Panic,
            Some(other) => {
                return Err(Error::invalid(format!(
                    "meshsolve.diagnose: attribute `fault`: expected none, error or panic, got {other:?}"
                )));
            }
        };
        let rank = attributes.int("fault_rank").unwrap_or(0) as usize;
        Ok(Box::new(Options { fault, rank }))
    }
}

impl Configured for Options {
    fn prepare(&self, calls: Vec<Call>, _since: Instant) -> Result<Arc<dyn Job>> {
        for call in &calls {
            check(&call.args, &call.rets)?;
        }
        let barrier = Barrier::new(calls.len());
        Ok(Arc::new(Diagnosis { options: *self, calls, barrier }))
    }

    fn on_cuda(&self) -> Box<dyn OnCuda> {
        Box::new(*self)
    }
}

impl OnCuda for Options {
    fn run(&self, part: &mut Part) -> Result<()> {
        check(part.args(), part.rets())?;
        self.fail(part.place()?.0)?;
        let meet = |part: &mut Part| part.gather((), |_| Ok(()));
        meet(part)?;
        part.pass_through(0, 0)?;
        // So that all return the same.
        meet(part)
    }
}

fn check(args: &[Buffer], rets: &[Buffer]) -> Result<()> {
    let (Some(x), Some(y)) = (args.first(), rets.first()) else {
        return Err(Error::invalid("meshsolve.diagnose: expected one operand, one result"));
    };
    y.check("diagnose", "result", x.dtype(), x.dims())
}

impl Options {
    /// The fault requested of this rank.
    fn fail(&self, rank: usize) -> Result<()> {
        match self.fault {
            Fault::Error if rank == self.rank => {
                let text = format!("meshsolve.diagnose: rank {rank} was asked to fail");
                Err(Error::new(Kind::Internal, text))
            }
            Fault::Panic if rank == self.rank => panic!("rank {rank} was asked to panic"),
            _ => Ok(()),
        }
    }
}

struct Diagnosis {
    options: Options,
    calls: Vec<Call>,
    barrier: Barrier,
}

impl Job for Diagnosis {
    fn workers(&self) -> usize {
        self.calls.len()
    }

    unsafe fn run(&self, worker: usize) -> Result<()> {
        self.options.fail(worker)?;
        if self.barrier.wait().is_ok() {
            // SAFETY: *order*: each worker has a call of its own.
            unsafe { self.calls[worker].pass_through(0, 0) };
        }
        Ok(())
    }

    fn stop(&self) {
        self.barrier.stop();
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
