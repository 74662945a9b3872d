//! The baselines of benchmarks: the processor's peak, faer's solvers, rates of our own updates.

use faer::Mat;

use crate::measure::baselines::{solve, update_flops};
use crate::measure::peak::{Kernel, Real, flops};

#[test]
fn updates_have_a_rate() {
    for workers in 1..=3 {
        let rates = [update_flops::<f64>(200, 64, workers), update_flops::<f32>(200, 64, workers)];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
    }
}

#[test]
fn faer_solves_what_it_is_given() {
    let n = 40;
    let entry = |i: usize, j: usize| 1.0 / (1 + i.abs_diff(j)) as f64 + f64::from(i == j);
    let general = |i: usize, j: usize| entry(i, n - 1 - j) + i as f64 * 1e-3;
    for (positive_definite, threads) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
        let kept = match positive_definite {
            true => Mat::from_fn(n, n, entry),
            false => Mat::from_fn(n, n, general),
        };
        let x = Mat::from_fn(n, 2, |i, j| (i + j) as f64);
        let (mut a, mut b) = (kept.clone(), &kept * &x);
        assert!(solve(a.as_mut(), b.as_mut(), positive_definite, threads).is_some());
        assert!((b - x).norm_max() < 1e-10, "{positive_definite} {threads}");
    }
    let mut indefinite = Mat::from_fn(2, 2, |i, j| if i == j { -1.0 } else { 0.0 });
    assert!(solve(indefinite.as_mut(), Mat::zeros(2, 1).as_mut(), true, 1).is_none());
}

/// Every chain that counts was computed, to its limit.
fn chains<T: Real>(kernel: Kernel) {
    let (count, sum) = T::run(kernel, 200);
    assert!(count >= 16 && (sum - 2.0 * count as f64).abs() < 1e-3, "{kernel:?} {count} {sum}");
    let (_, begun) = T::run(kernel, 1);
    assert!(begun > 2.0 * count as f64 && begun < sum * sum, "{kernel:?} {begun}");
}

#[test]
fn chains_are_counted_and_computed() {
    for kernel in Kernel::all() {
        chains::<f32>(kernel);
        chains::<f64>(kernel);
    }
    assert!(Kernel::all().any(|kernel| kernel == Kernel::Portable));
}

#[test]
fn a_rate_is_a_positive_number() {
    for threads in 1..=2 {
        for (rate, kernel) in [flops::<f32>(threads), flops::<f64>(threads)] {
            assert!(rate.is_finite() && rate > 0.0, "{rate}");
            assert_eq!(Some(kernel), Kernel::all().next());
        }
    }
}
