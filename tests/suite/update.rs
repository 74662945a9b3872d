//! The update that a panel makes to other tile columns, with the product kernel and by faer, against
//! sums by definition.

use crate::common::for_all_scalars;
use crate::common::workers::{element, matrix, shards};
use std::ops::Range;

use faer::Mat;
use meshsolve::comm::Communicator;
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::device::{Device, Update};
use meshsolve::layout::{Distribution, GlobalRow, Mapping, TileColumn};
use meshsolve::matrix::{Cells, Panel};
use meshsolve::scalar::Scalar;

/// Whole numbers, so that sums are exact in every order.
fn whole<T: Scalar>(n: usize) -> Mat<T> {
    let part = |i: usize, j: usize, p: usize| ((i * 5 + j * p) % 7) as f64 - 3.0;
    Mat::from_fn(n, n, |i, j| T::of_parts(part(i, j, 3), part(i, j, 2)))
}

/// A after the update by tile column `k`, in `rows`. Cholesky changes whole tiles of the diagonal.
/// `tiles` are the columns of each tile column.
fn expected<T: Scalar>(
    a: &Mat<T>,
    update: Update,
    tiles: &[Range<usize>],
    k: usize,
    targets: &[usize],
    rows: Range<usize>,
) -> Mat<T> {
    let (n, panel) = (a.nrows(), tiles[k].clone());
    Mat::from_fn(n, n, |i, j| {
        let tile = tiles.iter().position(|tile| tile.contains(&j)).expect("every column");
        let changes = match update {
            Update::Cholesky => i >= tiles[tile].start,
            Update::Lu => i >= panel.end,
            Update::Above => i < panel.start,
        };
        if !changes || !rows.contains(&i) || !targets.contains(&tile) {
            return a[(i, j)];
        }
        let factor = |p: usize| match update {
            Update::Cholesky => T::conj_impl(&a[(j, p)]),
            Update::Lu | Update::Above => a[(p, j)],
        };
        panel.clone().fold(a[(i, j)], |sum, p| sum + -(a[(i, p)] * factor(p)))
    })
}

/// Updates by tile column `k` of the tile columns `targets`, in all rows and in some.
fn check<T: Scalar>(
    (n, tile, fits): (usize, usize, usize),
    update: Update,
    k: usize,
    targets: impl Fn(usize) -> Vec<usize>,
) {
    let a = whole::<T>(n);
    let distribution = Distribution::whole_columns((n, n), 1, tile, Mapping::Block);
    let columns = distribution.columns();
    let of_tile = |t| columns.tile(t).columns();
    let cut = columns.each().map(|t| of_tile(t).start.get()..of_tile(t).end.get());
    let (cut, targets): (Vec<_>, _) = (cut.collect(), targets(columns.count()));
    for rows in [0..n, n / 3..n - 1] {
        let wanted = expected(&a, update, &cut, k, &targets, rows.clone());
        for kernel in [true, false] {
            let mut memory = shards(&a, 1);
            let m = matrix(&mut memory, &distribution);
            let mut scratch = vec![T::NAN; scratch_elements::<T>(columns.widest(), fits)];
            let (comm, scratch) = (Communicator::new(1), Cells::of(&mut scratch));
            // SAFETY: *order*: the only worker.
            let worker = unsafe { CpuWorker::new(&comm, 0, columns.widest(), scratch) };
            let mut worker = if kernel { worker } else { worker.without_kernel() };
            let k = TileColumn::new(k);
            let panel = Panel::new(&m, k, m.all_rows(), m.tile_column(k));
            let within = GlobalRow::new(rows.start)..GlobalRow::new(rows.end);
            worker.update(&m, &panel, targets.iter().map(|&j| TileColumn::new(j)), update, within);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let got = element(&distribution, &memory, i, j);
                let case = format!("{update:?} n={n} {rows:?} kernel={kernel} ({i}, {j})");
                assert_eq!(got, wanted[(i, j)], "{:?} {case}", T::DTYPE);
            }
        }
    }
}

fn updates<T: Scalar>() {
    // One tile fits the scratch, then two; the last columns are ragged. Some tiles are narrower than
    // a unit of the kernel.
    for sizes in [(11, 1, 1), (14, 3, 2), (50, 12, 1), (100, 23, 2), (300, 64, 2)] {
        check::<T>(sizes, Update::Cholesky, 0, |count| (1..count).collect());
        check::<T>(sizes, Update::Cholesky, 1, |count| (2..count).step_by(2).collect());
        check::<T>(sizes, Update::Lu, 0, |count| (1..count).collect());
        check::<T>(sizes, Update::Above, 2, |count| (0..count).filter(|&j| j != 2).collect());
    }
    // Deeper than the pieces of other products.
    check::<T>((540, 270, 1), Update::Lu, 0, |count| (1..count).collect());
}

/// `C <- C - V X_j^H - X V_j^H` for some tile columns of the lower half, with the rows of V and X
/// from row `top` of the matrix on.
fn check_pair<T: Scalar>((n, tile, fits): (usize, usize, usize), top: usize, depth: usize) {
    let distribution = Distribution::whole_columns((n, n), 1, tile, Mapping::Block);
    let columns = distribution.columns();
    let depth = depth.min(columns.widest());
    let (a, pair) = (whole::<T>(n), whole::<T>(n.max(2 * depth)));
    // Every second one, from the row and column where it meets the trailing matrix.
    let tiles = columns.each().step_by(2).map(|t| columns.tile(t));
    let cuts = tiles.map(|t| t.global.get().max(top)..t.global.get() + t.width);
    let cuts: Vec<_> = cuts.filter(|cut| !cut.is_empty()).collect();
    let m = n - top;
    let [v, x] = [0, 1].map(|side| Mat::from_fn(m, depth, |i, p| pair[(i, side * depth + p)]));
    for kernel in [true, false] {
        let mut memory = shards(&a, 1);
        let mut scratch = vec![T::NAN; scratch_elements::<T>(columns.widest(), fits)];
        let mut factors = [&v, &x].map(|of| shards(of, 1).swap_remove(0));
        let mut room = vec![T::NAN; depth * columns.widest()];
        let (comm, all) = (Communicator::new(1), matrix(&mut memory, &distribution));
        let shard = all.shard(0);
        let of = |cut: &Range<usize>| {
            (cut.start - top, shard.sub(cut.start, cut.start, n - cut.start, cut.len()))
        };
        let targets: Vec<_> = cuts.iter().map(of).collect();
        let sides = factors.each_mut().map(|of| Cells::of(of).by_columns(m, depth, m));
        // SAFETY: *order*: the only worker.
        let worker = unsafe { CpuWorker::new(&comm, 0, columns.widest(), Cells::of(&mut scratch)) };
        let mut worker = if kernel { worker } else { worker.without_kernel() };
        worker.subtract_pair(sides, &targets, Cells::of(&mut room));
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let changes = cuts.iter().any(|cut| cut.contains(&j) && i >= cut.start);
            let product = |sum: T, p: usize| {
                let (i, j) = (i - top, j - top);
                let both =
                    v[(i, p)] * T::conj_impl(&x[(j, p)]) + x[(i, p)] * T::conj_impl(&v[(j, p)]);
                sum + -both
            };
            let wanted = match changes {
                true => (0..depth).fold(a[(i, j)], product),
                false => a[(i, j)],
            };
            let got = element(&distribution, &memory, i, j);
            assert_eq!(got, wanted, "{:?} n={n} kernel={kernel} ({i}, {j})", T::DTYPE);
        }
    }
}

fn updates_by_pairs<T: Scalar>() {
    // A pair of packed tiles fits the scratch, or two, or none.
    for (sizes, top, depth) in [
        ((11, 2, 2), 1, 2),
        ((50, 12, 4), 12, 12),
        ((100, 23, 2), 24, 22),
        ((300, 64, 4), 65, 64),
        ((40, 8, 1), 8, 8),
    ] {
        check_pair::<T>(sizes, top, depth);
    }
}

for_all_scalars!(updates updates_by_pairs);
