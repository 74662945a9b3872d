//! Changes the distribution of the columns in place, by whole columns: block to block-cyclic and
//! back.
//!
//! It follows the permutation cycle by cycle: `column[p0] <- column[p1] <- ...`. One worker moves a
//! short cycle and saves one column. A long cycle, possibly the only one, is cut into chains. The
//! workers first save the first column of every chain; then all chains move at once, and each ends
//! with a saved column. Scratch: one column per worker and one per chain, a few per worker in all.

use std::iter::once;

use crate::comm::Step;
use crate::device::Backend;
use crate::matrix::{Cells, Matrix};
use crate::scalar::Scalar;

/// Consecutive positions of a cut cycle. Each takes the column of the next one. The last takes the
/// saved first column of chain `successor`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    positions: Vec<usize>,
    successor: usize,
}

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
    /// The moves that bring the column at position `source[p]` to position `p`, for `workers`
    /// workers. Positions count columns through the shards in rank order.
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

    /// Gives each worker about as many columns. Neighbours stay together: cycles whose columns are
    /// all adjacent can move as one.
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
        self.chains.last_mut().expect("a cycle has columns").successor = first;
    }

    /// The number of columns of scratch.
    pub fn staging_columns(&self) -> usize {
        self.workers + self.chains.len()
    }

    /// The most lists of columns that a worker shifts at a time, and the most columns in these
    /// lists.
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

/// One worker's part of moving `a` by `plan`. `staging` holds `plan.staging_columns()` columns. All
/// workers meet at its end.
pub fn redistribute<'p, T: Scalar, B: Backend<T>>(
    worker: &mut B,
    a: &'p Matrix<T>,
    plan: &'p Redistribution,
    staging: Cells<T>,
) -> Step {
    assert_eq!(plan.workers, worker.workers(), "a plan for as many workers as there are");
    let (index, workers) = (worker.worker(), plan.workers);
    let slot = |i: usize| staging.sub(0, i, staging.rows(), 1);
    let saved = |chain: usize| slot(workers + chain);
    let columns = |positions: &'p [usize]| positions.iter().map(|&p| a.column_at(p));
    let mine = (index..plan.chains.len()).step_by(workers);
    let first = |c: usize| a.column_at(plan.chains[c].positions[0]);
    worker.shift_columns(mine.clone().map(|c| [saved(c), first(c)].into_iter()), None);
    worker.barrier()?;
    let chain = |chain: &'p Chain| columns(&chain.positions).chain(once(saved(chain.successor)));
    worker.shift_columns(mine.map(|c| chain(&plan.chains[c])), None);
    let cycles = plan.cycles_of(index).iter();
    worker.shift_columns(cycles.map(|cycle| columns(cycle)), Some(slot(index)));
    worker.barrier()
}
