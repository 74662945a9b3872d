//! Decompositions of tridiagonal matrices that are hard in some way.

use std::ops::Range;
use std::sync::Barrier;

use faer::MatRef;
use meshsolve::device::cpu::divide::update::Pieces;
use meshsolve::device::cpu::divide::{Divided, solve, solve_with};
use meshsolve::device::cpu::product::Units;
use meshsolve::matrix::{Cells, Columns};
use meshsolve::scalar::Scalar;

mod intervals;
mod matrices;
mod reference;

use self::matrices::{Matrix, all, mixed, normal, toeplitz};

/// What a decomposition gives.
struct Found<R> {
    values: Vec<f64>,
    /// Z^T by columns, without the stride.
    z: Vec<R>,
    failed: usize,
}

/// The unit roundoff.
fn u<R: Scalar>() -> f64 {
    if size_of::<R>() == 4 { f64::from(f32::EPSILON) / 2.0 } else { f64::EPSILON / 2.0 }
}

/// Decomposes with so many threads. Rows of Z are in three blocks.
fn run<R: Scalar>(t: &Matrix, workers: usize, units: Option<Units>) -> Found<R> {
    run_for(t, workers, units, 0..t.diagonal.len())
}

/// The same for some columns of Z.
fn run_for<R: Scalar>(
    t: &Matrix,
    workers: usize,
    units: Option<Units>,
    wanted: Range<usize>,
) -> Found<R> {
    let n = t.diagonal.len();
    let divided = Divided::new(t.diagonal.clone(), t.below.clone(), workers, u::<R>()).only(wanted);
    let (stride, barrier) = (n + 3, Barrier::new(workers));
    let mut memory = vec![R::NAN; stride * n];
    let mut rest = &mut memory[..];
    let blocks = [n / 3, n / 2 - n / 3, n - n / 2].map(|columns| {
        let (block, after) = std::mem::take(&mut rest).split_at_mut(columns * stride);
        rest = after;
        Cells::of(block).by_columns(n, columns, stride)
    });
    let (divided, barrier, z) = (&divided, &barrier, &Columns::new(blocks));
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut next = 0;
        for worker in 0..workers {
            let rows = divided.rows(worker);
            assert_eq!(rows.start, next, "rows in order");
            next = rows.end;
            threads.push(scope.spawn(move || {
                let sizes = Pieces::new::<R>(n, units);
                let mut room = vec![R::NAN; sizes.room::<R>()];
                let meet = || {
                    barrier.wait();
                    Ok(())
                };
                // SAFETY: *order*: all threads do this, and meet.
                unsafe { solve_with(sizes, divided, worker, z, &mut room, meet, &|| false) }
            }));
        }
        assert_eq!(next, n, "all rows");
        for thread in threads {
            failed.push(thread.join().expect("a worker that returns").expect("no stop"));
        }
    });
    assert!(failed.iter().all(|count| *count == failed[0]), "the same count: {failed:?}");
    let z = memory.chunks(stride).flat_map(|column| &column[..n]).copied().collect();
    Found { values: divided.values(), z, failed: failed[0] }
}

/// max |T Z - Z W| / (n |T| u) and max |I - Z^T Z| / (n u).
fn ratios<R: Scalar>(t: &Matrix, found: &Found<R>) -> [f64; 2] {
    let n = t.diagonal.len();
    let size = t.norm();
    if n == 0 {
        return [0.0; 2];
    }
    // Powers of two, as the entries of T may be too large for sums.
    let scale = if size > 0.0 { 2f64.powi(-size.log2().floor() as i32 / 2) } else { 1.0 };
    let scaled = |x: f64| x * scale * scale;
    let z: Vec<f64> = found.z.iter().map(|x| x.parts().0).collect();
    // Row j of Z^T is an eigenvector; column i has entry i of all of them.
    let zt = MatRef::from_column_major_slice(&z, n, n);
    let mut worst = 0.0;
    for i in 0..n {
        for j in 0..n {
            let mut residual = scaled(t.diagonal[i] - found.values[j]) * zt[(j, i)];
            if i > 0 {
                residual += scaled(t.below[i - 1]) * zt[(j, i - 1)];
            }
            if i + 1 < n {
                residual += scaled(t.below[i]) * zt[(j, i + 1)];
            }
            worst = f64::max(worst, residual.abs());
            assert!(residual.is_finite(), "{}: {residual}", t.name);
        }
    }
    let gram = zt * zt.transpose();
    let mut orthogonality = 0.0;
    for i in 0..n {
        for j in 0..n {
            let entry: f64 = gram[(i, j)];
            orthogonality = f64::max(orthogonality, (entry - f64::from(u8::from(i == j))).abs());
        }
    }
    let per = n as f64 * u::<R>();
    [if size > 0.0 { worst / scaled(size) / per } else { worst / per }, orthogonality / per]
}

/// Checks one decomposition, and gives the worst ratio.
fn check<R: Scalar>(t: &Matrix, workers: usize, units: Option<Units>) -> (Found<R>, f64) {
    let n = t.diagonal.len();
    let found = run::<R>(t, workers, units);
    let context = format!("{}, {n}, {workers} workers, {:?}", t.name, R::DTYPE);
    assert_eq!(found.failed, 0, "{context}");
    assert!(found.values.is_sorted(), "{context}: ascending");
    let [residual, orthogonality] = ratios(t, &found);
    assert!(residual <= 20.0 && orthogonality <= 20.0, "{context}: {residual} {orthogonality}");
    let bound = 20.0 * n as f64 * u::<R>() * t.norm();
    for (x, y) in found.values.iter().zip(&reference::values(t)) {
        assert!((x - y).abs() <= bound, "{context}: {x} instead of {y}");
    }
    (found, residual.max(orthogonality))
}

fn same<R: Scalar>(one: &Found<R>, other: &Found<R>) -> bool {
    one.values == other.values && one.z == other.z
}

fn check_all<R: Scalar>() {
    let units = Units::of::<R>();
    let mut worst = (0.0, String::new());
    for n in [0, 1, 2, 3, 31, 32, 33, 100, 257] {
        for t in all(n) {
            let (alone, ratio) = check::<R>(&t, 1, units);
            if ratio > worst.0 {
                worst = (ratio, format!("{} {n}", t.name));
            }
            for workers in [2, 3] {
                let (found, _) = check::<R>(&t, workers, units);
                // Products of faer have other bits for other shapes.
                assert!(units.is_none() || same(&alone, &found), "{} {n}: other bits", t.name);
            }
        }
    }
    println!("{:?}: at most {} ({})", R::DTYPE, worst.0, worst.1);
}

#[test]
fn decomposes_f64() {
    check_all::<f64>();
}

#[test]
fn decomposes_f32() {
    check_all::<f32>();
}

#[test]
fn decomposes_larger_matrices() {
    for t in [normal(500, 3), toeplitz(500)] {
        let (one, _) = check::<f64>(&t, 2, Units::of::<f64>());
        let (other, _) = check::<f64>(&t, 3, Units::of::<f64>());
        assert!(Units::of::<f64>().is_none() || same(&one, &other), "{}", t.name);
        check::<f32>(&t, 3, Units::of::<f32>());
    }
    let t = normal(1100, 4);
    check::<f64>(&t, 3, Units::of::<f64>());
}

/// About half of so many poles are far from a root.
#[test]
fn decomposes_larger_matrices_of_all_kinds() {
    for t in all(700) {
        let (one, _) = check::<f64>(&t, 1, Units::of::<f64>());
        let (other, _) = check::<f64>(&t, 3, Units::of::<f64>());
        assert!(Units::of::<f64>().is_none() || same(&one, &other), "{}", t.name);
        check::<f32>(&t, 2, Units::of::<f32>());
        check::<f64>(&t, 2, None);
    }
}

/// Diagonals and entries next to them of any two kinds.
#[test]
fn decomposes_mixed_matrices() {
    for seed in 0..150 {
        let t = mixed(33 + seed * 7 % 200, seed as u64);
        check::<f64>(&t, 1, Units::of::<f64>());
        check::<f32>(&t, 2, Units::of::<f32>());
    }
}

#[test]
fn reruns_have_the_same_bits() {
    let t = normal(300, 5);
    for units in [Units::of::<f64>(), None] {
        let run = || run::<f64>(&t, 2, units);
        assert!(same(&run(), &run()));
    }
}

/// Some columns of Z have the bits that they have among all. Others keep what they had before the
/// last merge.
#[test]
fn finds_some_columns() {
    let units = Units::of::<f64>();
    // Products of faer have other bits for other shapes.
    let most = if units.is_some() { 0.0 } else { 1e-13 };
    for n in [1, 20, 33, 200, 385, 1100] {
        for t in [toeplitz(n), mixed(n, 3)] {
            // Of large mixed matrices few poles are left in the last merge.
            if n > 1000 && t.name == "mixed" {
                continue;
            }
            let all = run::<f64>(&t, 2, units);
            for wanted in [0..1, n / 2..n.div_ceil(2) + n / 8, n - 1..n, 0..n] {
                let some = run_for::<f64>(&t, 3, units, wanted.clone());
                assert_eq!(some.values, all.values, "{n} {wanted:?}");
                let differs = |&j: &usize| {
                    (0..n).any(|i| (some.z[i * n + j] - all.z[i * n + j]).abs() > most)
                };
                assert!(!wanted.clone().any(|j| differs(&j)), "{n} {wanted:?}");
                let others = (0..n).filter(|j| !wanted.contains(j)).filter(differs).count();
                let has_merges = n > 32 && wanted.len() < n / 2;
                assert!(!has_merges || others > n / 4, "{n} {wanted:?}: {others}");
            }
        }
    }
}

#[test]
fn works_without_a_kernel() {
    for n in [33, 100, 300] {
        for t in [normal(n, 6), toeplitz(n)] {
            check::<f64>(&t, 2, None);
            check::<f32>(&t, 1, None);
        }
    }
}

#[test]
fn has_workers_without_rows() {
    check::<f64>(&normal(40, 7), 5, Units::of::<f64>());
}

#[test]
fn numbers_that_are_not_finite() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut t = normal(70, 8);
        t.below[40] = bad;
        assert_eq!(run::<f64>(&t, 2, Units::of::<f64>()).failed, 70);
    }
}

#[test]
fn stops() {
    let divided = Divided::new(vec![1.0; 100], vec![1.0; 99], 1, u::<f64>());
    let mut memory = vec![0.0; 100 * 100];
    let mut room = vec![0.0; Divided::room::<f64>(100)];
    let barrier = || Err(meshsolve::comm::Stopped);
    let z = Columns::new([Cells::of(&mut memory).by_columns(100, 100, 100)]);
    // SAFETY: *order*: this thread alone has the memory.
    let stopped = unsafe { solve(&divided, 0, &z, &mut room, barrier, &|| true) };
    assert!(stopped.is_err());
    // No product of the last merge: its rows are those of the leaves.
    let split = 50;
    assert!((0..split).all(|i| (split..100).all(|j| memory[j + 100 * i] == 0.0)));
}

/// Two workers, of which neither changes its rows or takes others after a stop.
#[test]
fn workers_stop_in_the_last_merge() {
    let n = 300;
    let divided = Divided::new(vec![1.0; n], vec![1.0; n - 1], 2, u::<f64>());
    let (mut memory, barrier) = (vec![0.0; n * n], Barrier::new(2));
    let z = Columns::new([Cells::of(&mut memory).by_columns(n, n, n)]);
    let (divided, barrier) = (&divided, &barrier);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let z = &z;
            scope.spawn(move || {
                let mut room = vec![0.0; Divided::room::<f64>(n)];
                let meet = || {
                    barrier.wait();
                    Ok(())
                };
                // SAFETY: *order*: both threads do this, and meet.
                unsafe { solve(divided, worker, z, &mut room, meet, &|| true) }.unwrap();
            });
        }
    });
    // Rows of leaves, which are zero elsewhere.
    let entries = (0..n * n).filter(|at| memory[*at] != 0.0);
    assert!(
        entries.clone().count() > n && entries.clone().all(|at| (at / n).abs_diff(at % n) < 32)
    );
}

/// A worker's room is O(n).
#[test]
fn room_is_small() {
    for n in [4096, 16384] {
        assert!(Divided::room::<f64>(n) < 112 * n);
        assert!(Divided::room::<f32>(n) < 112 * n);
    }
}
