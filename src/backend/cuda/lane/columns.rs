//! Whole columns that change places: one launch for all of them where this device's kernels reach all ranks'
//! memory, else copies of one column each.

use super::*;

/// Bytes of the table of so many lists with so many columns.
pub fn table_bytes((lists, columns): (usize, usize)) -> usize {
    (lists + 1 + columns) * size_of::<Address>()
}

impl CudaLane<'_> {
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
        let place = Lines { at: self.take(bytes), pitch: bytes };
        // SAFETY: scratch of this rank, of the stream that it is used on.
        unsafe { self.device.write_lines(place, table.as_ptr().cast(), bytes, 1, stream)? };
        let columns = place.at + ((lists.len() + 1) * size_of::<u64>()) as Address;
        let name = if spare.is_some() { "rotate_columns" } else { "shift_columns" };
        // By the widest elements that all columns are multiples of.
        let bytes = column.rows * size_of::<T>();
        let places = lists.iter().flatten().fold(16, |bits, column| bits | address(*column));
        let width = 1u64 << (places | bytes as u64).trailing_zeros();
        let arguments = [columns, place.at, lists.len() as u64, bytes as u64 / width];
        self.launch("columns", &format!("{name}_{width}"), &arguments)
    }

    fn copy_each<T: Scalar>(
        &mut self,
        lists: &[Vec<Block<T>>],
        spare: Option<Block<T>>,
    ) -> Result<()> {
        for list in lists {
            if let Some(spare) = spare {
                self.put_at(list[0], spare)?;
            }
            for pair in list.windows(2) {
                self.put_at(pair[1], pair[0])?;
            }
            if let Some(spare) = spare {
                self.put_at(spare, list[list.len() - 1])?;
            }
        }
        Ok(())
    }

    /// Whether kernels of this device may follow addresses of all ranks. A driver that fails for another
    /// reason than that they may not will say so when it is called next.
    fn reaches_all(&mut self) -> bool {
        *self.reaches.get_or_insert_with(|| self.crew.reach_all(self.rank).is_ok())
    }
}
