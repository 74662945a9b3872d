//! Norms by their definitions.

use faer::Mat;
use meshsolve::scalar::Scalar;

use super::random;

/// (1-norm, infinity norm, Frobenius norm) of the leading m x n elements.
pub fn norms<T: Scalar>(a: &Mat<T>, (m, n): (usize, usize)) -> [f64; 3] {
    let entry = |i: usize, j: usize| a[(i, j)].modulus();
    let largest = |of: usize, sum: &dyn Fn(usize) -> f64| (0..of).map(sum).fold(0.0, f64::max);
    let scale = largest(n, &|j| (0..m).map(|i| entry(i, j)).fold(0.0, f64::max));
    let square = |e: usize| (entry(e / n, e % n) / scale).powi(2);
    [
        largest(n, &|j| (0..m).map(|i| entry(i, j)).sum()),
        largest(m, &|i| (0..n).map(|j| entry(i, j)).sum()),
        scale * (0..m * n).map(square).sum::<f64>().sqrt(),
    ]
}

/// A matrix whose rows and columns have different sizes.
pub fn uneven<T: Scalar>(m: usize, n: usize) -> Mat<T> {
    let mut a = random::<T>(m, n, 11 + n as u64);
    (0..n).for_each(|j| a[(m / 2, j)] *= T::from_f64_impl(9.0));
    a
}
