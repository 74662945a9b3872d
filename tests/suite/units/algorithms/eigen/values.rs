//! Eigenvalues of tridiagonal matrices, by the signs of pivots.

use std::f64::consts::PI;

use meshsolve::algorithms::eigen::eigenvalues;

fn found(diagonal: &[f64], below: &[f64]) -> Vec<f64> {
    let (mut d, mut e) = (diagonal.to_vec(), below.to_vec());
    assert_eq!(eigenvalues(&mut d, &mut e), 0, "converged");
    assert!(d.is_sorted(), "ascending");
    d
}

/// The number of eigenvalues below x, by the signs of the pivots of T - x.
fn below(diagonal: &[f64], off: &[f64], x: f64) -> usize {
    let (mut count, mut pivot) = (0, 1.0);
    for (i, d) in diagonal.iter().enumerate() {
        let square = if i == 0 { 0.0 } else { off[i - 1] * off[i - 1] };
        pivot = d - x - square / pivot;
        if pivot == 0.0 {
            pivot = -f64::MIN_POSITIVE;
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

/// Every value is an eigenvalue of a matrix as close as rounding allows.
fn check(name: &str, diagonal: &[f64], off: &[f64]) {
    let values = found(diagonal, off);
    let size = diagonal.iter().chain(off).fold(0.0, |most, x| f64::max(most, x.abs()));
    // A power of two that keeps the squares in the range.
    let scale = if size > 0.0 { 2f64.powi(-(size.log2().floor() as i32)) } else { 1.0 };
    let scaled = |x: &[f64]| x.iter().map(|x| x * scale).collect::<Vec<_>>();
    let (diagonal, off, values) = (scaled(diagonal), scaled(off), scaled(&values));
    let radius = 20.0 * diagonal.len() as f64 * f64::EPSILON;
    for (i, value) in values.iter().enumerate() {
        let [less, more] = [value - radius, value + radius].map(|x| below(&diagonal, &off, x));
        assert!(less <= i && i < more, "{name}: value {i}, {value:e}: {less} to {more}");
    }
    let again = scaled(&found(
        &diagonal.iter().map(|x| x / scale).collect::<Vec<_>>(),
        &off.iter().map(|x| x / scale).collect::<Vec<_>>(),
    ));
    assert_eq!(again, values, "{name}: the same bits");
}

#[test]
fn known_values() {
    for n in [1, 2, 3, 10, 101] {
        let values = found(&vec![2.0; n], &vec![1.0; n.saturating_sub(1)]);
        for (k, value) in values.iter().enumerate() {
            let exact = 2.0 - 2.0 * ((k + 1) as f64 * PI / (n + 1) as f64).cos();
            assert!((value - exact).abs() <= 1e-15 * (n + 4) as f64, "{n} {k}: {value} {exact}");
        }
    }
    assert_eq!(found(&[3.0, -1.0, 2.0], &[0.0, 0.0]), [-1.0, 2.0, 3.0]);
    assert_eq!(found(&[0.0; 4], &[0.0; 3]), [0.0; 4]);
    assert_eq!(found(&[], &[]), [0.0; 0]);
    assert_eq!(found(&[0.0, 0.0], &[5e-324]), [-5e-324, 5e-324]);
}

#[test]
fn what_is_no_number_does_not_converge() {
    for number in [f64::NAN, f64::INFINITY] {
        assert_eq!(eigenvalues(&mut [1.0, number, 2.0], &mut [0.0, 0.0]), 3);
        assert_eq!(eigenvalues(&mut [number; 2], &mut [number]), 2);
    }
}

#[test]
fn hard_matrices() {
    let mut state = 7u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let n = 200;
    let some: Vec<f64> = (0..n).map(|_| random() - 0.5).collect();
    let others: Vec<f64> = (0..n - 1).map(|_| random()).collect();
    for scale in [1.0, 1e290, 1e-290] {
        let scaled = |x: &[f64]| x.iter().map(|x| x * scale).collect::<Vec<_>>();
        check(&format!("random, {scale:e}"), &scaled(&some), &scaled(&others));
    }
    let graded = |ratio: f64| {
        let power = |i: usize| ratio.powi(i as i32);
        let d: Vec<f64> = (0..n).map(|i| power(i) * (1.0 + some[i])).collect();
        let e: Vec<f64> = (0..n - 1).map(|i| power(i) * others[i]).collect();
        (d, e)
    };
    for ratio in [0.5, 2.0, 0.1, 1.1] {
        let (d, e) = graded(ratio);
        check(&format!("graded by {ratio}"), &d, &e);
    }
    check("diagonal of zeros", &vec![0.0; n], &others);
    check("diagonal of zeros, odd", &vec![0.0; n - 1], &others[1..]);
    check("equal", &vec![1.0; n], &vec![1e-8; n - 1]);
    for glue in [0.0, 1e-14, 1e-8, 1e-4] {
        let one: Vec<f64> = (0..21).map(|i| (i as f64 - 10.0).abs()).collect();
        let d = one.repeat(8);
        let e: Vec<_> = (1..d.len()).map(|i| if i % 21 == 0 { glue } else { 1.0 }).collect();
        check(&format!("glued by {glue}"), &d, &e);
    }
    // One entry among zeros, and tiny ones among large ones.
    let lone = |at: usize| (0..n).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>();
    check("one entry", &lone(3), &vec![0.0; n - 1]);
    check("one entry off it", &vec![0.0; n], &lone(9)[1..]);
    let far: Vec<f64> = (0..n).map(|i| if i % 3 == 0 { 1e150 } else { 1e-150 }).collect();
    check("far apart", &far, &far[1..]);
}
