//! Norms and diagonals over processes.

use super::sides::Sides;
use super::{Part, elements};
use crate::algorithms::condition::{Estimator, Next, block};
use crate::device::Op;
use crate::error::Result;
use crate::processes::Grid;
use crate::routines::solver::options::{Norm, Rhs};
use crate::scalar::{Scalar, larger};

impl<T: Scalar> Part<T> {
    /// Finds a norm of A; with `upper` of a Hermitian A that has only that triangle, or only the lower
    /// one. The identity corner that pads A does not count.
    pub(super) fn find_norm(&mut self, grid: &Grid, norm: Norm, upper: Option<bool>) -> Result<()> {
        let (n, local, order, me) =
            (self.n(), self.order.local(), self.unpadded(), grid.ranks.rank());
        // SAFETY: operand or result of the call, which nothing else writes until the reply.
        let a = unsafe { elements::<T>(self.columns()) };
        let by_rows = self.is_by_rows();
        let at = |i: usize, j: usize| if by_rows { a[i * local + j] } else { a[j * n + i] };
        // Entries of B that count: its lower triangle is the upper one of A by rows.
        let lower = upper.map(|upper| upper == self.is_transpose());
        let counts = |i: usize, j: usize| match lower {
            None => true,
            Some(true) => i >= j,
            Some(false) => i <= j,
        };
        let sums_columns = (norm == Norm::One) != self.is_transpose();
        let (mut columns, mut rows) = (vec![0.0; order], vec![0.0; order]);
        let (mut largest, mut is_finite) = (0.0f64, 1.0);
        for j in 0..local {
            let column = self.order.column(me, j);
            for i in 0..if column < order { order } else { 0 } {
                if !counts(i, column) {
                    continue;
                }
                // The diagonal of a Hermitian matrix is real.
                let is_real = lower.is_some() && i == column;
                let entry = at(i, j);
                let size = if is_real { entry.parts().0.abs() } else { entry.modulus() };
                largest = larger(largest, size);
                columns[column] += size;
                if lower.is_some() && i != column {
                    columns[i] += size;
                }
                rows[i] += size;
            }
        }
        if !largest.is_finite() {
            is_finite = 0.0;
        }
        let all = grid.ranks.gather([largest, is_finite])?;
        self.is_finite = all.iter().all(|[_, finite]| *finite > 0.0);
        largest = all.iter().fold(0.0, |most, [size, _]| larger(most, *size));
        if norm == Norm::Frobenius {
            self.norm = self.root_of_squares(grid, largest, &at)?;
            return Ok(());
        }
        let mut sums = if sums_columns || lower.is_some() { columns } else { rows };
        if order > 0 {
            grid.ranks.sum(&mut sums)?;
        }
        self.norm = sums.into_iter().fold(0.0, larger);
        Ok(())
    }

    /// The root of the sum of the squares of all entries, none of which is larger than `largest`.
    fn root_of_squares(
        &self,
        grid: &Grid,
        largest: f64,
        at: &impl Fn(usize, usize) -> T,
    ) -> Result<f64> {
        if largest == 0.0 || !largest.is_finite() {
            return Ok(largest);
        }
        let (order, me) = (self.unpadded(), grid.ranks.rank());
        let own = (0..self.order.local()).filter(|&j| self.order.column(me, j) < order);
        let square = |(i, j)| {
            let (re, im) = at(i, j).parts();
            (re / largest).powi(2) + (im / largest).powi(2)
        };
        let squares = own.map(|j| (0..order).map(|i| square((i, j))).sum::<f64>()).sum();
        let mut sum = [squares];
        grid.ranks.sum(&mut sum)?;
        Ok(largest * sum[0].sqrt())
    }

    /// The diagonal of B, from the first entry to the last, on every process.
    pub(super) fn diagonal(&self, grid: &Grid) -> Result<Vec<T>> {
        let mut parts = vec![0.0; 2 * self.n()];
        for (row, entry) in self.own_diagonal(grid) {
            (parts[2 * row], parts[2 * row + 1]) = entry.parts();
        }
        grid.ranks.sum(&mut parts)?;
        Ok(parts.chunks_exact(2).map(|of| T::of_parts(of[0], of[1])).collect())
    }

    /// The entries that this process has, by row.
    fn own_diagonal(&self, grid: &Grid) -> impl Iterator<Item = (usize, T)> {
        let (n, local, me) = (self.n(), self.order.local(), grid.ranks.rank());
        // SAFETY: operand or result of the call, which nothing else writes until the reply.
        let a = unsafe { elements::<T>(self.columns()) };
        let by_rows = self.is_by_rows();
        (0..local).map(move |j| {
            let row = self.order.column(me, j);
            (row, if by_rows { a[row * local + j] } else { a[j * n + row] })
        })
    }

    /// The number, from 1 on, of the first entry of the diagonal that is `unusable`, or `info` if that is
    /// less; 0 if there is neither. All processes get the least of all.
    pub(super) fn first(
        &self,
        grid: &Grid,
        info: usize,
        unusable: impl Fn(T) -> bool,
    ) -> Result<usize> {
        let found = self.own_diagonal(grid).find(|(_, entry)| unusable(*entry));
        let found = found.map_or(0, |(row, _)| row + 1);
        let all = grid.ranks.gather([info as f64, found as f64])?;
        let reported = all.into_iter().flatten().filter(|&info| info > 0.0);
        Ok(reported.reduce(f64::min).unwrap_or(0.0) as usize)
    }

    /// Estimates the condition of A from its norm, and from solves with A and A^H.
    pub(super) fn find_condition(
        &mut self,
        grid: &Grid,
        solve: impl Fn(&mut Self, &Grid, Op, Sides<T>) -> Result<()>,
    ) -> Result<()> {
        let (order, rows) = (self.unpadded(), self.m());
        if order == 0 || !(self.norm.is_finite() && self.norm > 0.0) {
            return Ok(());
        }
        // All processes have the same solutions, so the same estimate.
        let (mut estimator, k) = (Estimator::<T>::new(order), block(order));
        let mut x = vec![T::ZERO; rows * k];
        let mut next = estimator.start(self.norm);
        while next != Next::Done {
            let (vectors, padding) = x.split_at_mut(order * k);
            vectors.copy_from_slice(estimator.vectors());
            padding.fill(T::ZERO);
            let op = if next == Next::Solve { Op::None } else { Op::Adjoint };
            solve(self, grid, op, Sides { x: &mut x, k, rhs: Rhs::Replicated })?;
            estimator.vectors().copy_from_slice(&x[..order * k]);
            next = estimator.advance();
        }
        let condition = estimator.estimate();
        self.rcond = if condition > 0.0 { 1.0 / condition } else { 0.0 };
        Ok(())
    }
}
