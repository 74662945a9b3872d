//! The memory that a part of a call needs in its process, from its sizes alone.

use super::factor;
use super::panels;
use crate::algorithms::condition::block;
use crate::layout::Storage;
use crate::processes::moves::{Cyclic, mirrored};
use crate::routines::solver::operands::Problem;
use crate::routines::solver::options::{Options, Rhs, Structure};
use crate::routines::solver::routine::{Family, Stage};
use crate::scalar::Scalar;

/// Elements of each memory of a `Part`.
pub struct Sizes {
    pub order: Cyclic,
    /// Of each buffer of moves.
    pub staged: usize,
    pub sides: [usize; 2],
    pub work: usize,
    pub reals: usize,
    pub pivots: usize,
    pub coefficients: usize,
}

impl Sizes {
    /// Of a problem in which each process has the place of a device.
    pub fn new<T: Scalar>(options: &Options, problem: &Problem) -> Sizes {
        let (&Problem { m, n, rhs, .. }, world) = (problem, problem.ranks());
        let routine = options.routine;
        // benchmarks/NOTES.md has the figures.
        let prefers_wide = routine.family == Family::Cholesky;
        let order = match routine.family.reads_only() {
            true => Cyclic { rows: m, columns: n, ranks: world, width: (n / world).max(1) },
            false => Cyclic::of_columns((m, n), world, prefers_wide),
        };
        let turns = options.storage.is_transpose() && routine.upright;
        let mirrors = options.structure != Structure::General
            || matches!(routine.family, Family::Cholesky | Family::Eigen);
        let moves = routine.takes_matrix() || routine.inverts() || routine.has(Stage::FormQ);
        let factors = routine.factors();
        let message = if factors { panels::elements::<T>(m, order.width) } else { 0 };
        let staged = match moves {
            _ if routine.has(Stage::CopyTriangle) => {
                Cyclic { rows: m.min(n), ..order }.staged::<T>()
            }
            true if turns || mirrors => order.staged::<T>().max(mirrored::<T>(n, world)),
            true => order.staged::<T>(),
            false => 0,
        };
        let staged = staged.max(message);
        let estimate = if routine.estimates_condition() { m * block(n).div_ceil(world) } else { 0 };
        let (sides, others) = match options.rhs {
            _ if !routine.has_rhs() => (0, 0),
            Rhs::Replicated => (m * rhs.div_ceil(world), m * rhs.div_ceil(world)),
            Rhs::Columns => (m * rhs, 0),
        };
        let (sides, others) = (sides.max(estimate), others.max(estimate));
        let copies = options.storage == Storage::Columns && routine.has(Stage::TriangularSolve);
        let work = match copies {
            true => n * order.local(),
            false if factors => {
                let columns = if routine.has(Stage::LuInverse) { n * order.width } else { 0 };
                columns.max(factor::threads(order.tiles()) * factor::scratch::<T>(order.width))
            }
            false if routine.has(Stage::LuInverse) => n * order.width,
            false if routine.has(Stage::Divide) && T::IS_COMPLEX => {
                (n + order.local() + order.width) * order.width + 2 * n
            }
            false if routine.has(Stage::Divide) => 2 * n * order.local() + 20 * n,
            false => 0,
        };
        let reals = match routine.has(Stage::Divide) && T::IS_COMPLEX {
            true => (3 * n * order.local() + 20 * n) / 2,
            false => 0,
        };
        Sizes {
            order,
            staged,
            sides: [sides, others],
            work,
            reals,
            // ScaLAPACK's row interchanges are a tile longer than the matrix.
            pivots: if routine.family == Family::Lu { n + order.width } else { 0 },
            coefficients: if routine.family == Family::Qr { m.min(n) } else { 0 },
        }
    }

    /// Bytes of what the call needs but for pivots and coefficients.
    pub fn scratch_bytes<T: Scalar>(&self) -> usize {
        let [sides, others] = self.sides;
        (2 * self.staged + sides + others + self.work + self.reals) * size_of::<T>()
    }

    /// Threads of the process.
    pub fn threads(&self, options: &Options) -> usize {
        if options.routine.factors() { factor::threads(self.order.tiles()) } else { 1 }
    }
}
