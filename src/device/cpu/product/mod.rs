//! `C <- C +- A B` with both factors packed, near the peak of the processor's multiply-adds.
//!
//! A packed factor is a sequence of *units*: some lines of the matrix, rows of A or columns of B,
//! element by element along the inner dimension. The kernel multiplies a unit of rows by a unit of
//! columns in registers (`tile.rs`). It reads both with stride one, whatever the strides of the
//! matrices are. Incomplete units are filled up with zeros.
//!
//! This is the method of Goto and van de Geijn (ACM Trans. Math. Softw. 34, 2008). A block of rows
//! is for the second-level cache, a unit of columns for the first. The sum for an element of C has
//! the order of the inner dimension, in pieces of a fixed length. So its bits do not depend on the
//! position of the element, blocks of rows and columns, or the worker.
//!
//! There are kernels for AVX-512 and AVX2. Elsewhere [`Units::of`] has none, and callers use faer.

pub mod dots;
mod gemm;
pub mod pack;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod reflectors;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod right;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod solve;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod tile;

pub use dots::{add_dots, suits_dots};
pub use gemm::{Blocks, gemm};
pub use pack::{Packed, copy_lines};
pub use reflectors::Reflectors;
pub use solve::Coefficients;
pub use tile::{multiply, multiply_adjoint, multiply_columns};

use crate::scalar::Scalar;

/// The widest inner dimension of packed factors. Of longer ones a unit leaves the first-level cache.
pub const DEEPEST: usize = 256;
/// Bytes of packed rows, which stay in the second-level cache.
const ROW_BYTES: usize = 256 << 10;

/// The lines of a packed unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Of the left factor.
    pub rows: usize,
    /// Of the right factor.
    pub cols: usize,
}

impl Units {
    /// Those of this processor's kernel for T, if it has one.
    pub fn of<T: Scalar>() -> Option<Self> {
        tile::shape().map(|shape| Units::of_shape::<T>(shape))
    }

    /// Those of a kernel. A complex number is two real numbers in a row, and its parts multiply as two
    /// real columns.
    pub fn of_shape<T: Scalar>(shape: tile::Shape) -> Self {
        let (vector, reals) =
            (shape.vector_bytes / size_of::<T>(), size_of::<T>() / size_of::<T::Real>());
        Units { rows: shape.vectors * vector, cols: shape.columns / reals }
    }

    /// Rows that are packed at a time, for the inner dimension `depth`.
    pub fn rows_in_cache<T>(self, depth: usize) -> usize {
        let rows = ROW_BYTES / (depth.max(1) * size_of::<T>());
        (rows / self.rows).max(1) * self.rows
    }
}
