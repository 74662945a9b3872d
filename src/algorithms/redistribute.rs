//! Changes the mapping of the columns or rows in place, by whole lines of the shards: block to
//! block-cyclic and back.
//!
//! It follows the permutation cycle by cycle: `line[p0] <- line[p1] <- ...`. One worker moves a short
//! cycle and saves one line. A long cycle, possibly the only one, is cut into chains. The workers
//! first save the first line of every chain; then all chains move at once, and each ends with a
//! saved line. Scratch: one line per worker and one per chain, a few per worker in all.

use std::iter::once;

use crate::comm::Step;
use crate::device::Worker;
use crate::matrix::{Blocks, DistMatrix, Remote};
use crate::scalar::Scalar;

/// Consecutive positions of a cut cycle. Each takes the line of the next one. The last takes the
/// saved first line of chain `successor`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    positions: Vec<usize>,
    successor: usize,
}

/// The most lines of scratch of each worker. Cycles are cut into pieces of at least a quarter of a
/// worker's share of the lines. So there are no more than four chains for each worker, and no more
/// cut cycles, whose last chains may be shorter.
pub const MOST_STAGING_LINES: usize = 1 + 4 + 4;

/// The moves, as pure integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redistribution {
    workers: usize,
    cycles: Vec<Vec<usize>>,
    /// The first cycle of each worker, and the end of the last worker's cycles.
    begins: Vec<usize>,
    chains: Vec<Chain>,
}

impl Redistribution {
    /// The moves that bring the line at position `source[p]` to position `p`, for `workers` workers.
    /// Positions count through the shards in rank order.
    pub fn new(source: &[usize], workers: usize) -> Self {
        let moved = source.iter().enumerate().filter(|(p, s)| p != *s).count();
        let longest = moved.div_ceil(4 * workers).max(1);
        let mut plan =
            Redistribution { workers, cycles: Vec::new(), begins: Vec::new(), chains: Vec::new() };
        let mut seen = vec![false; source.len()];
        for start in 0..source.len() {
            if seen[start] || source[start] == start {
                continue;
            }
            let follow = |&p: &usize| Some(source[p]).filter(|&next| next != start);
            let cycle: Vec<usize> = std::iter::successors(Some(start), follow).collect();
            cycle.iter().for_each(|&p| seen[p] = true);
            if cycle.len() <= longest {
                plan.cycles.push(cycle);
            } else {
                plan.cut(&cycle, longest);
            }
        }
        plan.distribute();
        plan
    }

    /// Gives each worker about as many lines. Neighbours stay together: cycles whose columns are all
    /// adjacent can move as one.
    fn distribute(&mut self) {
        let total: usize = self.cycles.iter().map(Vec::len).sum();
        let mut before = 0;
        for (i, cycle) in self.cycles.iter().enumerate() {
            while self.begins.len() < self.workers
                && before * self.workers >= self.begins.len() * total
            {
                self.begins.push(i);
            }
            before += cycle.len();
        }
        self.begins.resize(self.workers + 1, self.cycles.len());
    }

    fn cycles_of(&self, worker: usize) -> &[Vec<usize>] {
        &self.cycles[self.begins[worker]..self.begins[worker + 1]]
    }

    fn cut(&mut self, cycle: &[usize], longest: usize) {
        let first = self.chains.len();
        for piece in cycle.chunks(longest) {
            let successor = self.chains.len() + 1;
            self.chains.push(Chain { positions: piece.to_vec(), successor });
        }
        self.chains.last_mut().expect("a cycle has lines").successor = first;
    }

    /// The number of lines of scratch of each worker.
    pub fn staging_lines(&self) -> usize {
        1 + self.chains.len().div_ceil(self.workers)
    }

    /// The most lists of lines that a worker shifts at a time, and the most lines in these lists.
    pub fn most_lists(&self) -> (usize, usize) {
        let all = (0..self.workers).flat_map(|worker| {
            let chains = self.chains.iter().skip(worker).step_by(self.workers);
            let chains: Vec<_> = chains.map(|chain| chain.positions.len() + 1).collect();
            let cycles: Vec<_> = self.cycles_of(worker).iter().map(Vec::len).collect();
            [chains, cycles].map(|lengths| (lengths.len(), lengths.iter().sum()))
        });
        all.fold((0, 0), |most, one: (_, usize)| (most.0.max(one.0), most.1.max(one.1)))
    }
}

/// One worker's part of moving the columns of `a` by `plan`, in each row of the grid. `staging` are
/// `plan.staging_lines()` columns of a shard for each worker. All workers meet at its end.
pub fn redistribute_columns<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    plan: &Redistribution,
    staging: &Blocks<T>,
) -> Step {
    let mut rows = 0..a.distribution().grid().rows();
    rows.try_for_each(|row| move_lines(worker, |p| a.remote_column(row, p), plan, staging))
}

/// The same for rows, in each column of the grid. `staging` are rows of a shard, as columns.
pub fn redistribute_rows<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    a: &DistMatrix<T>,
    plan: &Redistribution,
    staging: &Blocks<T>,
) -> Step {
    let mut columns = 0..a.distribution().grid().columns();
    columns.try_for_each(|column| move_lines(worker, |p| a.remote_row(column, p), plan, staging))
}

fn move_lines<'p, T: Scalar, W: Worker<T>>(
    worker: &mut W,
    line: impl Fn(usize) -> Remote<'p, T> + Copy,
    plan: &'p Redistribution,
    staging: &'p Blocks<'p, T>,
) -> Step {
    assert_eq!(plan.workers, worker.workers(), "a plan for as many workers as there are");
    let (index, workers) = (worker.worker(), plan.workers);
    // A worker has a line to move cycles by, and one for each of its chains.
    let saved = |chain: usize| staging.of(chain % workers).column(1 + chain / workers);
    let mine = (index..plan.chains.len()).step_by(workers);
    let first = |c: usize| line(plan.chains[c].positions[0]);
    worker.exchange_columns(mine.clone().map(|c| [saved(c), first(c)].into_iter()), None);
    worker.barrier()?;
    let lines = |positions: &'p [usize]| positions.iter().map(move |&p| line(p));
    let chain = |chain: &'p Chain| lines(&chain.positions).chain(once(saved(chain.successor)));
    worker.exchange_columns(mine.map(|c| chain(&plan.chains[c])), None);
    let cycles = plan.cycles_of(index).iter();
    let spare = staging.own().column(0);
    worker.exchange_columns(cycles.map(|cycle| lines(cycle)), Some(spare));
    worker.barrier()
}
