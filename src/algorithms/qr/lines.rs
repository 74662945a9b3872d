//! A worker's rows of a tall matrix, in some pieces.

use std::ops::Range;

use crate::device::Worker;
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// The pieces, each transposed: a column is a row of the matrix.
#[derive(Debug)]
pub struct Lines<'c, T>(pub Vec<Cells<'c, T>>);

impl<'c, T: Scalar + 'c> Lines<'c, T> {
    /// The number of rows.
    pub fn count(&self) -> usize {
        self.0.iter().map(Cells::cols).sum()
    }

    /// The parts of some rows, and where these are among them.
    pub fn parts(&self, rows: Range<usize>) -> impl Iterator<Item = (Cells<'c, T>, usize)> {
        let mut before = 0;
        self.0.iter().filter_map(move |line| {
            let (start, end) = (before.max(rows.start), (before + line.cols()).min(rows.end));
            let part = (start < end).then(|| {
                let part = line.sub(0, start - before, line.rows(), end - start);
                (part.transposed(), start - rows.start)
            });
            before += line.cols();
            part
        })
    }

    pub fn read<W: Worker<T>>(&self, worker: &mut W, rows: Range<usize>, to: Cells<T>) {
        // Some devices copy no empty block.
        let parts = self.parts(rows).filter(|(part, _)| part.cols() > 0);
        worker.span("read rows", None, |w| {
            parts.for_each(|(part, at)| w.copy(part, to.sub(at, 0, part.rows(), part.cols())));
        });
    }

    pub fn write<W: Worker<T>>(&self, worker: &mut W, rows: Range<usize>, from: Cells<T>) {
        let parts = self.parts(rows);
        worker.span("write rows", None, |w| {
            parts.for_each(|(part, at)| w.copy(from.sub(at, 0, part.rows(), part.cols()), part));
        });
    }
}
