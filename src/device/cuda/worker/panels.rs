//! What other ranks have, in this rank's memory.
//!
//! Panels arrive in one of two buffers in turn. This rank copies them, or NCCL sends them to all
//! ranks, at the same time as work on the caller's stream.

use super::*;

impl CudaWorker<'_> {
    /// `rows` of the finished tile column k, in this rank's memory.
    pub(super) fn bring_panel<'c, T: Scalar>(
        &mut self,
        a: &DistMatrix<'c, T>,
        k: TileColumn,
        rows: Range<GlobalRow>,
    ) -> Result<Cells<'c, T>> {
        let remote = a.remote_rows_of(k, rows).cells();
        let root = remote.rank();
        if root == self.rank && self.clique.is_none() {
            return Ok(remote);
        }
        let side = self.tools.side;
        let local = self.free_buffer(remote)?;
        let (from, to) = (Piece::of(remote), Piece::of(local));
        let Some(clique) = self.clique else {
            // SAFETY: *order*: its owner has announced the panel. *Memory* of it and of this rank's
            // scratch.
            unsafe {
                self.cuda_comm.copy(to.place(), from.place(), from.size(), self.device, side)?;
            }
            self.follow_side()?;
            return Ok(local);
        };
        if root == self.rank {
            let (width, height) = from.size();
            // SAFETY: *order*: this rank has announced the panel. *Memory* of it and of its
            // scratch.
            unsafe { self.device.copy_lines(to.lines, from.lines, width, height, side)? };
        }
        let bytes = local.rows() * local.cols() * size_of::<T>();
        let this = (self.rank, self.device.context());
        // SAFETY: this rank's scratch, promised to `CudaWorker::new`, has room for a panel.
        unsafe { clique.broadcast(this, root, address(local), bytes, side)? };
        if root == self.rank {
            // The caller's stream overwrites the panel after a barrier at the earliest.
            self.apart = true;
            return Ok(remote);
        }
        self.follow_side()?;
        Ok(local)
    }

    /// The next buffer, for a panel. The side stream waits for work that uses the panel before the
    /// last, which the caller's stream had when the last one came. It also waits for a barrier that
    /// the caller's stream has passed since.
    fn free_buffer<'c, T>(&mut self, panel: Cells<'c, T>) -> Result<Cells<'c, T>> {
        let now = self.mark(self.main())?;
        let before = self.used.replace(now).filter(|_| !self.met);
        if let Some(event) = before.or(std::mem::take(&mut self.met).then_some(now)) {
            self.device.wait_for(event, self.tools.side)?;
        }
        self.buffer = 1 - self.buffer;
        let part = (self.scratch.panels[self.buffer], self.scratch.needs.panel);
        Ok(self.alike(part, panel))
    }

    /// A part of this rank's scratch for the content of a block, in the same storage order.
    fn alike<'c, U>(&self, part: (Address, usize), block: Cells<'c, U>) -> Cells<'c, U> {
        match is_columns(&block) {
            true => self.in_scratch(part, block.rows(), block.cols()),
            false => self.in_scratch(part, block.cols(), block.rows()).transposed(),
        }
    }

    /// Makes the caller's stream wait for the other one's present work.
    fn follow_side(&mut self) -> Result<()> {
        let copied = self.mark(self.tools.side)?;
        self.device.wait_for(copied, self.main())
    }

    /// What another rank has, in this rank's memory until the next one.
    pub(super) fn bring<'c, U>(&mut self, there: Cells<'c, U>) -> Result<Cells<'c, U>> {
        if self.is_local(there) {
            return Ok(there);
        }
        assert!(!self.ahead, "the memory for copies belongs to the caller's stream");
        let local = self.alike((self.scratch.fetched, self.scratch.needs.fetched), there);
        self.transfer(there, local)?;
        Ok(local)
    }
}
