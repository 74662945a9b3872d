//! Draws a number that no other call of this process gets: the name of a call over processes, once
//! XLA has given all of them that of the first one. `src/processes/order.rs` has the reasons. Before
//! MPI has started it is -1.
//!
//! Result int32 `[]`. No attributes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use super::{Array, Configured, Description, OnCuda, Part, Routine};
use crate::call::{Attributes, Call, Job};
use crate::error::{Error, Result};
use crate::processes;
use crate::scalar::DType;

pub struct Ticket;

impl Routine for Ticket {
    fn name(&self) -> &'static str {
        "ticket"
    }

    fn description(&self) -> Description {
        let number =
            Array { name: "number", kind: "ticket", elements: "int32", shape: vec![], from: None };
        Description {
            summary: "a number that no other call of the process gets, or -1 before MPI has started",
            family: "ticket",
            results: vec![number],
            ..Description::default()
        }
    }

    fn configure(&'static self, _: &dyn Attributes) -> Result<Box<dyn Configured>> {
        Ok(Box::new(Ticket))
    }
}

impl Configured for Ticket {
    fn prepare(&self, calls: Vec<Call>, _: Instant) -> Result<Arc<dyn Job>> {
        for Call { rank, args, rets, .. } in &calls {
            let ([], [number]) = (&args[..], &rets[..]) else {
                return Err(Error::invalid(format!(
                    "meshsolve.ticket: rank {rank}: expected operand place and result number"
                )));
            };
            number.check("ticket", &format!("number of rank {rank}"), DType::S32, &[])?;
        }
        Ok(Arc::new(Draw(calls)))
    }

    fn on_cuda(&self) -> Box<dyn OnCuda> {
        Box::new(Ticket)
    }
}

impl OnCuda for Ticket {
    fn run(&self, _: &mut Part) -> Result<()> {
        Err(Error::invalid(
            "meshsolve.ticket: expected CPU devices, got CUDA devices; XLA orders their calls",
        ))
    }
}

struct Draw(Vec<Call>);

impl Job for Draw {
    fn workers(&self) -> usize {
        1
    }

    unsafe fn run(&self, _: usize) -> Result<()> {
        static NEXT: AtomicI32 = AtomicI32::new(0);
        processes::ACCOUNT.begun();
        // Two processes never draw the same one.
        let number = processes::launch().map_or(-1, |at| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(at.size as i32);
            next.wrapping_add(at.rank as i32) & i32::MAX
        });
        for call in &self.0 {
            // SAFETY: an int32 (checked), which only this call uses until its reply.
            unsafe { call.rets[0].as_ptr().cast::<i32>().write_unaligned(number) };
        }
        Ok(())
    }

    fn stop(&self) {}

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
