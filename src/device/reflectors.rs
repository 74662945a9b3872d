//! Products of Householder reflectors in the compact form Q = I - V T V^H (Schreiber and Van Loan,
//! SIAM J. Sci. Stat. Comput. 10, 1989), on any device.

use super::{Device, Op, Side, Triangle};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// The reflectors of a factored panel, one for each column of V.
#[derive(Debug)]
pub struct Reflectors<'c, T> {
    /// The rows of V with its ones, without what else the panel has there.
    pub top: Cells<'c, T>,
    /// The rows of V below.
    pub below: Cells<'c, T>,
    /// T, upper triangular, with zeros below the diagonal.
    pub t: Cells<'c, T>,
}

impl<T> Clone for Reflectors<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Reflectors<'_, T> {}

/// The rows in which a matrix may have entries that are not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    All,
    /// Those of V with its ones.
    Top,
    /// Those below.
    Below,
}

/// A matrix C to which reflectors apply.
#[derive(Clone, Copy, Debug)]
pub struct Target<'c, T> {
    pub cells: Cells<'c, T>,
    pub filled: Filled,
}

impl<'c, T> From<Cells<'c, T>> for Target<'c, T> {
    fn from(cells: Cells<'c, T>) -> Self {
        Target { cells, filled: Filled::All }
    }
}

impl<T> Target<'_, T> {
    /// Whether the rows with the ones of V, or those below, count in V^H C.
    pub fn counts(&self, is_top: bool) -> bool {
        self.filled != if is_top { Filled::Below } else { Filled::Top }
    }
}

impl<'c, T: Scalar> Reflectors<'c, T> {
    /// The number of reflectors.
    pub fn count(&self) -> usize {
        self.t.cols()
    }

    /// Those of a factored `panel`, whose first rows it copies to `top`.
    pub fn of(
        device: &mut impl Device<T>,
        panel: Cells<'c, T>,
        t: Cells<'c, T>,
        top: Cells<'c, T>,
    ) -> Self {
        let k = panel.cols();
        device.copy(panel.sub(0, 0, k, k), top);
        device.make_unit_lower(top);
        Reflectors { top, below: panel.rows_from(k), t }
    }
}

/// T from V and the coefficients of the reflectors: T = (I + D S)^-1 D, where S is the upper
/// triangle of V^H V without its diagonal, and D has the coefficients (Puglisi, SIAM J. Sci. Stat.
/// Comput. 13, 1992). `by.t` receives it. `room` has two squares. Rows with the ones of V alone may
/// be missing on its top.
pub fn triangle_of<T: Scalar>(
    device: &mut impl Device<T>,
    by: Reflectors<T>,
    coefficients: Cells<T>,
    room: Cells<T>,
) {
    let k = by.count();
    let square = |at: usize| room.rows_from(at * k * k).by_columns(k, k, k);
    let (products, factor) = (square(0), square(1));
    device.clear(products);
    for v in [by.top, by.below].into_iter().filter(|v| v.rows() > 0) {
        device.gemm(products, T::ONE, v, Op::Adjoint, v);
    }
    device.clear(by.t);
    device.copy(coefficients, by.t.diagonal());
    device.clear(factor);
    device.gemm(factor, T::ONE, by.t, Op::None, products);
    device.trsm(Side::Left, factor, Triangle::UnitUpper, Op::None, by.t);
}

/// `C <- (I - V op(T) V^H) C` by products, some columns at a time; op is none or the adjoint.
pub fn apply<T: Scalar>(
    device: &mut impl Device<T>,
    by: Reflectors<T>,
    op: Op,
    target: Target<T>,
    room: Cells<T>,
) {
    let c = target.cells;
    let (k, rows) = (by.count(), c.rows());
    assert_eq!(rows, k + by.below.rows(), "rows of the reflectors");
    let most = (room.rows() / (2 * k).max(1)).max(1);
    for first in (0..c.cols()).step_by(most) {
        let count = most.min(c.cols() - first);
        let square = |at: usize| room.rows_from(at * k * count).by_columns(k, count, k);
        let (x, y) = (square(0), square(1));
        let top = c.sub(0, first, k, count);
        let below = c.sub(k, first, rows - k, count);
        device.clear(x);
        for (v, c, is_top) in [(by.top, top, true), (by.below, below, false)] {
            if target.counts(is_top) {
                device.gemm(x, T::ONE, v, Op::Adjoint, c);
            }
        }
        device.clear(y);
        device.gemm(y, -T::ONE, by.t, op, x);
        device.gemm(top, T::ONE, by.top, Op::None, y);
        device.gemm(below, T::ONE, by.below, Op::None, y);
    }
}
