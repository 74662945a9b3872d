//! A call that only meets: what `meshsolve.info` measures the round trip with, and how tests let one
//! device fail or panic in the middle of a call without touching a solver.
//!
//! Operands and results: one array of any shape, passed through. Attributes: `fault` ("none",
//! "error", "panic") happens on `fault_rank` while all other ranks wait for it.

use std::sync::Arc;
use std::time::Instant;

use super::{Configured, Routine};
use crate::backend::host::progress::Barrier;
use crate::call::{Attributes, Call, Job};
use crate::error::{Error, Kind, Result};

pub struct Diagnose;

#[derive(Clone, Copy)]
enum Fault {
    None,
    Error,
    Panic,
}

struct Options {
    fault: Fault,
    rank: usize,
}

impl Routine for Diagnose {
    fn name(&self) -> &'static str {
        "diagnose"
    }

    fn summary(&self) -> &'static str {
        "all devices meet and hand their operand back"
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
            let (Some(x), Some(y)) = (call.args.first(), call.rets.first()) else {
                return Err(Error::invalid("meshsolve.diagnose: expected one operand, one result"));
            };
            y.check("diagnose", "result", x.dtype, &x.dims)?;
        }
        let meeting = Barrier::new(calls.len());
        Ok(Arc::new(Diagnosis { fault: self.fault, rank: self.rank, calls, meeting }))
    }
}

struct Diagnosis {
    fault: Fault,
    rank: usize,
    calls: Vec<Call>,
    meeting: Barrier,
}

impl Job for Diagnosis {
    fn lanes(&self) -> usize {
        self.calls.len()
    }

    fn run(&self, lane: usize) -> Result<()> {
        if lane == self.rank {
            match self.fault {
                Fault::None => {}
                Fault::Error => {
                    let text = format!("meshsolve.diagnose: rank {lane} was asked to fail");
                    return Err(Error::new(Kind::Internal, text));
                }
                Fault::Panic => panic!("rank {lane} was asked to panic"),
            }
        }
        if self.meeting.wait().is_ok() {
            self.calls[lane].pass_through(0, 0);
        }
        Ok(())
    }

    fn stop(&self) {
        self.meeting.stop();
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
