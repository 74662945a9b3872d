//! Matrices with m != n and grids of p x q ranks, against plain loops: distributions, views,
//! redistribution, mirror, norms, and the transposition between orders.

use std::sync::Mutex;

use faer::Mat;
use meshsolve::algorithms::mirror::{Missing, mirror_triangle};
use meshsolve::algorithms::norm::{squares, sums};
use meshsolve::algorithms::redistribute::{
    Redistribution, redistribute_columns, redistribute_rows,
};
use meshsolve::comm::{Comm, Communicator, Signal};
use meshsolve::device::cpu::{CpuWorker, scratch_elements, shared_elements};
use meshsolve::device::{Squares, Worker};
use meshsolve::layout::{
    Distribution, GlobalColumn, GlobalRow, Grid, Index, Layout, Mapping, TileColumn,
};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;
use meshsolve::transpose::Plan;

use crate::common::norms::{norms, uneven};
use crate::common::workers::{element, matrix, on_workers, staging};
use crate::common::{for_all_scalars, random};

const GRIDS: [(usize, usize); 6] = [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (4, 2)];
const MAPPINGS: [Mapping; 2] = [Mapping::Block, Mapping::BlockCyclic];

/// Rows and columns of a rank, and the most rows and columns of a tile.
const SIZES: [((usize, usize), (usize, usize)); 5] =
    [((1, 1), (1, 1)), ((6, 4), (2, 3)), ((5, 12), (4, 4)), ((7, 3), (9, 1)), ((0, 4), (2, 2))];

fn distributions() -> impl Iterator<Item = Distribution> {
    GRIDS.into_iter().flat_map(|(p, q)| {
        SIZES.into_iter().flat_map(move |((m, n), tile)| {
            let shape = (m * p, n * q);
            MAPPINGS.map(move |mapping| Distribution::new(shape, tile, Grid::new(p, q), mapping))
        })
    })
}

/// Where ScaLAPACK's definition puts an index: the rank, and the index there. Tiles have one width.
fn textbook(index: usize, width: usize, ranks: usize) -> (usize, usize) {
    let tile = index / width;
    (tile % ranks, tile / ranks * width + index % width)
}

#[test]
fn equal_tiles_are_where_the_textbook_puts_them() {
    for (p, q) in GRIDS {
        let (mb, nb, m, n) = (2, 3, 6 * p, 9 * q);
        let cyclic = Distribution::new((m, n), (mb, nb), Grid::new(p, q), Mapping::BlockCyclic);
        assert_eq!((cyclic.m(), cyclic.n(), cyclic.mb(), cyclic.nb()), (m, n, mb, nb));
        for i in 0..m {
            let (rank, local) = cyclic.rows().local(GlobalRow::new(i));
            assert_eq!((rank, local.get()), textbook(i, mb, p));
        }
        for j in 0..n {
            let (rank, local) = cyclic.columns().local(GlobalColumn::new(j));
            assert_eq!((rank, local.get()), textbook(j, nb, q));
        }
        let shards = Distribution::shards((m, n), Grid::new(p, q));
        for i in 0..m {
            let (rank, local) = shards.rows().local(GlobalRow::new(i));
            assert_eq!((rank, local.get()), (i / 6, i % 6));
        }
        assert_eq!((shards.mb(), shards.nb()), (6, 9));
    }
}

#[test]
fn the_transpose_has_rows_for_columns_on_the_same_ranks() {
    for d in distributions() {
        let t = d.transposed();
        assert_eq!((t.m(), t.n(), t.mb(), t.nb()), (d.n(), d.m(), d.nb(), d.mb()));
        assert_eq!(t.transposed(), d);
        for (row, column) in
            (0..d.grid().rows()).flat_map(|r| (0..d.grid().columns()).map(move |c| (r, c)))
        {
            assert_eq!(t.grid().rank(column, row), d.grid().rank(row, column));
        }
        for i in 0..d.m() {
            let (rank, local) = d.rows().local(GlobalRow::new(i));
            let of_t = t.columns().local(GlobalColumn::new(i));
            assert_eq!(of_t, (rank, Index::new(local.get())));
        }
    }
}

#[test]
fn whole_columns_have_square_tiles_on_the_diagonal() {
    for (m, n) in [(12, 12), (30, 12), (8, 12), (0, 12), (5, 0)] {
        for mapping in MAPPINGS {
            let d = Distribution::whole_columns((m, n), 2, 4, mapping);
            let mut next = GlobalRow::new(0);
            for i in d.rows().each() {
                let tile = d.rows().tile(i);
                assert_eq!((tile.rank, tile.global, tile.local.get()), (0, next, next.get()));
                assert!((1..=4).contains(&tile.width));
                next = tile.range().end;
            }
            assert_eq!(next.get(), m);
            let widths = d.rows().widths();
            assert_eq!(widths.iter().map(|(width, count)| width * count).sum::<usize>(), m);
            if m == n {
                assert_eq!(d.in_block_mapping().rows(), d.rows());
            }
            let whole =
                d.columns().each().take_while(|&j| d.columns().tile(j).rows().end.get() <= m);
            whole.for_each(|j| {
                assert_eq!(d.rows().range(j.row()), d.columns().tile(j).rows());
            });
        }
    }
}

/// Column-major shards.
fn distributed<T: Scalar>(a: &Mat<T>, d: &Distribution) -> Vec<Vec<T>> {
    let (rows, columns) = d.shard();
    let mut shards = vec![vec![T::NAN; rows * columns]; d.ranks()];
    for (i, j) in (0..d.m()).flat_map(|i| (0..d.n()).map(move |j| (i, j))) {
        let (row, local_row) = d.rows().local(GlobalRow::new(i));
        let (column, local_column) = d.columns().local(GlobalColumn::new(j));
        let shard = &mut shards[d.grid().rank(row, column)];
        shard[local_column.get() * rows + local_row.get()] = a[(i, j)];
    }
    shards
}

fn gathered<T: Scalar>(shards: &[Vec<T>], d: &Distribution) -> Mat<T> {
    Mat::from_fn(d.m(), d.n(), |i, j| element(d, shards, i, j))
}

#[test]
fn tiles_and_runs_are_views_of_their_elements() {
    for d in distributions() {
        let a = random::<f64>(d.m(), d.n(), 3);
        let mut shards = distributed(&a, &d);
        let view = matrix(&mut shards, &d);
        let holds = |cells: Cells<f64>, row: usize, column: usize| {
            // SAFETY: *order*: nothing writes.
            let read = unsafe { cells.read() };
            (0..read.nrows()).for_each(|i| {
                (0..read.ncols()).for_each(|j| assert_eq!(read[(i, j)], a[(row + i, column + j)]));
            });
            read.nrows() * read.ncols()
        };
        let mut seen = 0;
        for (i, j) in d.rows().each().flat_map(|i| d.columns().each().map(move |j| (i, j))) {
            let (row, column) = (d.rows().tile(i).global.get(), d.columns().tile(j).global.get());
            seen += holds(view.tile(i, j), row, column);
        }
        assert_eq!(seen, d.m() * d.n());
        let runs = (0..d.ranks()).flat_map(|rank| view.runs(rank));
        let in_runs = runs.map(|r| holds(r.cells, r.rows.global.get(), r.columns.global.get()));
        assert_eq!(in_runs.sum::<usize>(), d.m() * d.n());
    }
}

#[test]
#[should_panic(expected = "ranks with whole columns")]
fn a_grid_of_several_rows_has_no_whole_columns() {
    let d = Distribution::shards((4, 4), Grid::new(2, 2));
    let mut shards = vec![vec![0.0; 4]; 4];
    matrix(&mut shards, &d).tile_column(TileColumn::new(0));
}

#[test]
#[should_panic(expected = "a square matrix by whole columns")]
fn a_rectangle_is_not_transposed_across_shards() {
    let d = Distribution::whole_columns((2, 4), 2, 2, Mapping::Block);
    let (mut shards, comm) = (vec![vec![0.0; 4]; 2], Communicator::new(1));
    let mut pack = vec![0.0; scratch_elements::<f64>(2, 1)];
    // SAFETY: *order*, as this is the only worker.
    let mut worker = unsafe { CpuWorker::new(&comm, 0, 2, Cells::of(&mut pack)) };
    let _ = worker.transpose_square(&matrix(&mut shards, &d));
}

/// Workers that disagree about a phase do not share its counters.
#[test]
#[should_panic(expected = "all workers enter the same phases")]
fn a_phase_counts_one_thing() {
    let comm = Communicator::new(2);
    let _first = comm.phases().enter(0, Signal::Panels);
    comm.phases().enter(0, Signal::Solved);
}

/// From JAX's shards to block-cyclic tiles and back, rows and columns, by any number of workers.
#[test]
fn rows_and_columns_are_redistributed() {
    for cyclic in distributions() {
        for workers in [1, 3] {
            let block = cyclic.in_block_mapping();
            let a = random::<f64>(cyclic.m(), cyclic.n(), 5);
            let mut shards = distributed(&a, &block);
            let (rows, columns) = (cyclic.rows(), cyclic.columns());
            let there = [rows.source(), columns.source()];
            let back = [rows.destination(), columns.destination()];
            for (moves, after) in [(there, &cyclic), (back, &block)] {
                let [of_rows, of_columns] = moves.map(|moves| Redistribution::new(&moves, workers));
                let (m, n) = cyclic.shard();
                let lines = of_rows.staging_lines().max(of_columns.staging_lines());
                let mut memory = vec![f64::NAN; workers * lines * m.max(n)];
                let memory = Cells::of(&mut memory);
                let view = matrix(&mut shards, &cyclic);
                on_workers::<f64>(&Communicator::new(workers), 1, |worker| {
                    let lines = staging(worker, memory, of_columns.staging_lines(), m);
                    redistribute_columns(worker, &view, &of_columns, &lines).unwrap();
                    let lines = staging(worker, memory, of_rows.staging_lines(), n);
                    redistribute_rows(worker, &view, &of_rows, &lines).unwrap();
                });
                assert_eq!(gathered(&shards, after), a, "{after:?} {workers}");
            }
        }
    }
}

/// The triangle of the leading square of an m x n matrix, tiles over a grid.
#[test]
fn triangles_are_mirrored() {
    let uneven = Distribution::new((6, 6), (1, 3), Grid::new(2, 2), Mapping::BlockCyclic);
    assert!(!uneven.is_square_on_diagonal());
    let shapes = [((12, 12), (2, 2)), ((16, 8), (2, 2)), ((8, 16), (2, 2)), ((12, 24), (2, 3))];
    for ((m, n), (p, q)) in shapes {
        let d = Distribution::new((m, n), (2, 2), Grid::new(p, q), Mapping::BlockCyclic);
        assert!(d.is_square_on_diagonal());
        let a = random::<faer::c64>(m, n, 9);
        for (missing, conjugated) in [(Missing::Lower, true), (Missing::Upper, false)] {
            let mut shards = distributed(&a, &d);
            let view = matrix(&mut shards, &d);
            on_workers::<faer::c64>(&Communicator::new(2), 2, |worker| {
                mirror_triangle(worker, &view, missing, conjugated).unwrap();
            });
            let order = m.min(n);
            let expected = Mat::from_fn(m, n, |i, j| {
                let made =
                    i < order && j < order && if missing == Missing::Lower { i > j } else { i < j };
                match (made, conjugated) {
                    (true, true) => a[(j, i)].conj(),
                    (true, false) => a[(j, i)],
                    _ if i == j && conjugated => faer::c64::new(a[(i, j)].re, 0.0),
                    _ => a[(i, j)],
                }
            });
            assert_eq!(gathered(&shards, &d), expected, "{m} x {n} {missing:?}");
        }
    }
}

fn norms_by_workers<T: Scalar>() {
    for d in distributions().filter(|d| d.m() > 0) {
        let a = uneven::<T>(d.m(), d.n());
        let mut shards = distributed(&a, &d);
        let view = matrix(&mut shards, &d);
        for leading in [(d.m(), d.n()), (d.m().div_ceil(2), d.n())] {
            let workers = 2;
            let (mut columns, mut rows) = (vec![0.0; workers * d.n()], vec![0.0; workers * d.m()]);
            let (of_columns, of_rows) = (Cells::of(&mut columns), Cells::of(&mut rows));
            let all = Mutex::new(Squares::default());
            on_workers::<T>(&Communicator::new(workers), d.nb(), |worker| {
                let me = worker.worker();
                sums(worker, &view, leading, true, of_columns.sub(me * d.n(), 0, d.n(), 1));
                sums(worker, &view, leading, false, of_rows.sub(me * d.m(), 0, d.m(), 1));
                let own = squares(worker, &view, leading).unwrap();
                let mut all = all.lock().unwrap();
                *all = all.and(own);
            });
            let largest = |sums: &[f64], size: usize| {
                let total = |i: usize| (0..workers).map(|l| sums[l * size + i]).sum();
                (0..size).map(total).fold(0.0, f64::max)
            };
            let root = all.into_inner().unwrap().root();
            let got = [largest(&columns, d.n()), largest(&rows, d.m()), root];
            for (got, exact) in got.into_iter().zip(norms(&a, leading)) {
                assert!((got / exact - 1.0).abs() < 1e-13, "{d:?} {leading:?}: {got} {exact}");
            }
        }
    }
}

/// Row-major shards become column-major ones in their own memory, and the reverse.
#[test]
fn shards_are_transposed_between_orders() {
    for d in distributions().filter(|d| d.m() > 0) {
        let a = random::<f64>(d.m(), d.n(), 4);
        let by_columns = distributed(&a, &d);
        let (rows, columns) = d.shard();
        let (left, right) = (Layout::left((rows, columns)), Layout::right((rows, columns)));
        let mut shards: Vec<Vec<f64>> = by_columns
            .iter()
            .map(|shard| {
                let mut by_rows = vec![f64::NAN; shard.len()];
                (0..shard.len()).for_each(|e| by_rows[right.index(e)] = shard[left.index(e)]);
                by_rows
            })
            .collect();
        let plan = Plan::new(rows, columns, size_of::<f64>());
        let mut scratch = vec![0.0; shared_elements::<f64>(&plan, d.ranks()).max(1)];
        let shared = Cells::of(&mut scratch);
        let own = plan.scratch_bytes().div_ceil(size_of::<f64>());
        let mut own = vec![vec![0.0; own]; 2];
        let own: Vec<_> = own.iter_mut().map(|own| Cells::of(own)).collect();
        let view = matrix(&mut shards, &d);
        on_workers::<f64>(&Communicator::new(2), 1, |worker| {
            let mine = own[worker.worker()];
            let shard = |rank: usize| view.shard(rank);
            worker.transpose_shards(&plan, d.ranks(), shard, mine, shared).unwrap();
        });
        assert_eq!(shards, by_columns, "{d:?}");
    }
}

for_all_scalars!(norms_by_workers);
