//! Matrices for tests of inverses, and the errors of these.

use faer::Mat;
use meshsolve::scalar::Scalar;

use super::{random, residual};

/// The larger of both residuals, A X - I and X A - I, in the scale of the acceptance tests.
pub fn ratio<T: Scalar>(a: &Mat<T>, x: &Mat<T>) -> f64 {
    let identity = Mat::<T>::identity(a.nrows(), a.ncols());
    let [right, left] = [residual(a, x, &identity), residual(x, a, &identity)];
    if right > left || right.is_nan() { right } else { left }
}

/// A well conditioned matrix whose pivots are not on the diagonal.
pub fn shifted<T: Scalar>(n: usize, seed: u64) -> Mat<T> {
    let mut a = random::<T>(n, n, seed);
    let shift = T::from_f64_impl(2.0 * (n as f64).sqrt());
    (0..n).for_each(|i| a[(i, (3 * n - 1 - i) % n)] += shift);
    a
}

/// I - 2 v v^H / (v^H v) for some v.
pub fn reflection<T: Scalar>(n: usize, seed: u64) -> Mat<T> {
    let v = random::<T>(n, 1, seed);
    let square = (v.adjoint() * &v)[(0, 0)];
    let outer = &v * v.adjoint();
    let two = T::from_f64_impl(2.0);
    Mat::from_fn(n, n, |i, j| {
        let one = if i == j { T::ONE } else { T::ZERO };
        one + -(two * outer[(i, j)]).divided_by(square)
    })
}
