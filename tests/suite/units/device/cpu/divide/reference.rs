//! Eigenvalues by another method.

use meshsolve::algorithms::eigen::eigenvalues;

use super::Matrix;

pub fn values(t: &Matrix) -> Vec<f64> {
    let mut values = t.diagonal.clone();
    let mut below: Vec<_> = t.below.iter().map(|x| x.abs()).collect();
    assert_eq!(eigenvalues(&mut values, &mut below), 0, "{}", t.name);
    values
}
