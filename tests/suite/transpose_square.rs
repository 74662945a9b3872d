//! A square matrix transposed in place across its shards, against the definition, bit for bit.

use std::marker::PhantomData;

use crate::common::workers::on_workers;
use crate::transposition::{Guarded, Random, fill, transposed};
use meshsolve::comm::{Comm, Communicator};

use meshsolve::layout::{Distribution, Mapping};
use meshsolve::matrix::{Cells, DistMatrix};
use meshsolve::scalar::Scalar;

const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// Shards in separate memory with canaries around each, not in the order of their ranks. Addresses
/// are multiples of only the element size.
struct Shards<T> {
    memory: Vec<Guarded>,
    distribution: Distribution,
    of: PhantomData<T>,
}

impl<T: Scalar> Shards<T> {
    fn new(n: usize, ranks: usize, content: &[u8]) -> Self {
        let (size, bytes) = (size_of::<T>(), content.len() / ranks);
        let shift = |rank: usize| (3 * rank + 1) * size % 64;
        let mut memory: Vec<_> =
            (0..ranks).rev().map(|rank| Guarded::new(bytes, shift(rank))).collect();
        memory.reverse();
        for (rank, shard) in memory.iter_mut().enumerate() {
            shard.content().copy_from_slice(&content[rank * bytes..][..bytes]);
        }
        // The cut into tile columns has no effect.
        let distribution = Distribution::whole_columns((n, n), ranks, 5, Mapping::Block);
        Shards { memory, distribution, of: PhantomData }
    }

    fn transpose(&mut self, workers: usize) {
        let (n, local) = self.distribution.shard();
        let shards = self.memory.iter_mut().map(|shard| {
            let content: &mut [T] = bytemuck::cast_slice_mut(shard.content());
            Cells::of(content).by_columns(n, local, n)
        });
        let matrix = DistMatrix::new(shards.collect(), &self.distribution);
        let comm = Communicator::new(workers);
        on_workers::<T>(&comm, 1, |worker| worker.transpose_square(&matrix).unwrap());
    }

    /// The contents of all shards, one after another.
    fn content(&mut self) -> Vec<u8> {
        self.memory.iter().for_each(Guarded::check);
        self.memory.iter_mut().flat_map(|shard| shard.content().to_vec()).collect()
    }
}

fn check<T: Scalar>(n: usize, ranks: usize, workers: usize) {
    let size = size_of::<T>();
    let mut random = Random(88172645463325252 + (n * 100 + ranks) as u64);
    let mut before = vec![0; n * n * size];
    fill(&mut before, size, &mut random);
    let mut shards = Shards::<T>::new(n, ranks, &before);
    let name = format!("{n} x {n} of {size} bytes in {ranks} shards by {workers} workers");
    shards.transpose(workers);
    assert!(shards.content() == transposed(&before, n, n, size), "{name}");
    shards.transpose(workers);
    assert!(shards.content() == before, "{name}, twice");
}

fn check_sizes(n: usize, ranks: usize) {
    for workers in 1..=3 {
        f64_and_c64! {
            check::<f64>(n, ranks, workers);
            check::<faer::c32>(n, ranks, workers);
        }
        f32_and_c128! {
            check::<f32>(n, ranks, workers);
            check::<faer::c64>(n, ranks, workers);
        }
    }
}

#[test]
fn small_shards_exhaustively() {
    for ranks in RANKS {
        (0..=48 / ranks.min(4)).for_each(|columns| check_sizes(columns * ranks, ranks));
    }
}

/// Shards as wide as chips, tiles and fields of tiles, and one column more or less.
#[test]
fn around_chips_and_tiles() {
    for ranks in RANKS {
        for edge in [16usize, 32, 64] {
            (edge - 1..=edge + 1).for_each(|columns| check_sizes(columns * ranks, ranks));
        }
    }
    for (n, ranks) in [(511, 1), (512, 1), (513, 1), (514, 2), (516, 3), (1028, 2), (1040, 8)] {
        check::<f64>(n, ranks, 2);
        check::<faer::c64>(n, ranks, 3);
        check::<f32>(2 * n, ranks, 3);
    }
}

/// Only ragged tiles, whose places within the matrix differ from shard to shard.
#[test]
fn prime_widths() {
    for (prime, ranks) in [7, 13, 37, 61, 101].into_iter().flat_map(|p| RANKS.map(|r| (p, r))) {
        check_sizes(prime * ranks, ranks);
    }
}

/// Workers beyond the number of tiles have no work and still meet the others.
#[test]
fn more_workers_than_tiles() {
    for n in [0, 1, 2, 40] {
        check::<f64>(n, 1, 16);
    }
}
