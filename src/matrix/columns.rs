//! The columns of a matrix in blocks of any memory.

use super::Cells;

#[derive(Clone, Debug)]
pub struct Columns<'a, T> {
    /// The first column of each block, ascending.
    blocks: Vec<(usize, Cells<'a, T>)>,
}

impl<'a, T> Columns<'a, T> {
    /// Those of blocks that lie side by side.
    pub fn new(blocks: impl IntoIterator<Item = Cells<'a, T>>) -> Self {
        let mut next = 0;
        let placed = blocks.into_iter().map(|block| {
            let first = next;
            next += block.cols();
            (first, block)
        });
        Columns { blocks: placed.filter(|(_, block)| block.cols() > 0).collect() }
    }

    /// Column j. Panics if there is none.
    pub fn column(&self, j: usize) -> Cells<'a, T> {
        let at = self.blocks.partition_point(|&(first, _)| first <= j) - 1;
        let (first, block) = self.blocks[at];
        block.column(j - first)
    }

    /// Columns from `first` to `end`, in as many blocks as they are in.
    pub fn range(&self, first: usize, end: usize) -> impl Iterator<Item = Cells<'a, T>> {
        self.blocks.iter().filter_map(move |&(start, block)| {
            let (from, to) = (first.max(start), end.min(start + block.cols()));
            (from < to).then(|| block.sub(0, from - start, block.rows(), to - from))
        })
    }
}
