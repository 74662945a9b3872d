//! A worker's scratch to reduce rows: those rows, and in some calls a triangle above them.

use crate::matrix::Cells;

/// Elements of the rows that a CPU worker reduces at a time, if these are few columns: they stay in its
/// caches.
pub const CHUNK: usize = 32 << 10;
/// Rows of a device, whose library factors large matrices faster.
const LEAST_ON_DEVICE: usize = 4096;

/// Rows that a rank reduces at a time, with so many columns and at most so many rows. It joins whole
/// triangles. Right-hand sides become one, too.
pub fn rows_of_rank(columns: usize, most: usize) -> usize {
    (4 * columns).max(LEAST_ON_DEVICE).min(most.max(columns).max(1))
}

/// Rows that are reduced at a time, below a triangle if there is one, and room for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Rows of the triangle.
    top: usize,
    columns: usize,
    /// Rows that are reduced at a time.
    rows: usize,
    leading: usize,
}

impl Stack {
    pub fn new(top: usize, rows: usize, columns: usize) -> Stack {
        Stack { top, columns, rows, leading: leading(top + rows) }
    }

    /// Elements of the scratch; `room` are those that the device needs.
    pub fn elements(&self, room: usize) -> usize {
        (self.leading + 1) * self.columns + room
    }

    /// Rows that are reduced at a time.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The leading dimension of the triangle with the rows below it.
    pub fn leading(&self) -> usize {
        self.leading
    }

    /// Shapes (rows, columns, leading dimension) of the triangle with rows below, for so many rows to
    /// reduce.
    pub fn shapes(self, rows: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let chunks = [rows.min(self.rows), rows % self.rows];
        let Stack { top, columns, leading, .. } = self;
        let all = chunks.into_iter().chain([top]);
        all.filter(|&rows| rows > 0).map(move |rows| (top + rows, columns, leading))
    }

    pub fn whole<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.by_columns(self.top + self.rows, self.columns, self.leading)
    }

    /// The triangle.
    pub fn triangle<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        self.whole(scratch).sub(0, 0, self.top, self.columns)
    }

    /// Some rows below it.
    pub fn below<'c, T>(&self, scratch: Cells<'c, T>, rows: usize) -> Cells<'c, T> {
        self.whole(scratch).sub(self.top, 0, rows, self.columns)
    }

    /// The reflectors' coefficients, where nobody keeps them.
    pub fn coefficients<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.sub(self.leading * self.columns, 0, self.columns, 1)
    }

    /// The room of the device.
    pub fn room<'c, T>(&self, scratch: Cells<'c, T>) -> Cells<'c, T> {
        scratch.rows_from((self.leading + 1) * self.columns)
    }
}

/// An odd number of lines, because columns a power of two apart share few cache sets.
fn leading(rows: usize) -> usize {
    (rows.div_ceil(8) | 1) * 8
}

/// The first of `width` columns, or of those that are left, and their number, for all `order` columns.
pub fn steps(order: usize, width: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
    (0..order.div_ceil(width.max(1))).map(move |i| (i * width, width.min(order - i * width)))
}
