//! Natural to block-cyclic column order in place, by whole columns.
//!
//! The permutation is followed cycle by cycle: `column[p0] <- column[p1] <- ...`. A cycle would be one
//! thread's work, and there may be only one; so cycles are cut into chains of similar length. The
//! first column of every chain is saved before anything moves; then all chains move at once, each
//! ending with a saved column. Scratch: one column per chain.

use crate::backend::{Backend, Step};
use crate::layout::Columns;
use crate::matrix::{Block, Matrix};
use crate::scalar::Scalar;

/// Consecutive positions of a cycle: each takes the column of the next one, the last one takes the
/// column that was saved from the start of chain `successor`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    positions: Vec<usize>,
    successor: usize,
}

/// What moves where; pure integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    chains: Vec<Chain>,
}

impl Plan {
    /// The moves that bring columns from natural order to that of `columns`, for about `parallel`
    /// lanes.
    pub fn new(columns: &Columns, parallel: usize) -> Self {
        let source = columns.source();
        let moved = source.iter().enumerate().filter(|(p, s)| p != *s).count();
        let longest = moved.div_ceil(4 * parallel.max(1)).max(1);
        let mut chains: Vec<Chain> = Vec::new();
        let mut seen = vec![false; source.len()];
        for start in 0..source.len() {
            if seen[start] || source[start] == start {
                continue;
            }
            let first_chain = chains.len();
            let mut position = start;
            while !seen[position] {
                let mut positions = Vec::new();
                while !seen[position] && positions.len() < longest {
                    seen[position] = true;
                    positions.push(position);
                    position = source[position];
                }
                chains.push(Chain { positions, successor: chains.len() + 1 });
            }
            chains.last_mut().expect("a cycle has a chain").successor = first_chain;
        }
        Plan { chains }
    }

    /// Columns of scratch.
    pub fn staging_columns(&self) -> usize {
        self.chains.len()
    }
}

/// One lane's part of moving `a` as `plan` says; `staging` holds `plan.staging_columns()` columns.
/// Afterwards all lanes have met.
pub fn redistribute<T: Scalar, B: Backend<T>>(
    lane: &mut B,
    a: &Matrix<T>,
    plan: &Plan,
    staging: Block<T>,
) -> Step {
    let mine = (lane.lane()..plan.chains.len()).step_by(lane.lanes());
    let saved = |chain: usize| staging.sub(0, chain, staging.rows, 1);
    for c in mine.clone() {
        lane.copy(a.column_at(plan.chains[c].positions[0]), saved(c));
    }
    lane.barrier()?;
    for c in mine {
        let chain = &plan.chains[c];
        for pair in chain.positions.windows(2) {
            lane.copy(a.column_at(pair[1]), a.column_at(pair[0]));
        }
        let last = chain.positions[chain.positions.len() - 1];
        lane.copy(saved(chain.successor), a.column_at(last));
    }
    lane.barrier()
}
