//! Distributions of columns, and moves from one to another by any number of workers.

use meshsolve::algorithms::redistribute::{Redistribution, redistribute_columns};
use meshsolve::comm::Communicator;
use meshsolve::layout::{Column, Distribution, GlobalColumn, Mapping, Partition};
use meshsolve::matrix::Cells;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq};

use super::check;
use crate::common::workers::{matrix, on_workers, staging};

/// Columns per rank, ranks, width of tiles.
fn sizes() -> impl Strategy<Value = (usize, usize, usize)> {
    (0..300usize, 1..17usize, 1..80usize)
}

#[test]
fn distributions_are_permutations_by_tiles() {
    check(300, &sizes(), |(per_rank, ranks, width)| {
        let n = per_rank * ranks;
        let natural = Partition::<Column>::new(n, ranks, width, Mapping::Block);
        prop_assert_eq!(natural.source(), (0..n).collect::<Vec<_>>());
        let columns = Partition::<Column>::new(n, ranks, width, Mapping::BlockCyclic);
        let (source, destination) = (columns.source(), columns.destination());
        for position in 0..n {
            prop_assert_eq!(destination[source[position]], position);
        }
        // Tile t is on rank t mod P, in the order of the tiles.
        for t in columns.each() {
            let tile = columns.tile(t);
            prop_assert_eq!(tile.rank, t.get() % ranks);
            prop_assert!((1..=width).contains(&tile.width));
            for j in GlobalColumn::each(tile.columns()) {
                let (rank, local) = columns.local(j);
                prop_assert_eq!((rank, columns.tile_of(j)), (tile.rank, t));
                prop_assert_eq!(source[rank * per_rank + local.get()], j.get());
                prop_assert_eq!(columns.global(rank, local), j);
            }
        }
        let widths = columns.widths();
        prop_assert_eq!(widths.iter().map(|(width, count)| width * count).sum::<usize>(), n);
        if let Some(layout) = columns.layout() {
            let positions: Vec<_> = (0..n).map(|column| layout.index(column)).collect();
            prop_assert_eq!(positions, destination);
        }
        Ok(())
    });
}

/// Moves the columns of an n x n matrix of numbers by `source`, and returns the columns' first
/// numbers.
fn moved(source: &[usize], before: &[usize], ranks: usize, workers: usize) -> Vec<Vec<usize>> {
    let n = source.len();
    let number = |column: usize, row: usize| (column * n + row) as f64;
    let mut shards: Vec<Vec<f64>> = before
        .chunks(n / ranks)
        .map(|columns| columns.iter().flat_map(|&c| (0..n).map(move |r| number(c, r))).collect())
        .collect();
    let distribution = Distribution::whole_columns((n, n), ranks, n, Mapping::Block);
    let natural = matrix(&mut shards, &distribution);
    let plan = Redistribution::new(source, workers);
    let lines = plan.staging_lines();
    let mut memory = vec![f64::NAN; workers * lines * n];
    let memory = Cells::of(&mut memory);
    on_workers::<f64>(&Communicator::new(workers), 1, |worker| {
        let lines = staging(worker, memory, lines, n);
        redistribute_columns(worker, &natural, &plan, &lines).unwrap();
    });
    shards.concat().chunks(n).map(|column| column.iter().map(|&x| x as usize).collect()).collect()
}

#[test]
fn any_permutation_is_moved_and_moved_back_by_any_number_of_workers() {
    let cases = (1..12usize, 1..6usize, 1..8usize, any::<bool>()).prop_flat_map(
        |(per_rank, ranks, workers, shuffled)| {
            let identity: Vec<_> = (0..per_rank * ranks).collect();
            let source = match shuffled {
                true => Just(identity).prop_shuffle().boxed(),
                // One cycle through all columns, which workers share.
                false => (0..identity.len())
                    .prop_map(move |by| [&identity[by..], &identity[..by]].concat())
                    .boxed(),
            };
            (source, Just(ranks), Just(workers))
        },
    );
    check(120, &cases, |(source, ranks, workers)| {
        let n = source.len();
        prop_assert!(Redistribution::new(&source, workers).staging_lines() <= 9 * workers);
        let whole = |columns: &[usize]| {
            columns.iter().map(|c| (c * n..(c + 1) * n).collect()).collect::<Vec<Vec<_>>>()
        };
        let identity: Vec<_> = (0..n).collect();
        prop_assert_eq!(moved(&source, &identity, ranks, workers), whole(&source));
        let mut back = vec![0; n];
        source.iter().enumerate().for_each(|(position, &from)| back[from] = position);
        prop_assert_eq!(moved(&back, &source, ranks, workers), whole(&identity));
        Ok(())
    });
}
