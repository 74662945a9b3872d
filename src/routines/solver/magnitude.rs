//! The magnitude of the numbers, which decides whether workers keep subnormal ones.

use super::job::Solver;
use crate::algorithms::owned_from;
use crate::comm::Step;
use crate::device::{Moduli, Worker};
use crate::layout::TileColumn;
use crate::scalar::Scalar;

/// Whether quantities of this magnitude lose digits when subnormal numbers are flushed.
pub fn near_underflow<T: Scalar>(magnitude: f64) -> bool {
    magnitude > 0.0 && magnitude < T::NEAR_UNDERFLOW
}

/// The same for the quantities of an inversion: A and A^-1, by their least sizes.
pub fn inverse_near_underflow<T: Scalar>(a: f64) -> bool {
    near_underflow::<T>(a) || 1.0 < T::NEAR_UNDERFLOW * a
}

/// The same for the quantities of a solve: A, b, y = L^-1 b and x = A^-1 b, by their least sizes b,
/// b / sqrt(a) and b / a. It does not compute these, because they could be flushed themselves.
pub fn solution_near_underflow<T: Scalar>(a: f64, b: f64) -> bool {
    let least = a.sqrt().max(a).max(1.0);
    near_underflow::<T>(a) || b > 0.0 && b < T::NEAR_UNDERFLOW * least
}

impl<T: Scalar> Solver<T> {
    /// The largest entry on the diagonal, without padding; 0 where workers do not flush.
    pub fn largest_on_diagonal<W: Worker<T>>(&self, worker: &mut W) -> Step<f64> {
        if !W::FLUSHES {
            return Ok(0.0);
        }
        let a = self.a(worker);
        let mut of_tile = |t: TileColumn| {
            let diagonal = a.diagonal(t).diagonal();
            let rows = self.unpadded().saturating_sub(a.columns().tile(t).global.get());
            worker.largest(diagonal.sub(0, 0, rows.min(diagonal.rows()), 1))
        };
        a.columns().each().try_fold(0.0, |most, t| Ok(f64::max(most, of_tile(t)?)))
    }

    /// Reports the first entry on the diagonal that is zero or not finite, if there is one. Each
    /// worker looks at all that it reaches; ranks meet at its end. So all know the same.
    pub fn check_diagonal<W: Worker<T>>(&self, worker: &mut W) -> Step {
        let a = self.a(worker);
        let (columns, index) = (a.columns(), worker.worker());
        for t in columns.each().filter(|&t| !W::IS_RANK || columns.tile(t).rank == index) {
            let diagonal = a.diagonal(t).diagonal();
            let mut entries = vec![T::ZERO; diagonal.rows()];
            worker.get(diagonal, &mut entries)?;
            let unusable = |entry: &T| *entry == T::ZERO || !entry.is_number();
            if let Some(i) = entries.iter().position(unusable) {
                worker.report(columns.tile(t).global.get() + i + 1, entries[i]);
            }
        }
        if W::IS_RANK { worker.barrier() } else { Ok(()) }
    }

    /// The largest of all entries, without padding; 0 where workers do not flush. All workers meet
    /// at its end.
    pub fn largest<W: Worker<T>>(&self, worker: &mut W) -> Step<f64> {
        let mut largest = 0.0f64;
        if !W::FLUSHES {
            worker.barrier()?;
            return Ok(largest);
        }
        let a = self.a(worker);
        for t in owned_from(worker, a.columns(), TileColumn::new(0)) {
            let (tile, column) = (a.columns().tile(t), a.tile_column(t));
            let cols = self.unpadded().saturating_sub(tile.global.get()).min(tile.width);
            let part = column.sub(0, 0, self.unpadded(), cols);
            largest = largest.max(worker.span("largest entry", None, |w| w.largest(part))?);
        }
        Ok(self.find(worker, Moduli { entry: largest, ..Moduli::default() })?.entry)
    }

    /// The order of A without its padding.
    pub(super) fn unpadded(&self) -> usize {
        self.leading().1
    }

    /// Rows and columns of the solver's matrix without its padding.
    pub(super) fn leading(&self) -> (usize, usize) {
        let order = self.options.unpadded.unwrap_or(usize::MAX);
        (order.min(self.problem.m), order.min(self.problem.n))
    }
}
