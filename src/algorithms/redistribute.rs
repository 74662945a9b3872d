//! From one order of the columns to another in place, by whole columns: natural to block-cyclic and
//! back.
//!
//! The permutation is followed cycle by cycle: `column[p0] <- column[p1] <- ...`. A short cycle is one
//! lane's work and needs one saved column. A long one, and there may be only one, is cut into chains:
//! the first column of every chain is saved before anything moves, then all chains move at once, each
//! ending with a saved column. Scratch: one column per lane and one per chain, a few per lane in all.

use std::iter::once;

use crate::device::{Backend, Step};
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// Consecutive positions of a cut cycle: each takes the column of the next one, the last one takes
/// the column that was saved from the start of chain `successor`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    positions: Vec<usize>,
    successor: usize,
}

/// What moves where; pure integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    lanes: usize,
    cycles: Vec<Vec<usize>>,
    /// Where each lane's cycles begin, and where the last one's end.
    begins: Vec<usize>,
    chains: Vec<Chain>,
}

impl Plan {
    /// The moves that bring the column at position `source[p]` to position `p`, for `lanes` lanes;
    /// positions count columns through the shards in rank order.
    pub fn new(source: &[usize], lanes: usize) -> Self {
        let moved = source.iter().enumerate().filter(|(p, s)| p != *s).count();
        let longest = moved.div_ceil(4 * lanes).max(1);
        let mut plan = Plan { lanes, cycles: Vec::new(), begins: Vec::new(), chains: Vec::new() };
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
        plan.deal();
        plan
    }

    /// Gives each lane about as many columns. Neighbours stay together: cycles of columns that lie side by side
    /// everywhere can be moved as one.
    fn deal(&mut self) {
        let total: usize = self.cycles.iter().map(Vec::len).sum();
        let mut before = 0;
        for (i, cycle) in self.cycles.iter().enumerate() {
            while self.begins.len() < self.lanes && before * self.lanes >= self.begins.len() * total
            {
                self.begins.push(i);
            }
            before += cycle.len();
        }
        self.begins.resize(self.lanes + 1, self.cycles.len());
    }

    fn cycles_of(&self, lane: usize) -> &[Vec<usize>] {
        &self.cycles[self.begins[lane]..self.begins[lane + 1]]
    }

    fn cut(&mut self, cycle: &[usize], longest: usize) {
        let first = self.chains.len();
        for piece in cycle.chunks(longest) {
            let successor = self.chains.len() + 1;
            self.chains.push(Chain { positions: piece.to_vec(), successor });
        }
        self.chains.last_mut().expect("a cycle has columns").successor = first;
    }

    /// Columns of scratch.
    pub fn staging_columns(&self) -> usize {
        self.lanes + self.chains.len()
    }

    /// Lists of columns that a lane shifts at a time, at most, and columns in all of them.
    pub fn most_lists(&self) -> (usize, usize) {
        let all = (0..self.lanes).flat_map(|lane| {
            let chains = self.chains.iter().skip(lane).step_by(self.lanes);
            let chains: Vec<_> = chains.map(|chain| chain.positions.len() + 1).collect();
            let cycles: Vec<_> = self.cycles_of(lane).iter().map(Vec::len).collect();
            [chains, cycles].map(|lengths| (lengths.len(), lengths.iter().sum()))
        });
        all.fold((0, 0), |most, one: (_, usize)| (most.0.max(one.0), most.1.max(one.1)))
    }
}

/// One lane's part of moving `a` as `plan` says; `staging` holds `plan.staging_columns()` columns.
/// Afterwards all lanes have met.
pub fn redistribute<'p, T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &'p Matrix<T>,
    plan: &'p Plan,
    staging: Block<T>,
) -> Step {
    assert_eq!(plan.lanes, lane.lanes(), "a plan for as many lanes as there are");
    let (index, lanes) = (lane.lane(), plan.lanes);
    let slot = |i: usize| staging.sub(0, i, staging.rows, 1);
    let saved = |chain: usize| slot(lanes + chain);
    let columns = |positions: &'p [usize]| positions.iter().map(|&p| a.column_at(p));
    let mine = (index..plan.chains.len()).step_by(lanes);
    let first = |c: usize| a.column_at(plan.chains[c].positions[0]);
    lane.shift_columns(mine.clone().map(|c| [saved(c), first(c)].into_iter()), None);
    lane.barrier()?;
    let chain = |chain: &'p Chain| columns(&chain.positions).chain(once(saved(chain.successor)));
    lane.shift_columns(mine.map(|c| chain(&plan.chains[c])), None);
    let cycles = plan.cycles_of(index).iter();
    lane.shift_columns(cycles.map(|cycle| columns(cycle)), Some(slot(index)));
    lane.barrier()
}
