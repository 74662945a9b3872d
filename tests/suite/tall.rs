//! Triangles of tall matrices by workers without call sites: groups of several sizes, workers without
//! rows, and blocks of any width.

use crate::common::workers::on_workers;
use crate::common::{every_scalar, random, unit};
use faer::Mat;
use meshsolve::algorithms::qr::Lines;
use meshsolve::algorithms::qr::groups::Groups;
use meshsolve::algorithms::qr::tsqr::{Extent, Parts, Rows, Scratch, reduce};
use meshsolve::comm::{Comm, Communicator};
use meshsolve::device::Squares;
use meshsolve::device::cpu::reflect;
use meshsolve::matrix::{Blocks, Cells};
use meshsolve::scalar::Scalar;
use std::sync::Mutex;

/// R with Z, and the norms of residuals of [A B; sqrt(ridge) I 0]. Worker w has `rows[w]` rows, in two
/// pieces.
fn reduced<T: Scalar>(
    ab: &Mat<T>,
    sides: usize,
    rows: &[usize],
    width: usize,
    ridge: f64,
) -> (Mat<T>, Vec<f64>) {
    let (workers, order) = (rows.len(), ab.ncols() - sides);
    let most = rows.iter().copied().max().unwrap_or(0);
    let (m, size) = (ab.nrows(), size_of::<T>());
    let of = Extent { rows: m, order, sides, workers, size, is_rank: false };
    let room =
        reflect::scratch_elements(ab.ncols(), size_of::<T>()) + 2 * width * (width + ab.ncols());
    let of = Scratch::new(of, width, room);
    let [once, each] = of.elements();
    let mut scratch = vec![T::NAN; once + workers * each];
    let memory = Cells::of(&mut scratch);
    let mut elements: Vec<T> =
        ab.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
    // Rows of the matrix are columns here.
    let lines = Cells::of(&mut elements).by_columns(ab.ncols(), ab.nrows(), ab.ncols());
    let found = Mutex::new(vec![]);
    on_workers::<T>(&Communicator::new(workers), 64, |worker| {
        let me = worker.worker();
        let (first, count) = (rows[..me].iter().sum::<usize>(), rows[me]);
        let pieces = |from: usize, columns: usize| {
            let piece = |at: usize, count: usize| lines.sub(from, first + at, columns, count);
            Lines(vec![piece(0, count / 3), piece(count / 3, count - count / 3)])
        };
        let rows = Rows { a: pieces(0, order), b: pieces(order, sides), most };
        let triangle =
            |worker| memory.sub(of.groups.of(worker) * of.of_triangle(), 0, of.of_triangle(), 1);
        let triangles = Blocks::new((0..workers).map(triangle), me);
        let parts = Parts { triangles, own: memory.sub(once + me * each, 0, each, 1) };
        let squares = reduce(worker, &rows, ridge, &parts, of).expect("no stop");
        found.lock().unwrap().push(squares.into_iter().map(Squares::root).collect::<Vec<_>>());
    });
    let mut r = Mat::from_fn(order, ab.ncols(), |_, _| T::ZERO);
    for block in of.blocks_of(memory.sub(0, 0, of.of_triangle(), 1)) {
        let first = ab.ncols() - block.cols();
        // SAFETY: *order*: all workers have ended.
        let block = unsafe { block.read() };
        for (i, j) in (0..block.nrows()).flat_map(|i| (i..block.ncols()).map(move |j| (i, j))) {
            r[(first + i, first + j)] = block[(i, j)];
        }
    }
    let found = found.into_inner().unwrap();
    assert!(found.iter().all(|of_worker| *of_worker == found[0]), "residuals of all workers");
    (r, found[0].clone())
}

fn check<T: Scalar>(rows: &[usize], order: usize, sides: usize, width: usize, ridge: f64) {
    let (m, all) = (rows.iter().sum::<usize>(), order + sides);
    let what = format!("{} {rows:?} {order} {sides} {width}", T::DTYPE.name());
    let ab = random::<T>(m, all, 3);
    let (r, norms) = reduced(&ab, sides, rows, width, ridge);
    let product = |x: &Mat<T>, i: usize, j: usize| {
        (0..x.nrows()).fold(T::ZERO, |sum, l| sum + T::conj_impl(&x[(l, i)]) * x[(l, j)])
    };
    let term = |i: usize, j: usize| T::from_f64_impl(if i == j && i < order { ridge } else { 0.0 });
    let bar = 10.0 * (m + order) as f64 * unit::<T>();
    for (i, j) in (0..all).flat_map(|i| (i..all).map(move |j| (i, j))) {
        let exact = product(&ab, i, j) + term(i, j);
        let mut there = product(&r, i, j);
        if i == j && i >= order {
            there += T::from_f64_impl(norms[i - order].powi(2));
        }
        // Of different right-hand sides the products have those of what is left.
        if i == j || i < order {
            assert!((there + -exact).modulus() <= bar * m as f64, "{what}: ({i}, {j})");
        }
    }
    let (again, others) = reduced(&ab, sides, rows, width, ridge);
    assert_eq!(format!("{again:?} {others:?}"), format!("{r:?} {norms:?}"), "{what}: bits");
}

fn triangles<T: Scalar>() {
    for (rows, order, sides, width) in [
        (&[50][..], 20, 2, 4),
        // One group, in which some have no rows.
        (&[60, 400, 0, 3, 70], 40, 2, 2),
        (&[0, 0, 300], 33, 1, 2),
        // Groups of one and of two workers.
        (&[40, 150, 160, 20, 41, 42, 1], 36, 3, 4),
        // Each worker alone: fewer blocks, and none.
        (&[40, 30, 45, 36, 33], 20, 1, 6),
        (&[9, 9], 0, 2, 6),
        // The kernel has factors of V, in whole units and not.
        (&[300, 250, 500], 230, 20, 24),
        (&[700, 300], 210, 0, 48),
    ] {
        check::<T>(rows, order, sides, width, 0.0);
    }
    check::<T>(&[60, 0, 70], 40, 2, 2, 0.25);
}

#[test]
fn groups_reduce_rows_to_one_triangle() {
    every_scalar!(triangles);
}

#[test]
fn groups_have_all_workers() {
    for (workers, blocks) in (1..20).flat_map(|w| (0..100).map(move |blocks| (w, blocks))) {
        let groups = Groups::new(workers, blocks);
        let of: Vec<_> = (0..workers).map(|worker| groups.of(worker)).collect();
        assert!(of.is_sorted() && of[0] == 0 && of[workers - 1] + 1 == groups.count());
        for group in 0..groups.count() {
            let members = of.iter().filter(|&&other| other == group).count();
            assert!((1..=(blocks / 4).max(1)).contains(&members), "{workers} {blocks}: {of:?}");
            assert_eq!(of[groups.first(group)], group);
            assert!(groups.first(group) == 0 || of[groups.first(group) - 1] < group);
        }
    }
}
