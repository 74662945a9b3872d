//! Moves from the caller's memory to the solver's form and back.

use super::job::Solver;
use super::options::{Options, Structure};
use super::routine::Family;
use super::sizes::Moves;
use crate::algorithms::mirror::{Missing, mirror_triangle};
use crate::algorithms::redistribute::{redistribute_columns, redistribute_rows};
use crate::call::Call;
use crate::comm::Step;
use crate::device::{Op, Worker};
use crate::matrix::DistMatrix;
use crate::scalar::Scalar;

impl<T: Scalar> Solver<T> {
    /// Copies operands to results where XLA has not aliased them.
    pub(super) fn start_results(&self, worker: &mut impl Worker<T>) -> Step {
        let rets = self.options.routine.signature.rets.iter().enumerate();
        let pairs: Vec<_> = rets.filter_map(|(ret, slot)| Some((slot.from?, ret))).collect();
        let aliased = |c: &Call| pairs.iter().all(|&(arg, ret)| c.is_aliased(arg, ret));
        if self.calls.iter().all(aliased) {
            return Ok(());
        }
        for call in self.calls.iter().skip(worker.worker()).step_by(worker.workers()) {
            for &(arg, ret) in pairs.iter().filter(|&&(arg, ret)| !call.is_aliased(arg, ret)) {
                // All of these are matrices.
                let (from, to) = (call.args[arg].by_rows(), call.rets[ret].by_rows());
                worker.span("copy", None, |w| w.copy(from, to));
            }
        }
        worker.barrier()
    }

    /// From the caller's memory to B, with the needed triangle present and columns in the order of
    /// work.
    pub(super) fn arrange(&self, worker: &mut impl Worker<T>) -> Step {
        let a = self.a(worker);
        self.transpose(worker, &a, &self.sizes.arrange)?;
        let Options { routine, storage, lower, structure, .. } = self.options;
        if routine.family.reads_lower_half() && storage.mirrors(lower) {
            self.mirror(worker, Missing::Lower, true)?;
        }
        if routine.family == Family::Lu && structure != Structure::General {
            let conjugated = structure == Structure::Hermitian;
            self.mirror(worker, self.missing(), conjugated)?;
        }
        self.redistribute(worker, &a, &self.sizes.arrange)
    }

    /// The reverse. It also restores the caller's triangle and shards.
    pub(super) fn restore(&self, worker: &mut impl Worker<T>) -> Step {
        let answer = self.answer(worker);
        self.redistribute(worker, &answer, &self.sizes.restore)?;
        if self.options.routine.gives_eigenvectors() {
            self.turn_eigenvectors(worker, &answer)?;
        }
        let Options { routine, storage, lower, .. } = self.options;
        if routine.family == Family::Cholesky && !routine.inverts() && storage.mirrors(lower) {
            self.mirror(worker, Missing::Upper, true)?;
        }
        self.transpose(worker, &answer, &self.sizes.restore)
    }

    fn transpose(&self, worker: &mut impl Worker<T>, a: &DistMatrix<T>, moves: &Moves) -> Step {
        if let Some(turn) = &moves.turn {
            let (index, ranks) = (worker.worker(), self.problem.ranks());
            let (own, shared) = (self.own_scratch(index), self.shared_scratch(index));
            worker.transpose_shards(turn, ranks, |rank| a.shard(rank), own, shared)?;
        }
        if self.options.routine.upright && self.options.storage.is_transpose() {
            worker.transpose_square(a)?;
        }
        Ok(())
    }

    pub(super) fn redistribute(
        &self,
        worker: &mut impl Worker<T>,
        a: &DistMatrix<T>,
        moves: &Moves,
    ) -> Step {
        let (m, n) = self.sizes.distribution.shard();
        let me = worker.worker();
        let staging = |lines: usize, length| {
            let blocks = self.own_blocks(me, 0, lines * length);
            blocks.part(|one| one.by_columns(length, lines, length))
        };
        if let Some(columns) = &moves.columns {
            redistribute_columns(worker, a, columns, &staging(columns.staging_lines(), m))?;
        }
        if let Some(rows) = &moves.rows {
            redistribute_rows(worker, a, rows, &staging(rows.staging_lines(), n))?;
        }
        Ok(())
    }

    /// Makes a triangle of B from the other one, before or after redistribution.
    fn mirror(&self, worker: &mut impl Worker<T>, missing: Missing, conjugated: bool) -> Step {
        let block = self.sizes.distribution.in_block_mapping();
        let a = self.a(worker);
        mirror_triangle(worker, &a.with_distribution(&block), missing, conjugated)
    }

    /// The triangle of the solver's matrix that is not given, if only one is.
    pub fn missing(&self) -> Missing {
        let Options { routine, storage, lower, .. } = self.options;
        let flipped = storage.is_transpose() && !routine.upright;
        if lower == flipped { Missing::Lower } else { Missing::Upper }
    }
}

impl Options {
    /// op(A) as an operation on the solver's matrix. By rows that is A^T unless `upright` has
    /// transposed it.
    pub fn op_on_b(&self, op: Op) -> Op {
        let Options { routine, storage, .. } = *self;
        match op {
            op if routine.upright || !storage.is_transpose() => op,
            Op::None => Op::Transpose,
            Op::Transpose => Op::None,
            Op::Adjoint => Op::Conjugate,
            Op::Conjugate => Op::Adjoint,
        }
    }
}
