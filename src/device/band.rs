//! A Hermitian band matrix, and the tridiagonal one that has its eigenvalues.

use crate::matrix::Cells;

/// Elements of a column in addition to those of the band and of its bulges. Rows of the matrix are then no
/// power of two apart.
const MORE: usize = 9;

/// The lower half of a band matrix: element (j + d, j) in row d of column j, for d up to the `width`.
/// While it is reduced, as many more diagonals but one fill up.
#[derive(Clone, Copy, Debug)]
pub struct Band<'a, T> {
    cells: Cells<'a, T>,
    width: usize,
}

impl<'a, T> Band<'a, T> {
    /// Elements of a column.
    pub fn rows(width: usize) -> usize {
        2 * width + MORE
    }

    /// `cells` have a column of `rows` elements for each column of the matrix.
    pub fn new(cells: Cells<'a, T>, width: usize) -> Self {
        assert_eq!(cells.rows(), Self::rows(width), "rows of a band");
        Band { cells, width }
    }

    pub fn cells(&self) -> Cells<'a, T> {
        self.cells
    }

    /// The number of diagonals below the main one.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The order of the matrix.
    pub fn order(&self) -> usize {
        self.cells.cols()
    }
}

/// A real symmetric tridiagonal matrix.
#[derive(Clone, Debug, Default)]
pub struct Tridiagonal {
    pub diagonal: Vec<f64>,
    /// The moduli of the entries below the diagonal, on which alone eigenvalues depend.
    pub below: Vec<f64>,
}
