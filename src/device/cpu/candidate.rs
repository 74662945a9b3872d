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
