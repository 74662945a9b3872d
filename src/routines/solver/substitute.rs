//! Solves with a factor or a triangle. All workers share a few right-hand sides; many are
//! distributed to them.

use super::job::Solver;
use super::magnitude::solution_near_underflow;
use super::operands::Problem;
use super::options::Rhs;
use crate::algorithms::lu::Interchange;
use crate::algorithms::triangular::Triangular;
use crate::comm::Step;
use crate::device::{Op, Triangle, Worker};
use crate::layout::GlobalRow;
use crate::matrix::{Blocks, Cells, DistMatrix};
use crate::scalar::Scalar;

impl<T: Scalar> Solver<T> {
    /// Solves for all right-hand sides with triangular solves; `scale` is the magnitude of A.
    pub fn solve<W: Worker<T>>(
        &self,
        worker: &mut W,
        sweeps: &[(Triangle, Op)],
        interchange: Option<Interchange>,
        scale: f64,
    ) -> Step {
        let n = self.problem.n;
        let magnitude = |worker: &mut W, x| if W::FLUSHES { worker.largest(x) } else { Ok(0.0) };
        match self.options.rhs {
            Rhs::Replicated => {
                let (sums, x) = (
                    self.sums(worker.worker()),
                    self.replicated(worker.worker(), |rank| self.x_block(rank)),
                );
                let rhs_scale = magnitude(worker, x.own())?;
                // Every worker must read b before any worker overwrites it.
                worker.barrier()?;
                worker.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                self.solve_shared(worker, &self.a(worker), &x, &sums, sweeps, interchange)?;
            }
            Rhs::Columns => {
                let a = self.a(worker);
                let sweep = |&(triangle, op): &(Triangle, Op)| Triangular { a: &a, triangle, op };
                let sweeps: Vec<_> = sweeps.iter().map(sweep).collect();
                for (rank, first, width) in self.groups(worker) {
                    let x = self.x_block(rank).sub(0, first, n, width);
                    let rhs_scale = magnitude(worker, x)?;
                    worker.keep_subnormals(solution_near_underflow::<T>(scale, rhs_scale));
                    self.interchange(worker, x, interchange, Interchange::Before);
                    sweeps.iter().try_for_each(|sweep| sweep.solve_columns(worker, x))?;
                    self.interchange(worker, x, interchange, Interchange::After);
                }
            }
        }
        worker.barrier()
    }

    /// Every worker's partial sums for a few right-hand sides.
    pub fn sums(&self, me: usize) -> Blocks<'_, T> {
        let Problem { n, rhs, .. } = self.problem;
        self.own_blocks(me, 0, n * rhs).part(|one| one.by_rows(n, rhs))
    }

    /// The groups of right-hand sides of a worker: (rank, first column, columns).
    pub fn groups<W: Worker<T>>(&self, worker: &W) -> Vec<(usize, usize, usize)> {
        let (ranks, rhs, group) = (self.problem.ranks(), self.problem.rhs, self.sizes.group);
        let groups = rhs.div_ceil(group);
        let part = |g: usize| {
            let first = g % groups * group;
            (g / groups, first, group.min(rhs - first))
        };
        let (index, all) = (worker.worker(), ranks * groups);
        if W::IS_RANK {
            (index * groups..(index + 1) * groups).map(part).collect()
        } else {
            (index..all).step_by(worker.workers()).map(part).collect()
        }
    }

    /// Solves for x with all workers, by triangles of `a`. Each then has the solution in its block;
    /// where workers share memory, worker 0 has it.
    pub(super) fn solve_shared(
        &self,
        worker: &mut impl Worker<T>,
        a: &DistMatrix<T>,
        x: &Blocks<T>,
        sums: &Blocks<T>,
        sweeps: &[(Triangle, Op)],
        interchange: Option<Interchange>,
    ) -> Step {
        let interchanges = self.has_copy(worker);
        if interchanges {
            self.interchange(worker, x.own(), interchange, Interchange::Before);
        }
        for &(triangle, op) in sweeps {
            Triangular { a, triangle, op }.solve_shared(worker, x, sums)?;
        }
        worker.all_gather(x, a.columns(), a.columns().each())?;
        if interchanges {
            self.interchange(worker, x.own(), interchange, Interchange::After);
        }
        Ok(())
    }

    pub(super) fn interchange(
        &self,
        worker: &mut impl Worker<T>,
        x: Cells<T>,
        wanted: Option<Interchange>,
        now: Interchange,
    ) {
        if wanted == Some(now) {
            let pivots = self.pivots_of(worker.worker());
            worker.swap_rows(x, GlobalRow::new(0), pivots, now == Interchange::After);
        }
    }
}
