//! A Hermitian band matrix, and the tridiagonal one that has its eigenvalues.

use std::ops::Range;

use crate::matrix::{Cells, Columns};

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
    /// Re and Im of numbers of modulus 1, one for each row. The matrix itself is D T D^H with these
    /// in D.
    pub phases: Vec<(f64, f64)>,
}

/// Where reflectors of sweeps through a band matrix stay (`cpu/chase`). Those of sweep s have n - 1 - s
/// elements together, which are the column n - 1 - s of a square matrix above its diagonal. Instead of
/// its one, each has its coefficient.
#[derive(Clone, Debug)]
pub struct SweepReflectors<'a, T> {
    columns: Columns<'a, T>,
    order: usize,
    width: usize,
}

impl<'a, T> SweepReflectors<'a, T> {
    /// Those of a band matrix of this order and width.
    pub fn new(columns: Columns<'a, T>, order: usize, width: usize) -> Self {
        SweepReflectors { columns, order, width }
    }

    pub fn order(&self) -> usize {
        self.order
    }

    /// The longest reflector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of sweeps. A band of width 1 needs none.
    pub fn sweeps(&self) -> usize {
        if self.width < 2 { 0 } else { self.order.saturating_sub(2) }
    }

    /// The first row of the k-th reflector of a sweep.
    pub fn first_row(&self, sweep: usize, k: usize) -> usize {
        sweep + 1 + k * self.width
    }

    /// The reflector, if the sweep gets so far.
    pub fn reflector(&self, sweep: usize, k: usize) -> Option<Cells<'a, T>> {
        let (first, end) = (k * self.width, self.order - 1 - sweep);
        let count = self.width.min(end.saturating_sub(first));
        (count > 0).then(|| self.columns.column(end).sub(first, 0, count, 1))
    }
}

/// The reflectors of a panel on the way to a band: I - V T V^H.
#[derive(Clone, Copy, Debug)]
pub struct PanelReflectors<'a, T> {
    /// The first row of the matrix that they change.
    pub first: usize,
    /// V below its diagonal of ones, and T in place of those and of the zeros above them.
    pub v: Cells<'a, T>,
}

/// Columns of a Hermitian matrix that become tridiagonal without a band between (`cpu/one_stage`), for
/// workers that share memory. The update of the other columns remains: by -V W^H - W V^H.
#[derive(Debug)]
pub struct OneStagePanel<'m, 'a, T> {
    /// The matrix, of which the lower half is read, and its order.
    pub a: &'m Columns<'m, T>,
    pub order: usize,
    /// Its columns in the panel.
    pub columns: Range<usize>,
    /// A band of width 1, which the first worker writes.
    pub band: Band<'a, T>,
    /// Two columns for each worker, as long as the matrix.
    pub parts: Cells<'a, T>,
    /// This worker's copies of V and W: their rows from the panel's first column on.
    pub v: Cells<'a, T>,
    pub w: Cells<'a, T>,
    pub room: Cells<'a, T>,
    /// Where this worker leaves reflectors, as in [`PanelReflectors`].
    pub kept: Option<Cells<'m, T>>,
}
