//! Row interchanges. One launch finds the new place of each row (`kernels/rows.cu`), and one for
//! each block of columns moves them. Later blocks reuse these moves, on the stream that found them.

use super::*;

/// The interchanges of one search for moves, as in `kernels/rows.cu`.
const MOST: usize = 1024;

/// Some interchanges: address and number of their pivots, of rows from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interchanges {
    pivots: Address,
    count: usize,
    first: usize,
    back: bool,
}

/// Interchanges with known moves, each in its part of memory. A new one overwrites the oldest.
#[derive(Debug, Default)]
pub(super) struct Found {
    known: Vec<Interchanges>,
    next: usize,
}

/// Bytes of the moves of one search, for a matrix with n rows.
fn part_bytes(n: usize) -> usize {
    4 * MOST.min(n) * size_of::<i32>()
}

/// Bytes of the moves that each stream keeps. The caller's keeps those of all panels, because L's
/// rows follow each of them in turn; the other stream keeps one panel's.
pub fn moves_bytes(n: usize) -> [usize; 2] {
    [(n / MOST + 2) * part_bytes(n), part_bytes(n)]
}

impl CudaWorker<'_> {
    /// Interchanges rows of this rank's block: `first` + i and `pivots[i]`.
    pub(super) fn interchange<T>(
        &mut self,
        x: Cells<T>,
        first: usize,
        pivots: Cells<i32>,
        back: bool,
    ) -> Result<()> {
        if x.cols() == 0 || pivots.rows() == 0 {
            return Ok(());
        }
        // Cut at multiples, so interchanges with different beginnings have most pieces in common.
        let end = first + pivots.rows();
        let cuts = (first / MOST + 1..).map(|k| k * MOST).take_while(|&cut| cut < end);
        let cuts: Vec<usize> = std::iter::once(first).chain(cuts).chain([end]).collect();
        let mut pieces: Vec<_> = cuts.windows(2).map(|cut| (cut[0], cut[1] - cut[0])).collect();
        if back {
            pieces.reverse();
        }
        let entry = format!("permute_rows_{}", size_of::<T>());
        let block = [address(x), x.row_stride() as u64, x.col_stride() as u64, x.cols() as u64];
        for (start, count) in pieces {
            let piece = pivots.sub(start - first, 0, count, 1);
            let moves = self.moves(piece, start, back)?;
            let arguments = [&block[..], &[moves, 2 * count as u64]].concat();
            self.launch("rows", &entry, &arguments)?;
        }
        Ok(())
    }

    /// The address of the moves of some interchanges, for the next work of the stream.
    fn moves(&mut self, pivots: Cells<i32>, first: usize, back: bool) -> Result<Address> {
        let (at, count, stream) = (address(pivots), pivots.rows(), usize::from(self.ahead));
        let asked = Interchanges { pivots: at, count, first, back };
        let part = self.scratch.needs.moves[1];
        assert!(4 * count * size_of::<i32>() <= part, "room for the moves");
        let parts = self.scratch.needs.moves[stream] / part;
        let slot = |number: usize| self.scratch.moves[stream] + (number * part) as Address;
        let found = &mut self.found[stream];
        if let Some(number) = found.known.iter().position(|known| *known == asked) {
            return Ok(slot(number));
        }
        let number = found.next % parts;
        found.next += 1;
        match found.known.get_mut(number) {
            Some(known) => *known = asked,
            None => found.known.push(asked),
        }
        let moves = slot(number);
        let numbers = [count as u64, u64::from(back)];
        let arguments = [&[moves, first as u64, at][..], &numbers].concat();
        let kernel = self.device.kernel("rows", "find_moves")?.on_blocks(1);
        // SAFETY: the source's arguments; *memory* and *order* as promised to `CudaWorker::new`.
        unsafe { self.device.launch(&kernel, &arguments, self.stream())? };
        Ok(moves)
    }
}
