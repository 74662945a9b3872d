//! What a worker knows of the pivot of a column.

/// Columns of a strip.
pub const STRIP: usize = 8;

/// A worker's candidate for a pivot.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Candidate<T> {
    /// Its |Re| + |Im|.
    pub size: f64,
    pub row: usize,
    /// Whether this worker owns the row on the diagonal.
    pub has_diagonal: bool,
    /// The row's entries in the strip.
    pub entries: [T; STRIP],
    /// The entries of the row on the diagonal.
    pub diagonal: [T; STRIP],
}

impl<T: Copy> Candidate<T> {
    /// The best of a group's candidates, the first among equals, with the entries of the row on the
    /// diagonal. Members before the one that has that row have no candidates.
    pub fn best<'c>(mut all: &mut dyn Iterator<Item = &'c Self>) -> Self
    where
        T: 'c,
    {
        let top = Iterator::find(&mut all, |one| one.has_diagonal).expect("the row is a member's");
        // No candidate exceeds a NaN on the diagonal; other NaNs are no candidates.
        let best = all.fold(top, |best, one| if one.size > best.size { one } else { best });
        Candidate { diagonal: top.diagonal, ..*best }
    }
}
