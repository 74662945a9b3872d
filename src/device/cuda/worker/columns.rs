//! Moves whole columns. One launch moves all where this device's kernels reach the memory of all
//! ranks. Otherwise copies move as many adjacent columns at a time as possible.

use super::*;

/// Bytes of the table for so many lists with so many columns.
pub fn table_bytes((lists, columns): (usize, usize)) -> usize {
    (lists + 1 + columns) * size_of::<Address>()
}

impl CudaWorker<'_> {
    /// [`Backend::shift_columns`].
    pub(super) fn shift_all<T: Scalar>(
        &mut self,
        lists: impl Iterator<Item = Vec<Block<T>>>,
        spare: Option<Block<T>>,
    ) -> Result<()> {
        // A list of a single column moves no data.
        let lists: Vec<_> = lists.filter(|list| list.len() > 1).collect();
        let Some(column) = lists.iter().flatten().next() else { return Ok(()) };
        if !self.reaches_all() {
            return self.copy_each(&lists, spare);
        }
        // The beginning of each list, and the addresses of all columns.
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as u64;
            Some(*end)
        });
        let begin = std::iter::once(0).chain(ends);
        let table: Vec<u64> = begin.chain(lists.iter().flatten().map(|c| address(*c))).collect();
        let (bytes, stream) = (size_of_val(&table[..]), self.stream());
        let lists_at = Lines { at: self.take(bytes), pitch: bytes };
        // SAFETY: scratch of this rank, written on the stream that uses it.
        unsafe { self.device.write_lines(lists_at, table.as_ptr().cast(), bytes, 1, stream)? };
        let columns = lists_at.at + ((lists.len() + 1) * size_of::<u64>()) as Address;
        let name = if spare.is_some() { "rotate_columns" } else { "shift_columns" };
        // Uses the widest elements that divide all columns.
        let bytes = column.rows * size_of::<T>();
        let addresses = lists.iter().flatten().fold(16, |bits, column| bits | address(*column));
        let width = 1u64 << (addresses | bytes as u64).trailing_zeros();
        let arguments = [columns, lists_at.at, lists.len() as u64, bytes as u64 / width];
        self.launch("columns", &format!("{name}_{width}"), &arguments)
    }

    fn copy_each<T: Scalar>(
        &mut self,
        lists: &[Vec<Block<T>>],
        spare: Option<Block<T>>,
    ) -> Result<()> {
        let mut rest = lists;
        while let Some(first) = rest.first() {
            let pairs = rest.windows(2);
            let together =
                1 + pairs.take_while(|pair| self.side_by_side(&pair[0], &pair[1])).count();
            // The memory for a panel is as wide as a tile, and holds no panel now.
            let most = if spare.is_some() {
                self.scratch.needs.panel / (first[0].rows * size_of::<T>()).max(1)
            } else {
                together
            };
            let width = together.min(most).max(1);
            let wide = |column: &Block<T>| Block { cols: width, ..*column };
            let list: Vec<_> = first.iter().map(wide).collect();
            let spare = spare.map(|one| match width {
                1 => one,
                _ => {
                    let at = std::ptr::without_provenance_mut(self.scratch.panels[0] as usize);
                    Block::column_major(at, one.rows, width, one.rows)
                }
            });
            if let Some(spare) = spare {
                self.put_at(list[0], spare)?;
            }
            for pair in list.windows(2) {
                self.put_at(pair[1], pair[0])?;
            }
            if let Some(spare) = spare {
                self.put_at(spare, list[list.len() - 1])?;
            }
            rest = &rest[width..];
        }
        Ok(())
    }

    /// Whether each column of a list is followed by that of another list, in the memory of one
    /// rank.
    fn side_by_side<T: Scalar>(&self, list: &[Block<T>], next: &[Block<T>]) -> bool {
        let follows = |(one, other): (&Block<T>, &Block<T>)| {
            let rank = |column: &Block<T>| self.cuda_comm.rank_of(address(*column)).ok();
            let end = one.ptr.wrapping_add(one.col_stride);
            end == other.ptr && one.col_stride == other.col_stride && rank(one) == rank(other)
        };
        list.len() == next.len() && list.iter().zip(next).all(follows)
    }

    /// Whether kernels of this device may use addresses of all ranks. If the driver fails for
    /// another reason, its next call reports that.
    fn reaches_all(&mut self) -> bool {
        *self.reaches.get_or_insert_with(|| self.cuda_comm.reach_all(self.rank).is_ok())
    }
}
