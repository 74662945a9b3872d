//! Plain descriptions of memory: a strided block of a device, and the distributed matrix as a set
//! of column-major shards. They carry no lifetime, because this process cannot dereference the
//! memory of every device. A backend turns them into views and states why that is sound.

use crate::layout::{Columns, Layout, Storage};

/// `rows x cols` elements, `(i, j)` at `ptr + i * row_stride + j * col_stride` (in elements).
#[derive(Debug)]
pub struct Block<T> {
    pub ptr: *mut T,
    pub rows: usize,
    pub cols: usize,
    pub row_stride: usize,
    pub col_stride: usize,
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Block<T> {}

// SAFETY: a block is an address and four numbers. The code that dereferences it upholds
// exclusivity.
unsafe impl<T> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Block<T> {}

impl<T> Block<T> {
    /// Memory from `ptr` on, with the layout `(rows,cols):(row_stride,col_stride)`.
    pub fn new(ptr: *mut T, layout: &Layout) -> Self {
        assert!(layout.rank() == 2, "{layout} is no matrix");
        let (shape, stride) = (layout.shape().flat(), layout.stride().flat());
        assert!(shape.len() == 2, "{layout} is nested");
        Block { ptr, rows: shape[0], cols: shape[1], row_stride: stride[0], col_stride: stride[1] }
    }

    pub fn column_major(ptr: *mut T, rows: usize, cols: usize, leading_dimension: usize) -> Self {
        Block { ptr, rows, cols, row_stride: 1, col_stride: leading_dimension }
    }

    pub fn row_major(ptr: *mut T, rows: usize, cols: usize, leading_dimension: usize) -> Self {
        Block { ptr, rows, cols, row_stride: leading_dimension, col_stride: 1 }
    }

    /// The sub-block of `rows x cols` whose first element is `(row, col)`.
    pub fn sub(&self, row: usize, col: usize, rows: usize, cols: usize) -> Self {
        assert!(
            row + rows <= self.rows && col + cols <= self.cols,
            "sub-block {rows}x{cols} at ({row}, {col}) leaves a block of {}x{}",
            self.rows,
            self.cols
        );
        let offset = row * self.row_stride + col * self.col_stride;
        Block { ptr: self.ptr.wrapping_add(offset), rows, cols, ..*self }
    }

    pub fn rows_from(&self, row: usize) -> Self {
        self.sub(row, 0, self.rows - row, self.cols)
    }

    /// The diagonal of a square block as a column.
    pub fn diagonal(&self) -> Self {
        assert_eq!(self.rows, self.cols, "the diagonal of a square block");
        let row_stride = self.row_stride + self.col_stride;
        Block { cols: 1, row_stride, ..*self }
    }

    pub fn transposed(&self) -> Self {
        Block {
            ptr: self.ptr,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }
}

/// An n x n matrix whose whole columns are distributed to ranks by `columns`. Rank r holds
/// `n/P` columns of n elements each, `shards[r]`. They are contiguous if the matrix is to be
/// factored.
#[derive(Debug)]
pub struct Matrix<T> {
    pub shards: Vec<Block<T>>,
    pub columns: Columns,
}

impl<T> Matrix<T> {
    pub fn new(bases: &[*mut T], columns: Columns) -> Self {
        let shard = Storage::column_major(columns.n(), columns.ranks());
        Self::laid_out(bases, &shard, columns)
    }

    /// As `new`, with shards of any layout (row, column within the shard).
    pub fn laid_out(bases: &[*mut T], shard: &Layout, columns: Columns) -> Self {
        assert_eq!(bases.len(), columns.ranks(), "one shard per rank");
        let shards = bases.iter().map(|&p| Block::new(p, shard)).collect();
        Matrix { shards, columns }
    }

    /// The first address of each shard.
    pub fn bases(&self) -> Vec<*mut T> {
        self.shards.iter().map(|shard| shard.ptr).collect()
    }

    /// All rows of tile column `t`.
    pub fn tile_column(&self, t: usize) -> Block<T> {
        let tile = self.columns.tile(t);
        self.shards[tile.rank].sub(0, tile.local, self.columns.n(), tile.width)
    }

    /// The diagonal tile of tile column `t`.
    pub fn diagonal(&self, t: usize) -> Block<T> {
        let tile = self.columns.tile(t);
        self.tile_column(t).sub(tile.global, 0, tile.width, tile.width)
    }

    /// The rows of tile `i` in tile column `j`.
    pub fn tile(&self, i: usize, j: usize) -> Block<T> {
        let rows = self.columns.tile(i);
        self.tile_column(j).sub(rows.global, 0, rows.width, self.columns.tile(j).width)
    }

    /// The rows of tile column `t` below its diagonal tile.
    pub fn below(&self, t: usize) -> Block<T> {
        let tile = self.columns.tile(t);
        self.tile_column(t).rows_from(tile.global + tile.width)
    }

    /// Column `position` of all shards, counted in rank order.
    pub fn column_at(&self, position: usize) -> Block<T> {
        let local = self.columns.per_rank();
        self.shards[position / local].sub(0, position % local, self.columns.n(), 1)
    }
}
