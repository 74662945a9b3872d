//! The view of memory that several workers write in turn.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use faer::{MatMut, MatRef};

use crate::layout::{GlobalRow, Layout};

/// `rows x cols` elements of a device, (i, j) at `i * row_stride + j * col_stride` elements from
/// the first.
///
/// It is for its elements what `&[Cell<T>]` is for those of a slice: a view that can be copied, and
/// that says nothing about who writes them. Threads may share it, because nothing here accesses an
/// element: [`read`](Cells::read) and [`write`](Cells::write) are `unsafe`. Two promises make them
/// sound.
///
/// - *Memory*, by the code that makes a view of an address ([`Cells::new`]): all elements exist, in
///   one allocation, for the lifetime. No safe method leaves them.
/// - *Order*, by the code that makes a worker (`CpuWorker::new`, `CudaWorker::new`): the workers of
///   a call run one routine on the same views. Its announcements and barriers put each write of an
///   element before or after every other access to it.
pub struct Cells<'a, T> {
    first: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    rank: usize,
    memory: PhantomData<&'a [UnsafeCell<T>]>,
}

impl<T> Clone for Cells<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Cells<'_, T> {}

// SAFETY: a view accesses no element. Who does relies on *order*, which other threads keep, too.
unsafe impl<T: Send> Send for Cells<'_, T> {}
// SAFETY: the same; a shared reference to a view gives no more than a copy of it.
unsafe impl<T: Send> Sync for Cells<'_, T> {}

impl<'a, T> Cells<'a, T> {
    /// Memory of a rank from `first` on, with the layout `(rows,cols):(row_stride,col_stride)`. Where
    /// workers reach the memory of all ranks, any rank will do.
    ///
    /// # Safety
    /// *Memory*: it is memory of `rank`. `first` is aligned, and `layout.cosize()` initialised elements follow it in one
    /// allocation of any device; no two are at one address. It lives for `'a`. Meanwhile only views
    /// access it. An empty view may begin at null.
    pub unsafe fn new(first: *mut T, layout: &Layout, rank: usize) -> Self {
        assert!(layout.rank() == 2, "{layout} is no matrix");
        let (shape, stride) = (layout.shape().flat(), layout.stride().flat());
        assert!(shape.len() == 2, "{layout} is nested");
        let ([rows, cols], [row_stride, col_stride]) =
            ([shape[0], shape[1]], [stride[0], stride[1]]);
        // References need an address other than null.
        let first = NonNull::new(first).unwrap_or(NonNull::dangling()).as_ptr();
        Cells { first, rows, cols, row_stride, col_stride, rank, memory: PhantomData }
    }

    /// A view of a slice, as a column.
    pub fn of(memory: &'a mut [T]) -> Self {
        // SAFETY: *memory*, as the slice is borrowed for the lifetime of the view.
        unsafe { Self::new(memory.as_mut_ptr(), &Layout::left((memory.len(), 1)), 0) }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn cols(&self) -> usize {
        self.cols
    }

    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    pub fn col_stride(&self) -> usize {
        self.col_stride
    }

    /// The rank that has the memory.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The first element, for work on addresses.
    pub fn as_ptr(&self) -> *mut T {
        self.first
    }

    /// The address of an element. Panics where there is none.
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> *mut T {
        assert!(row < self.rows && col < self.cols, "an element of the view");
        self.first.wrapping_add(row * self.row_stride + col * self.col_stride)
    }

    /// The `rows x cols` elements from `(row, col)` on. Panics where they leave the view.
    pub fn sub(&self, row: usize, col: usize, rows: usize, cols: usize) -> Self {
        assert!(
            row <= self.rows
                && rows <= self.rows - row
                && col <= self.cols
                && cols <= self.cols - col,
            "{rows} x {cols} at ({row}, {col}) leave a view of {} x {}",
            self.rows,
            self.cols
        );
        let offset = row * self.row_stride + col * self.col_stride;
        Cells { first: self.first.wrapping_add(offset), rows, cols, ..*self }
    }

    pub fn row_range(&self, rows: Range<usize>) -> Self {
        self.sub(rows.start, 0, rows.len(), self.cols)
    }

    /// Rows of the matrix, of a view that has all of them.
    pub fn matrix_rows(&self, rows: Range<GlobalRow>) -> Self {
        self.row_range(rows.start.get()..rows.end.get())
    }

    pub fn rows_from(&self, row: usize) -> Self {
        self.row_range(row..self.rows.max(row))
    }

    /// These rows and those of `below`, which follow them in the memory of the same columns.
    pub fn above(&self, below: Self) -> Self {
        let next = self.first.wrapping_add(self.rows * self.row_stride);
        let strides = [self, &below].map(|of| (of.row_stride, of.col_stride, of.cols, of.rank));
        assert!(next == below.first && strides[0] == strides[1], "rows of the same columns");
        Cells { rows: self.rows + below.rows, ..*self }
    }

    pub fn column(&self, col: usize) -> Self {
        self.sub(0, col, self.rows, 1)
    }

    /// The diagonal of a square view as a column.
    pub fn diagonal(&self) -> Self {
        assert_eq!(self.rows, self.cols, "the diagonal of a square view");
        let row_stride = self.row_stride + self.col_stride;
        Cells { cols: self.cols.min(1), row_stride, ..*self }
    }

    pub fn transposed(&self) -> Self {
        let Cells { rows, cols, row_stride, col_stride, .. } = *self;
        Cells { rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride, ..*self }
    }

    /// A contiguous column as `rows x cols` elements by columns, `leading` elements apart. Panics
    /// where it has too few.
    pub fn by_columns(&self, rows: usize, cols: usize, leading: usize) -> Self {
        let last = cols.saturating_sub(1).checked_mul(leading).and_then(|at| at.checked_add(rows));
        let fits = rows == 0 || cols == 0 || last.is_some_and(|needed| needed <= self.rows);
        assert!(self.is_contiguous_column(), "memory in one piece");
        assert!(leading >= rows || cols <= 1, "columns that do not overlap");
        assert!(fits, "{rows} x {cols} by {leading} leave a view of {} elements", self.rows);
        Cells { rows, cols, row_stride: 1, col_stride: leading, ..*self }
    }

    /// A contiguous column as `rows x cols` elements by rows.
    pub fn by_rows(&self, rows: usize, cols: usize) -> Self {
        self.by_columns(cols, rows, cols).transposed()
    }

    /// All elements in the order of memory, as a column. Panics unless they are in one piece.
    pub fn flat(&self) -> Self {
        let Cells { rows, cols, row_stride, col_stride, .. } = *self;
        let piece = |length, stride, count, next| {
            (stride == 1 || length <= 1) && (next == length || count <= 1)
        };
        let by_columns = piece(rows, row_stride, cols, col_stride);
        assert!(by_columns || piece(cols, col_stride, rows, row_stride), "memory in one piece");
        Cells { rows: rows * cols, cols: 1, row_stride: 1, col_stride: rows * cols, ..*self }
    }

    fn is_contiguous_column(&self) -> bool {
        self.cols == 1 && (self.row_stride == 1 || self.rows <= 1)
    }

    /// The elements as a shared view.
    ///
    /// # Safety
    /// The CPU reaches the memory. *Order*: for the lifetime of the result, nothing writes these
    /// elements.
    pub unsafe fn read(self) -> MatRef<'a, T> {
        let strides = (self.row_stride as isize, self.col_stride as isize);
        // SAFETY: *memory*, kept since `new`; the caller promises the rest.
        unsafe { MatRef::from_raw_parts(self.first, self.rows, self.cols, strides.0, strides.1) }
    }

    /// The elements as an exclusive view.
    ///
    /// # Safety
    /// The CPU reaches the memory. *Order*: for the lifetime of the result, nothing else accesses
    /// these elements.
    pub unsafe fn write(self) -> MatMut<'a, T> {
        let strides = (self.row_stride as isize, self.col_stride as isize);
        // SAFETY: *memory*, kept since `new`; the caller promises the rest.
        unsafe {
            MatMut::from_raw_parts_mut(self.first, self.rows, self.cols, strides.0, strides.1)
        }
    }
}

impl<T> std::fmt::Debug for Cells<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cells { first, rows, cols, row_stride, col_stride, .. } = self;
        write!(f, "({rows},{cols}):({row_stride},{col_stride}) at {first:p}")
    }
}
