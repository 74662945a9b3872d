//! Panels of LU with partial pivoting by one worker and by several. They have the textbook's
//! pivots, LAPACK's rules for zero and NaN pivots, and the same bits in every run.

use std::sync::Mutex;

use crate::common::lu::{rebuilt, reference};
use crate::common::workers::on_workers;
use crate::common::{for_all_scalars, random, ratio};
use faer::Mat;
use meshsolve::comm::{Comm, Communicator, Step, Stopped};
use meshsolve::device::Device;
use meshsolve::layout::GlobalRow;
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

/// Row of the matrix in which the panels begin.
const FIRST: usize = 10;

type Factored<T> = (Mat<T>, Vec<i32>, Option<usize>);

/// Factors a panel on workers, one of which may be absent: LU, pivots, first zero pivot.
fn panel_without<T: Scalar>(
    a: &Mat<T>,
    workers: usize,
    absent: Option<usize>,
) -> Step<Factored<T>> {
    let (m, n) = (a.nrows(), a.ncols());
    let mut memory: Vec<T> = (0..m * n).map(|e| a[(e % m, e / m)]).collect();
    let mut pivots = vec![-1; n];
    let (block, rows) = (Cells::of(&mut memory).by_columns(m, n, m), Cells::of(&mut pivots));
    let comm = Communicator::new(workers);
    let found = Mutex::new(Vec::new());
    on_workers::<T>(&comm, 0, |worker| {
        if absent == Some(worker.worker()) {
            comm.stop();
            return;
        }
        let mut group = worker.group(workers / 2, workers);
        let factored = worker.getrf(block, GlobalRow::new(FIRST), rows, &mut group);
        found.lock().unwrap().push(factored);
    });
    let found = found.into_inner().unwrap();
    assert!(found.iter().all(|factored| *factored == found[0]), "all members end alike");
    found[0]?;
    // The communicator reports the matrix's pivot, from 1.
    let zero = comm.info().checked_sub(FIRST + 1);
    pivots.iter_mut().for_each(|p| *p -= FIRST as i32);
    Ok((Mat::from_fn(m, n, |i, j| memory[j * m + i]), pivots, zero))
}

fn panel<T: Scalar>(a: &Mat<T>, workers: usize) -> Factored<T> {
    panel_without(a, workers, None).expect("nobody stops")
}

fn panels_have_the_pivots_of_the_textbook<T: Scalar>() {
    for (m, n) in [(1, 1), (2, 1), (8, 8), (9, 9), (17, 3), (40, 16), (300, 24), (1000, 70)] {
        let a = random::<T>(m, n, 7 + (m * n) as u64);
        let (expected, _) = reference(&mut a.clone());
        for workers in WORKERS {
            let name = format!("{} {m} x {n} on {workers}", T::DTYPE.name());
            let (lu, pivots, zero) = panel(&a, workers);
            assert!(pivots.iter().zip(&expected).all(|(p, e)| *p as usize == *e), "{name}: pivots");
            assert_eq!(zero, None, "{name}");
            assert!(ratio(&rebuilt(&lu, &pivots), &a) < 1.0, "{name}: P^T L U is A");
            assert!(lu == panel(&a, workers).0, "{name}: the same bits again");
        }
    }
}

fn equal_candidates_give_the_first<T: Scalar>() {
    // All of one size, and of both signs: every column of the first strip ties.
    for (m, workers) in rows_and_workers() {
        let a = Mat::<T>::from_fn(m, 1, |i, _| if i % 3 == 0 { -T::ONE } else { T::ONE });
        assert_eq!(panel(&a, workers).1, [0], "{m} rows on {workers}");
        let late =
            Mat::<T>::from_fn(m, 1, |i, _| T::from_f64_impl(if i + 2 >= m { -2.0 } else { 1.0 }));
        assert_eq!(panel(&late, workers).1, [m as i32 - 2], "{m} rows on {workers}");
        // Two of the largest, in all pairs of members.
        for (first, second) in [(m / 5, m / 2), (m / 3, m - 1), (0, m / 2), (m / 2, m - 1)] {
            let large = |i| i == first || i == second;
            let two =
                Mat::<T>::from_fn(m, 1, |i, _| T::from_f64_impl(if large(i) { 3.0 } else { 1.0 }));
            assert_eq!(panel(&two, workers).1, [first as i32], "{m} rows on {workers}");
        }
    }
}

fn rows_and_workers() -> impl Iterator<Item = (usize, usize)> {
    let rows = [2, 15, 16, 17, 255, 256, 257, 600];
    rows.into_iter().flat_map(|m| WORKERS.map(|workers| (m, workers)))
}

fn zero_pivots_are_noted_and_passed_over<T: Scalar>() {
    for (n, singular) in [(3, 0), (5, 3), (16, 0), (16, 15), (40, 8), (40, 20)] {
        let mut a = random::<T>(3 * n + 3, n, 3 + n as u64);
        (0..3 * n + 3).for_each(|i| a[(i, singular)] = T::ZERO);
        for workers in WORKERS {
            let (lu, pivots, zero) = panel(&a, workers);
            assert_eq!(zero, Some(singular), "column {singular} of {n} on {workers}");
            assert_eq!(pivots[singular], singular as i32, "nothing is interchanged for it");
            let ratio = ratio(&rebuilt(&lu, &pivots), &a);
            assert!(ratio < 3.0, "column {singular} of {n} on {workers}");
        }
    }
    for workers in WORKERS {
        let (lu, pivots, zero) = panel(&Mat::<T>::zeros(70, 20), workers);
        assert!(pivots.iter().enumerate().all(|(i, &p)| p as usize == i), "{pivots:?}");
        assert_eq!((zero, lu), (Some(0), Mat::zeros(70, 20)), "on {workers}");
    }
}

fn no_number_is_a_pivot_only_in_the_first_place<T: Scalar>() {
    for (m, workers) in rows_and_workers().filter(|(m, _)| *m > 2) {
        let mut a = Mat::<T>::from_fn(m, 1, |i, _| T::from_f64_impl(i as f64 - 7.0));
        let largest = if m == 15 { 0 } else { m as i32 - 1 };
        // At every row where a member may begin.
        (1..m - 1).step_by(2).for_each(|i| a[(i, 0)] = T::NAN);
        assert_eq!(panel(&a, workers).1, [largest], "{m} rows on {workers}");
        (1..m - 1).for_each(|i| a[(i, 0)] = T::NAN);
        assert_eq!(panel(&a, workers).1, [largest], "{m} rows on {workers}");
        a[(0, 0)] = T::NAN;
        assert_eq!(panel(&a, workers).1, [0], "{m} rows on {workers}");
    }
}

fn extreme_pivots_do_not_overflow<T: Scalar>() {
    let single = size_of::<T::Real>() == 4;
    let (huge, subnormal) = if single { (1.5e38, 1e-40) } else { (8e307, 1e-310) };
    // The reciprocals of these pivots are subnormal and infinite; the quotients are harmless.
    for (size, bound) in [(huge, 2.0), (subnormal, if single { 2e3 } else { 10.0 })] {
        let a = random::<T>(30, 1, 5);
        let scaled = Mat::<T>::from_fn(30, 1, |i, _| a[(i, 0)] * T::from_f64_impl(size));
        let (expected, places, _) = panel(&a, 1);
        for workers in WORKERS {
            let (lu, pivots, _) = panel(&scaled, workers);
            assert_eq!(pivots, places);
            let l = |m: &Mat<T>| Mat::<T>::from_fn(29, 1, |i, _| m[(i + 1, 0)]);
            assert!(ratio(&l(&lu), &l(&expected)) < bound, "{}: L at {size:e}", T::DTYPE.name());
        }
    }
}

fn a_member_that_does_not_come_releases_the_others<T: Scalar>() {
    let a = random::<T>(400, 20, 5);
    for workers in [2, 3, 8] {
        for absent in 0..workers {
            assert_eq!(
                panel_without(&a, workers, Some(absent)).err(),
                Some(Stopped),
                "of {workers}"
            );
        }
    }
}

/// A stop at any time leaves no member waiting.
fn a_stop_in_the_middle_releases_all<T: Scalar>() {
    let (m, n) = (2000, 64);
    let a = random::<T>(m, n, 5);
    for pause in [0, 20, 200, 1000, 5000] {
        let mut memory: Vec<T> = (0..m * n).map(|e| a[(e % m, e / m)]).collect();
        let mut pivots = vec![-1; n];
        let (block, rows) = (Cells::of(&mut memory).by_columns(m, n, m), Cells::of(&mut pivots));
        let comm = Communicator::new(4);
        // As in a call, no worker begins again while another one is still in the panel.
        let all_out = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(pause));
                comm.stop();
            });
            on_workers::<T>(&comm, 0, |worker| {
                let mut group = worker.group(0, 4);
                let found = worker.getrf(block, GlobalRow::new(0), rows, &mut group);
                assert!(matches!(found, Err(Stopped) | Ok(())));
                all_out.wait();
                while !comm.is_stopped() {
                    std::thread::yield_now();
                }
                let mut group = worker.group(0, 4);
                let again = worker.getrf(block, GlobalRow::new(0), rows, &mut group);
                assert_eq!(again, Err(Stopped));
            });
        });
    }
}

for_all_scalars!(
    panels_have_the_pivots_of_the_textbook
    equal_candidates_give_the_first
    zero_pivots_are_noted_and_passed_over
    no_number_is_a_pivot_only_in_the_first_place
    extreme_pivots_do_not_overflow
    a_member_that_does_not_come_releases_the_others
    a_stop_in_the_middle_releases_all
);
