//! Functions of matrices as sums of squares.

use meshsolve::algorithms::eigen::{Function, Weights};

/// f(w) again.
fn values(weights: &Weights) -> Vec<f64> {
    let sign = if weights.is_negative { -1.0 } else { 1.0 };
    weights.factors.iter().map(|factor| weights.shift + sign * factor * factor).collect()
}

#[test]
fn a_sum_of_squares_has_the_values_of_the_function() {
    let cases: [(Function, &[f64], &[f64]); 6] = [
        (Function::Sqrt, &[-1e-17, 0.0, 4.0], &[0.0, 0.0, 2.0]),
        (Function::Log, &[0.25, 0.5, 1.0], &[-4f64.ln(), -2f64.ln(), 0.0]),
        (Function::Log, &[0.5, 8.0], &[-2f64.ln(), 8f64.ln()]),
        (Function::Exp, &[-1.0, 2.0], &[(-1f64).exp(), 2f64.exp()]),
        (Function::InverseSqrt, &[0.25, 4.0], &[2.0, 0.5]),
        (Function::Inverse, &[-2.0, 1e-17, 4.0], &[-0.5, 0.0, 0.25]),
    ];
    for (function, eigenvalues, expected) in cases {
        let found = values(&Weights::new(function, eigenvalues, 1e-15, f64::MAX).unwrap());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-14, "{function:?}: {found}, {expected}");
        }
    }
}

#[test]
fn values_of_one_sign_need_no_shift() {
    let shift = |function, eigenvalues: &[f64]| {
        Weights::new(function, eigenvalues, 0.0, f64::MAX).unwrap().shift
    };
    assert_eq!(shift(Function::Exp, &[-30.0, 30.0]), 0.0);
    assert_eq!(shift(Function::Log, &[1e-3, 0.5]), 0.0);
    assert_eq!(shift(Function::Inverse, &[-3.0, -2.0]), 0.0);
    assert_eq!(shift(Function::Inverse, &[-4.0, 2.0]), -0.25);
}

#[test]
fn it_counts_the_eigenvalues_without_a_value() {
    let missing = |function| Weights::new(function, &[-2.0, -1.0, 0.0, 3.0], 1e-15, 30.0);
    assert_eq!(missing(Function::Sqrt), Err(2));
    assert_eq!(missing(Function::Log), Err(3));
    assert_eq!(missing(Function::InverseSqrt), Err(3));
    assert!(missing(Function::Exp).is_ok() && missing(Function::Inverse).is_ok());
    let large = Weights::new(Function::Exp, &[0.0, 3.0, 4.0, 800.0], 0.0, 30.0);
    assert_eq!(large, Err(2), "too large");
}
