//! A factored panel, as a worker reads it.

use std::ops::Range;

use super::{Cells, DistMatrix};
use crate::layout::{GlobalRow, TileColumn};

/// Rows of a finished tile column, in memory that this worker reaches: its owner's, or a copy.
#[derive(Clone, Debug)]
pub struct Panel<'a, T> {
    tile: TileColumn,
    rows: Range<GlobalRow>,
    /// The rows of its diagonal tile.
    diagonal: Range<GlobalRow>,
    cells: Cells<'a, T>,
}

impl<'a, T> Panel<'a, T> {
    /// `cells` have the content of `rows` of tile column `tile` of `a`.
    pub fn new(
        a: &DistMatrix<T>,
        tile: TileColumn,
        rows: Range<GlobalRow>,
        cells: Cells<'a, T>,
    ) -> Self {
        let diagonal = a.columns().tile(tile);
        let shape = (rows.end - rows.start, diagonal.width);
        assert_eq!((cells.rows(), cells.cols()), shape, "rows of a tile column");
        Panel { tile, rows, diagonal: diagonal.rows(), cells }
    }

    /// Which tile column it is.
    pub fn tile(&self) -> TileColumn {
        self.tile
    }

    /// Rows of the matrix, of those that it has.
    pub fn rows(&self, rows: Range<GlobalRow>) -> Cells<'a, T> {
        self.cells.row_range(rows.start - self.rows.start..rows.end - self.rows.start)
    }

    /// The rows of its diagonal tile.
    pub fn diagonal_rows(&self) -> Range<GlobalRow> {
        self.diagonal.clone()
    }

    pub fn diagonal(&self) -> Cells<'a, T> {
        self.rows(self.diagonal_rows())
    }
}
