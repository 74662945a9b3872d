//! Whole columns that change places: one launch for all of them where this device's kernels reach all ranks'
//! memory, else copies, of as many columns at a time as lie side by side.

use super::*;

/// Bytes of the table of so many lists with so many columns.
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
        // Of a single column nothing moves.
        let lists: Vec<_> = lists.filter(|list| list.len() > 1).collect();
        let Some(column) = lists.iter().flatten().next() else { return Ok(()) };
        if !self.reaches_all() {
            return self.copy_each(&lists, spare);
        }
        // Where each list begins, and the addresses of all columns.
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as u64;
            Some(*end)
        });
        let begin = std::iter::once(0).chain(ends);
        let table: Vec<u64> = begin.chain(lists.iter().flatten().map(|c| address(*c))).collect();
        let (bytes, stream) = (size_of_val(&table[..]), self.stream());
        let lists_at = Lines { at: self.take(bytes), pitch: bytes };
        // SAFETY: scratch of this rank, of the stream that it is used on.
        unsafe { self.device.write_lines(lists_at, table.as_ptr().cast(), bytes, 1, stream)? };
        let columns = lists_at.at + ((lists.len() + 1) * size_of::<u64>()) as Address;
        let name = if spare.is_some() { "rotate_columns" } else { "shift_columns" };
        // By the widest elements that all columns are multiples of.
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
            // A place for panels is as wide as a tile, and no panel is there now.
            let most = if spare.is_some() {
                self.room.needs.panel / (first[0].rows * size_of::<T>()).max(1)
            } else {
                together
            };
            let width = together.min(most).max(1);
            let wide = |column: &Block<T>| Block { cols: width, ..*column };
            let list: Vec<_> = first.iter().map(wide).collect();
            let spare = spare.map(|one| match width {
                1 => one,
                _ => {
                    let at = std::ptr::without_provenance_mut(self.room.panels[0] as usize);
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

    /// Whether each column of a list follows that of another one, in the memory of one rank.
    fn side_by_side<T: Scalar>(&self, list: &[Block<T>], next: &[Block<T>]) -> bool {
        let follows = |(one, other): (&Block<T>, &Block<T>)| {
            let rank = |column: &Block<T>| self.cuda_comm.rank_of(address(*column)).ok();
            let end = one.ptr.wrapping_add(one.col_stride);
            end == other.ptr && one.col_stride == other.col_stride && rank(one) == rank(other)
        };
        list.len() == next.len() && list.iter().zip(next).all(follows)
    }

    /// Whether kernels of this device may follow addresses of all ranks. A driver that fails for another
    /// reason than that they may not will say so when it is called next.
    fn reaches_all(&mut self) -> bool {
        *self.reaches.get_or_insert_with(|| self.cuda_comm.reach_all(self.rank).is_ok())
    }
}
