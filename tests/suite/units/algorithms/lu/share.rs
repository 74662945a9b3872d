//! The model that decides which steps of LU workers share.

use meshsolve::algorithms::lu::share::{barriers, pays, times};

#[test]
fn panels_are_shared_where_workers_outnumber_the_columns() {
    assert!(pays(15, 16, 16, 0.2));
    // With 100 columns no worker waits for a panel.
    assert!(!pays(100, 16, 16, 0.0));
    // Two workers wait only for the first panel and the last ones.
    assert!(pays(0, 2, 2, 0.1) && pays(1, 2, 2, 0.2));
    assert!((3..40).all(|columns| !pays(columns, 2, 2, 0.0)));
}

#[test]
fn panels_are_not_shared_where_barriers_take_longer() {
    assert!(pays(2, 16, 16, 1.0));
    assert!(!pays(2, 16, 16, 1.3));
}

#[test]
fn one_worker_shares_nothing() {
    for columns in 0..20 {
        assert!(!pays(columns, 1, 1, 0.0));
        assert!(!pays(columns, 16, 1, 0.0), "nobody to share with");
    }
}

/// The model's speedup of a factorisation with tiles of 128 where workers share the steps that pay,
/// as docs/design/adr/0005-lu-panels-shared-by-rows.md quotes it.
fn gain(n: usize, workers: usize) -> f64 {
    let (mut without, mut with) = (0.0, 0.0);
    for rows in (128..=n).rev().step_by(128) {
        let columns = if rows == n { 0 } else { rows / 128 };
        let sharers = workers.min(rows / 64);
        let barriers = barriers(rows, 128, 80e3);
        let [alone, together] = times(columns, workers, sharers, barriers);
        without += alone * rows as f64;
        with +=
            rows as f64 * if pays(columns, workers, sharers, barriers) { together } else { alone };
    }
    without / with
}

#[test]
fn many_workers_gain_and_few_lose_nothing() {
    let tenths = |n, workers| (10.0 * gain(n, workers)).round();
    assert_eq!([(2048, 2), (8192, 2)].map(|(n, workers)| tenths(n, workers)), [10.0, 10.0]);
    let many = [(2048, 16), (4096, 32), (8192, 64)];
    assert_eq!(many.map(|(n, workers)| tenths(n, workers)), [11.0, 17.0, 20.0]);
}
