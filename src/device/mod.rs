//! One device: its tile kernels ([`Device`]), and the worker of a call that gives it work
//! ([`Worker`]). The algorithms in `algorithms` see only these two traits and
//! [`Comm`](crate::comm::Comm).

mod band;
pub mod cpu;
pub mod cuda;
pub mod memory;
mod pair;
pub mod reflectors;
pub mod squares;
mod worker;

pub use band::{Band, OneStagePanel, PanelReflectors, SweepReflectors, Tridiagonal};
pub use reflectors::{Filled, Reflectors, Target};
pub use squares::Squares;
pub use worker::Worker;

use std::ops::Range;

use crate::comm::{Group, Step};
use crate::layout::{GlobalRow, TileColumn};
use crate::matrix::{Cells, DistMatrix, Panel};
use crate::scalar::{Scalar, larger};

/// The operation on a stored triangle or panel L before its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    None,
    Conjugate,
    Transpose,
    Adjoint,
}

impl Op {
    pub fn conjugates(self) -> bool {
        matches!(self, Op::Conjugate | Op::Adjoint)
    }

    pub fn transposes(self) -> bool {
        matches!(self, Op::Transpose | Op::Adjoint)
    }
}

/// A triangle of a block. The other one is neither read nor written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    Lower,
    /// The diagonal is ones, and is not read.
    UnitLower,
    Upper,
    UnitUpper,
}

impl Triangle {
    pub fn is_lower(self) -> bool {
        matches!(self, Triangle::Lower | Triangle::UnitLower)
    }

    pub fn has_ones(self) -> bool {
        matches!(self, Triangle::UnitLower | Triangle::UnitUpper)
    }
}

/// The side of an unknown on which a triangle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// The update that a finished panel k makes to other tile columns j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// `A_ij -= L_ik L_jk^H` for i >= j.
    Cholesky,
    /// `A_ij -= A_ik A_kj` for i > k.
    Lu,
    /// The same for i < k. Targets may be on either side of k.
    Above,
}

/// Moduli of the entries of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moduli {
    /// The largest column sum; NaN if an entry is NaN.
    pub column: f64,
    /// The largest |Re| + |Im|, without NaN entries.
    pub entry: f64,
}

impl Moduli {
    /// The moduli of both blocks together.
    pub fn and(self, other: Moduli) -> Moduli {
        let entry = self.entry.max(other.entry);
        Moduli { column: larger(self.column, other.column), entry }
    }
}

/// Kernels on tiles and panels. The device may do them later, in the order in which it gets them.
pub trait Device<T: Scalar> {
    /// `A = L L^H` in the lower triangle of `a`; the other one is neither read nor kept. Row
    /// `first` of the matrix is the first of `a`. If the leading minor of order i is not positive
    /// definite, or its pivot not finite, it reports `first + i`. It does so at once, or when the
    /// worker has done all its work.
    fn potrf(&mut self, a: Cells<T>, first: GlobalRow) -> Step;
    /// Inverts a triangle of a tile in place, by rows of `A^-1 A = I`.
    fn trtri(&mut self, a: Cells<T>, triangle: Triangle);
    /// `X <- alpha A X` with a triangle of A. X is no larger than the widest tile.
    fn trmm(&mut self, a: Cells<T>, triangle: Triangle, alpha: T, x: Cells<T>);
    /// This worker's part of `P A = L U`, for a panel with at least as many rows as columns. The
    /// pivot is the first entry of the largest |Re| + |Im|. The panel's rows count from `first`.
    /// Row `first + i` was interchanged with row `pivots[i]`. Where pivot i, counted from 1, is
    /// zero or not finite, it reports `first + i` and continues. It ends with a barrier of the
    /// group.
    fn getrf(
        &mut self,
        panel: Cells<T>,
        first: GlobalRow,
        pivots: Cells<i32>,
        group: &mut Group,
    ) -> Step;
    /// Interchanges rows `first + i` and `pivots[i]` of X for all i: ascending, or descending if
    /// `back`.
    fn swap_rows(&mut self, x: Cells<T>, first: GlobalRow, pivots: Cells<i32>, back: bool);
    /// Subtracts the `update` by a panel from some rows of each tile column of `targets`, ascending.
    fn update(
        &mut self,
        a: &DistMatrix<T>,
        panel: &Panel<T>,
        targets: impl Iterator<Item = TileColumn> + Clone,
        update: Update,
        rows: Range<GlobalRow>,
    );
    /// `[R Z; C B] <- Q^H [R Z; C B]` with a unitary Q, so that the upper triangle R takes up the rows
    /// C. `r` is R with Z, of as many rows as the device reduces columns at a time, and `c` is C with B.
    /// R's diagonal becomes real, and zeros below it stay. C becomes V, with the reflectors'
    /// `coefficients` first in a block for all columns. If there are columns Z and B, V is lost on some
    /// devices, and the columns of what B becomes have their norms. There `c` lies below `r`, as rows of
    /// one block. `room` is the device's scratch.
    fn reduce(&mut self, r: Cells<T>, c: Cells<T>, coefficients: Cells<T>, room: Cells<T>);
    /// `Q R = P` for a panel P with at least as many rows as columns. R overwrites its upper triangle
    /// and V, without its ones, the rest. The reflectors' `coefficients`, a column, and their T come
    /// along, which has zeros below its diagonal. `room` has three squares.
    fn geqrf(&mut self, panel: Cells<T>, coefficients: Cells<T>, t: Cells<T>, room: Cells<T>);
    /// `C <- (I - V op(T) V^H) C` for each C of `targets`; op is none or the adjoint. `room` is for
    /// products with V, some columns at a time.
    fn reflect(&mut self, by: Reflectors<T>, op: Op, targets: &[Target<T>], room: Cells<T>)
    where
        Self: Sized,
    {
        targets.iter().for_each(|&c| reflectors::apply(self, by, op, c, room));
    }
    /// `C <- C - V X_j^H - X V_j^H` for each (j, C) of `targets`, ascending: lower tile columns of a
    /// Hermitian matrix. V and X are there from row j on, and V_j and X_j are as many of those rows as
    /// C has columns. They are at most as wide as a tile, for which `room` is.
    fn subtract_pair(&mut self, pair: [Cells<T>; 2], targets: &[(usize, Cells<T>)], room: Cells<T>)
    where
        Self: Sized,
    {
        pair::subtract(self, pair, targets, room);
    }
    /// Writes ones on the diagonal of a square block and zeros above it.
    fn make_unit_lower(&mut self, a: Cells<T>);
    /// `X <- op(A)^-1 X` with a triangle of A, or `X <- X op(A)^-1` on the right. On the right op is
    /// none or the adjoint.
    fn trsm(&mut self, side: Side, a: Cells<T>, triangle: Triangle, op: Op, x: Cells<T>);
    /// `C <- C + alpha op(A) B`.
    fn gemm(&mut self, c: Cells<T>, alpha: T, a: Cells<T>, op: Op, b: Cells<T>);
    /// `C <- C + S`.
    fn add(&mut self, c: Cells<T>, s: Cells<T>);
    /// The largest |Re| + |Im|, without NaN entries.
    fn largest(&mut self, x: Cells<T>) -> Step<f64>;
    /// Sums of moduli of X, which has contiguous columns. Adds row sums to `rows`.
    fn moduli(&mut self, x: Cells<T>, rows: Option<Cells<f64>>) -> Step<Moduli>;
    /// Adds sums of moduli over the rows of X to `sums`. X has contiguous columns or rows.
    fn add_moduli(&mut self, x: Cells<T>, sums: Cells<f64>);
    /// Sums of squared moduli of X, which has contiguous columns or rows.
    fn squares(&mut self, x: Cells<T>) -> Step<Squares>;
    /// Adds X's contribution to the column sums of a Hermitian matrix. X holds columns of its lower
    /// triangle, each from the diagonal entry on. `sums` begins with X's first column. X's upper
    /// triangle is not read.
    fn hermitian_moduli(&mut self, x: Cells<T>, sums: Cells<f64>);
    fn copy(&mut self, from: Cells<T>, to: Cells<T>);
    /// `to <- from^T`, or from^H if `conjugated`. For a tile on the `diagonal` it makes only the
    /// lower part, with a real diagonal if `conjugated`.
    fn mirror(&mut self, from: Cells<T>, to: Cells<T>, diagonal: bool, conjugated: bool);
    /// Writes zeros.
    fn clear(&mut self, to: Cells<T>);
    /// Writes zeros outside the triangle.
    fn clear_outside(&mut self, a: Cells<T>, triangle: Triangle);
    fn conjugate(&mut self, x: Cells<T>);
}
