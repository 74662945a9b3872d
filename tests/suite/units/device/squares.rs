//! Roots of sums of squares.

use meshsolve::device::squares::{SAFE, Squares};

fn root(numbers: &[f64]) -> f64 {
    let mut squares = Squares::default();
    numbers.iter().for_each(|&x| squares.add(x));
    squares.root()
}

#[test]
fn roots_over_the_whole_range() {
    for exponent in -1070..1020 {
        let unit = 2f64.powi(exponent.max(-1022)) * 2f64.powi(exponent.min(-1022) + 1022);
        assert_eq!(root(&[3.0 * unit, -4.0 * unit]), 5.0 * unit, "2^{exponent}");
        assert_eq!(root(&[unit, 0.0]), unit, "2^{exponent}");
    }
    assert_eq!(root(&[]), 0.0);
    assert_eq!(root(&[f64::MAX]), f64::MAX);
}

#[test]
fn numbers_of_different_sizes() {
    for border in [SAFE.start, SAFE.end] {
        // One number on each side: neither is lost.
        let got = root(&[3.0 * border.next_down(), 4.0 * border, 12.0 * border]);
        assert!((got / border / 13.0 - 1.0).abs() < 1e-15, "{got}");
    }
    assert_eq!(root(&[1e300, 1.0, 1e-300]), 1e300);
    assert_eq!(root(&[1.0, 1e-300]), 1.0);
}

#[test]
fn what_is_no_number() {
    for others in [1e300, 1.0, 1e-300, 0.0] {
        assert!(root(&[others, f64::NAN]).is_nan());
        assert_eq!(root(&[others, f64::NEG_INFINITY]), f64::INFINITY);
    }
    assert!(root(&[f64::NAN, f64::INFINITY]).is_nan());
    assert_eq!(root(&[f64::MAX, f64::MAX]), f64::INFINITY, "it overflows itself");
}
