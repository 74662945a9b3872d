//! The update of a Hermitian matrix by a pair of factors, on any device.

use super::{Device, Op};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// [`Device::subtract_pair`] by products.
pub fn subtract<T: Scalar>(
    device: &mut impl Device<T>,
    [v, x]: [Cells<T>; 2],
    targets: &[(usize, Cells<T>)],
    room: Cells<T>,
) {
    let k = v.cols();
    for &(first, c) in targets {
        for (left, right) in [(v, x), (x, v)] {
            let right = right.sub(first, 0, c.cols(), k);
            let adjoint = room.sub(0, 0, k * c.cols(), 1).by_columns(k, c.cols(), k);
            device.mirror(right, adjoint, false, true);
            device.gemm(c, -T::ONE, left.rows_from(first), Op::None, adjoint);
        }
    }
}
