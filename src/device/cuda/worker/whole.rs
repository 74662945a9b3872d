//! Steps of a vendor's solver of whole matrices, between the work of this library.

use super::*;
use crate::device::Device as Kernels;
use crate::device::cuda::engine::{CusolverMg, WholeStep};

impl CudaWorker<'_> {
    /// A step of the vendor's solver of whole matrices. All ranks call this, and it ends with a
    /// barrier.
    pub fn whole<T: Scalar>(
        &mut self,
        engine: &CusolverMg,
        a: &DistMatrix<T>,
        step: WholeStep<T>,
    ) -> Step {
        let (cuda_comm, rank) = (self.cuda_comm, self.rank);
        if a.n() == 0 {
            return Ok(());
        }
        let seats = &cuda_comm.seats;
        let sides = match step {
            WholeStep::Solve { x, conjugated, .. } => x.map(|x| (x, conjugated)),
            _ => None,
        };
        if let Some((x, conjugated)) = sides {
            // SAFETY: *memory* of the seat, promised to `CudaWorker::new`.
            let b = unsafe { engine.rhs(rank, &seats[rank]) };
            self.copy(x, b);
            if conjugated {
                self.conjugate(b);
            }
        }
        // The engine does not use this call's streams.
        self.ask(|worker| {
            worker.join()?;
            worker.device.wait(worker.main())
        })?;
        self.barrier()?;
        if rank == 0 {
            // SAFETY: *order*: the others wait below, and all ranks have done their work.
            let info = self.ask(|_| unsafe { engine.run(seats, a, step) })?;
            if info > 0 {
                // The kernel below finds pivots that are not finite.
                self.comm.report(info, true);
            }
        }
        self.barrier()?;
        if let Some((x, conjugated)) = sides {
            // SAFETY: *memory* of the seat, promised to `CudaWorker::new`.
            let b = unsafe { engine.rhs(rank, &seats[rank]) };
            if conjugated {
                self.conjugate(b);
            }
            self.copy(b, x);
        }
        if let WholeStep::Potrf | WholeStep::Getrf(_) = step {
            let mine = a.columns().each().filter(|&t| a.columns().tile(t).rank == rank);
            for t in mine {
                let (tile, first) = (a.diagonal(t), a.columns().tile(t).rows().start);
                self.ask(|worker| {
                    let info = worker.next_info(first);
                    // SAFETY: a number in this rank's scratch, promised to `CudaWorker::new`.
                    unsafe { worker.device.clear(info, size_of::<i32>(), worker.main())? };
                    worker.find_no_number(tile, info)
                })?;
            }
        }
        Ok(())
    }
}
