//! Panels of other ranks in this rank's memory, in one of two buffers in turn. This rank copies
//! them, or NCCL sends them to all ranks, at the same time as work on the caller's stream.

use super::*;

/// A panel: its address in its owner's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staged {
    from: Piece,
    pub number: usize,
}

impl CudaWorker<'_> {
    /// The buffer for a panel. Later work on the side stream comes after the last use of it.
    fn slot<'c, T>(&mut self, panel: Cells<'c, T>, number: usize) -> Result<Cells<'c, T>> {
        if let Some(read) = self.read[number % 2].take() {
            self.device.wait_for(read, self.tools.side)?;
        }
        Ok(self.staging(panel, number))
    }

    fn staging<'c, T>(&self, panel: Cells<'c, T>, number: usize) -> Cells<'c, T> {
        let part = (self.scratch.panels[number % 2], self.scratch.needs.panel);
        self.in_scratch(part, panel.rows(), panel.cols())
    }

    /// Rows of a panel in this rank's memory. A remote panel that has not been sent is copied once,
    /// for all targets.
    pub(super) fn panel<'c, T: Scalar>(
        &mut self,
        remote: Cells<'c, T>,
        number: usize,
    ) -> Result<Cells<'c, T>> {
        if self.is_local(remote) {
            return Ok(remote);
        }
        let from = Piece::of(remote);
        let staged = Some(Staged { from, number });
        if self.staged[number % 2] == staged {
            return Ok(self.staging(remote, number));
        }
        let (local, side) = (self.slot(remote, number)?, self.tools.side);
        let to = Piece::of(local).place();
        // SAFETY: *order*: its owner has announced the panel. *Memory* of it and of this rank's
        // scratch.
        unsafe { self.cuda_comm.copy(to, from.place(), from.size(), self.device, side)? };
        self.staged[number % 2] = staged;
        let copied = self.mark(side)?;
        self.device.wait_for(copied, self.main())?;
        Ok(local)
    }

    /// This rank's part in sending the factored panel k to all ranks.
    pub(super) fn send_panel<T: Scalar>(&mut self, a: &Matrix<T>, k: TileColumn) -> Result<()> {
        let Some(clique) = self.clique else { return Ok(()) };
        let (tile, side) = (a.columns().tile(k), self.tools.side);
        let panel = a.rows_of(k, tile.rows().start..a.all_rows().end);
        let (from, local) = (Piece::of(panel), self.slot(panel, k.get())?);
        let is_root = tile.rank == self.rank;
        if is_root {
            let (to, (width, height)) = (Piece::of(local).lines, from.size());
            // SAFETY: *order*: this rank has announced the panel. *Memory* of it and of its
            // scratch.
            unsafe { self.device.copy_lines(to, from.lines, width, height, side)? };
        }
        let bytes = local.rows() * local.cols() * size_of::<T>();
        let this = (self.rank, self.device.context());
        // SAFETY: this rank's scratch, promised to `CudaWorker::new`, has room for a panel.
        unsafe { clique.broadcast(this, tile.rank, address(local), bytes, side)? };
        if is_root {
            self.staged[k.get() % 2] = None;
            // The caller's stream overwrites the panel after a barrier at the earliest.
            self.apart = true;
        } else {
            self.staged[k.get() % 2] = Some(Staged { from, number: k.get() });
            let sent = self.mark(side)?;
            self.device.wait_for(sent, self.main())?;
        }
        Ok(())
    }
}
