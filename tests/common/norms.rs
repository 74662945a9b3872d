//! Norms by their definitions.

use faer::Mat;
use meshsolve::scalar::Scalar;

use super::random;

/// (1-norm, infinity norm, Frobenius norm) of the leading part of order n.
pub fn norms<T: Scalar>(a: &Mat<T>, n: usize) -> [f64; 3] {
    let entry = |i: usize, j: usize| a[(i, j)].modulus();
    let largest = |sum: &dyn Fn(usize) -> f64| (0..n).map(sum).fold(0.0, f64::max);
    let scale = largest(&|j| (0..n).map(|i| entry(i, j)).fold(0.0, f64::max));
    let square = |e: usize| (entry(e / n, e % n) / scale).powi(2);
    [
        largest(&|j| (0..n).map(|i| entry(i, j)).sum()),
        largest(&|i| (0..n).map(|j| entry(i, j)).sum()),
        scale * (0..n * n).map(square).sum::<f64>().sqrt(),
    ]
}

/// A matrix whose rows and columns have different sizes.
pub fn uneven<T: Scalar>(n: usize) -> Mat<T> {
    let mut a = random::<T>(n, n, 11 + n as u64);
    (0..n).for_each(|j| a[(n / 2, j)] *= T::from_f64_impl(9.0));
    a
}
