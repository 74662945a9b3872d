//! Moves whole columns. One launch moves all where this device's kernels reach the memory of all
//! ranks. Otherwise copies move as many adjacent columns at a time as possible.

use super::*;

/// Bytes of the table for so many lists with so many columns.
pub fn table_bytes((lists, columns): (usize, usize)) -> usize {
    (lists + 1 + columns) * size_of::<Address>()
}

impl CudaWorker<'_> {
    /// [`Comm::exchange_columns`].
    pub(super) fn exchange_all<'c, T: Scalar>(
        &mut self,
        lists: impl Iterator<Item = Vec<Cells<'c, T>>>,
        spare: Option<Cells<'c, T>>,
    ) -> Result<()> {
        // A list of a single column moves no data.
        let lists: Vec<_> = lists.filter(|list| list.len() > 1).collect();
        let Some(column) = lists.iter().flatten().next() else { return Ok(()) };
        assert!(lists.iter().flatten().all(|one| one.row_stride() == 1), "contiguous columns");
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
        // SAFETY: this rank's scratch, promised to `CudaWorker::new`, on the stream that uses it.
        unsafe { self.device.write_lines(lists_at, table.as_ptr().cast(), bytes, 1, stream)? };
        let columns = lists_at.at + ((lists.len() + 1) * size_of::<u64>()) as Address;
        let name = if spare.is_some() { "rotate_columns" } else { "shift_columns" };
        // Uses the widest elements that divide all columns.
        let bytes = column.rows() * size_of::<T>();
        let addresses = lists.iter().flatten().fold(16, |bits, column| bits | address(*column));
        let width = 1u64 << (addresses | bytes as u64).trailing_zeros();
        let arguments = [columns, lists_at.at, lists.len() as u64, bytes as u64 / width];
        self.launch("columns", &format!("{name}_{width}"), &arguments)
    }

    fn copy_each<T: Scalar>(
        &mut self,
        lists: &[Vec<Cells<T>>],
        spare: Option<Cells<T>>,
    ) -> Result<()> {
        let mut rest = lists;
        while let Some(first) = rest.first() {
            let pairs = rest.windows(2);
            let together =
                1 + pairs.take_while(|pair| Self::side_by_side(&pair[0], &pair[1])).count();
            // The memory for a panel is as wide as a tile, and holds no panel now.
            let column = Piece::of(first[0]).width;
            let most = match spare {
                Some(_) => self.scratch.needs.panel / column.max(1),
                None => together,
            };
            let width = together.min(most).max(1);
            let list: Vec<_> = first.iter().map(|column| wide(*column, width)).collect();
            let spare = spare.map(|one| match width {
                1 => Piece::of(one),
                _ => {
                    let lines = Lines { at: self.scratch.panels[0], pitch: column };
                    Piece { lines, width: column, height: width, rank: self.rank }
                }
            });
            if let Some(spare) = spare {
                self.move_piece(list[0], spare)?;
            }
            for pair in list.windows(2) {
                self.move_piece(pair[1], pair[0])?;
            }
            if let Some(spare) = spare {
                self.move_piece(spare, list[list.len() - 1])?;
            }
            rest = &rest[width..];
        }
        Ok(())
    }

    /// Whether each column of a list is followed by that of another list, in the memory of one
    /// rank.
    fn side_by_side<T: Scalar>(list: &[Cells<T>], next: &[Cells<T>]) -> bool {
        let follows = |(one, other): (&Cells<T>, &Cells<T>)| {
            let end = one.as_ptr().wrapping_add(one.col_stride());
            end == other.as_ptr()
                && one.col_stride() == other.col_stride()
                && one.rank() == other.rank()
        };
        list.len() == next.len() && list.iter().zip(next).all(follows)
    }

    /// Whether kernels of this device may use addresses of all ranks. If the driver fails for
    /// another reason, its next call reports that.
    fn reaches_all(&mut self) -> bool {
        *self.reaches.get_or_insert_with(|| self.cuda_comm.reach_all(self.rank).is_ok())
    }
}

/// A column and those that follow it in memory.
fn wide<T>(column: Cells<T>, columns: usize) -> Piece {
    let one = Piece::of(column);
    let pitch = if columns > 1 { column.col_stride() * size_of::<T>() } else { one.lines.pitch };
    Piece { lines: Lines { pitch, ..one.lines }, height: columns, ..one }
}
