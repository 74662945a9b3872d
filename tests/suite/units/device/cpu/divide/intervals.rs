//! 1 / (d - lambda) as a sum over the points of two intervals.

use meshsolve::device::cpu::divide::intervals::{Interval, POINTS, Points};
use meshsolve::device::cpu::divide::vectors::Roots;

/// Numbers from `first` on, of an interval of this width.
fn spread(count: usize, first: f64, width: f64) -> Vec<f64> {
    (0..count).map(|i| first + width * (i as f64 / (count - 1) as f64).powi(2)).collect()
}

/// The largest relative error of weight * scale / (d - lambda), for all poles d and roots lambda.
fn error(poles: &[f64], origins: &[f64], offsets: &[f64]) -> f64 {
    let weights: Vec<_> = (0..poles.len()).map(|i| 1.0 / (1.0 + i as f64)).collect();
    let scales: Vec<_> = (0..origins.len()).map(|i| 1.0 + i as f64).collect();
    let roots = Roots { origins, offsets, scales: &scales };
    let (from, to) = (Interval::of_poles(poles), Interval::of_roots(roots));
    // A unit for all lines.
    let (points, unit) = (Points::chebyshev(), POINTS);
    let mut gathered = vec![f64::NAN; POINTS * poles.len()];
    from.polynomials_of_poles(&points, unit, poles, &weights, &mut gathered);
    let mut between = vec![f64::NAN; POINTS * POINTS];
    from.between_points(&points, unit, to, &mut between);
    let mut spread = vec![f64::NAN; origins.len().next_multiple_of(unit) * POINTS];
    to.polynomials_of_roots(&points, unit, roots, &mut spread);
    let mut worst: f64 = 0.0;
    for (i, d) in poles.iter().enumerate() {
        for j in 0..origins.len() {
            let mut sum = 0.0;
            for k in 0..POINTS {
                for l in 0..POINTS {
                    let root = spread[j / unit * unit * POINTS + l * unit + j % unit];
                    sum += gathered[i * unit + k] * between[k * unit + l] * root;
                }
            }
            let exact = weights[i] * scales[j] / ((d - origins[j]) - offsets[j]);
            worst = worst.max(((sum - exact) / exact).abs());
        }
    }
    worst
}

#[test]
fn sums_over_points_are_exact_up_to_rounding() {
    for (width, other) in [(1.0, 1.0), (1.0, 1e-3), (1e-3, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    {
        for size in [1.0, 1e-9] {
            for sign in [1.0, -1.0] {
                let (width, other): (f64, f64) = (size * width, size * other);
                let apart = 0.5f64.mul_add(width.min(other), 1.25 * width.max(other)) + 1e-3 * size;
                let poles = spread(19, 0.0, width);
                let roots = spread(53, width / 2.0 + sign * apart - other / 2.0, other);
                let zeros = vec![0.0; roots.len()];
                let [from, to] = [&poles, &roots].map(|all| Interval::of_poles(all));
                assert!(from.is_far_from(to) && to.is_far_from(from), "{width} {other}");
                let worst = error(&poles, &roots, &zeros);
                assert!(worst < 64.0 * f64::EPSILON, "{width} {other} {sign}: {worst:e}");
                // Roots as they are found, by their distance from a pole.
                let offsets: Vec<_> = roots.iter().map(|root| root - poles[3]).collect();
                let worst = error(&poles, &vec![poles[3]; roots.len()], &offsets);
                assert!(worst < 64.0 * f64::EPSILON, "{width} {other} {sign}: {worst:e}");
            }
        }
    }
}

/// Differences of narrow intervals do not lose digits.
#[test]
fn intervals_may_be_narrow() {
    let eps = f64::EPSILON;
    let poles: Vec<_> = (0..20).map(|i| 1.0 + eps * i as f64).collect();
    let offsets: Vec<_> = (0..20).map(|i| eps * (60.3 + 0.7 * i as f64)).collect();
    let worst = error(&poles, &[1.0; 20], &offsets);
    assert!(worst < 64.0 * eps, "{worst:e}");
}

#[test]
fn neighbours_are_not_far() {
    let of = |first: f64, last: f64| Interval::of_poles(&[first, last]);
    let one = of(0.0, 1.0);
    for (other, is_far) in [
        (of(0.0, 1.0), false),
        (of(1.0, 2.0), false),
        (of(1.7, 2.7), false),
        (of(1.8, 2.8), true),
        (of(-2.0, -1.0), true),
        (of(2.0, 5.0), false),
        (of(1.1, 1.2), false),
        (of(f64::NAN, 5.0), false),
        (of(5.0, f64::INFINITY), false),
    ] {
        assert_eq!(one.is_far_from(other), is_far, "{other:?}");
        assert_eq!(other.is_far_from(one), is_far, "{other:?}");
    }
    // 1 / (x - y) would be too large for float32.
    assert!(!of(0.0, 1e-40).is_far_from(of(5e-40, 6e-40)));
}
