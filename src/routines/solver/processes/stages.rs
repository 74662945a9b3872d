//! What each stage does over processes.

use std::ffi::{CStr, c_int, c_void};

use super::sides::Sides;
use super::{Part, elements_mut};
use crate::device::{Op, Update};
use crate::error::Result;
use crate::layout::Storage;
use crate::processes::moves::{mirror, transpose};
use crate::processes::{Descriptor, Grid, checked};
use crate::routines::solver::cholesky::solves_with_conjugate;
use crate::routines::solver::lu;
use crate::routines::solver::options::{Norm, Structure};
use crate::routines::solver::routine::{Family, Stage};
use crate::scalar::Scalar;
use crate::settings;
use crate::transpose::transpose_in_place;

/// The stages that work over processes. Of a factor they take and give what `mod.rs` describes.
pub const KNOWN: [Stage; 29] = [
    Stage::Arrange,
    Stage::Restore,
    Stage::Norm,
    Stage::HermitianNorm,
    Stage::AnyNorm,
    Stage::Potrf,
    Stage::Getrf,
    Stage::CholeskySolve,
    Stage::LuSolve,
    Stage::TriangularSolve,
    Stage::CholeskyCondition,
    Stage::LuCondition,
    Stage::CholeskyInverse,
    Stage::LuInverse,
    Stage::CholeskyDeterminant,
    Stage::LuDeterminant,
    Stage::ConjugateFactor,
    Stage::ToBand,
    Stage::ToTridiagonal,
    Stage::Eigenvalues,
    Stage::Divide,
    Stage::TransformBack,
    Stage::Geqrf,
    Stage::CopyTriangle,
    Stage::FormQ,
    Stage::ApplyQ,
    Stage::SolveTriangle,
    Stage::TriangleNorm,
    Stage::TriangleCondition,
];

pub(super) const ONE: c_int = 1;

/// The triangle of B that Cholesky's routines use. With the upper one ScaLAPACK's is slower on such
/// grids (benchmarks/NOTES.md).
const LOWER: &CStr = c"L";

/// Parameters of ScaLAPACK's routines that name a matrix: it begins at its first row and column.
macro_rules! whole {
    ($routine:expr, ($($before:expr),*), $a:expr, $of:expr, ($($after:expr),*)) => {
        $routine($($before,)* $a.cast::<c_void>(), &ONE, &ONE, $of.as_ptr(), $($after),*)
    };
}

/// A routine that solves for right-hand sides, for `Part::solve`.
macro_rules! substitution {
    ($name:literal, $routine:expr, ($($before:expr),*), $n:expr, $a:expr, $of:expr, ($($of_factor:expr),*)) => {
        |x: *mut T, of_x: &Descriptor, count: c_int| {
            let (mut info, n, a) = (0, $n, $a);
            // SAFETY: this process' columns of B and of the right-hand sides, as described, and what
            // belongs to the factor. All processes call this.
            unsafe {
                $routine(
                    $($before.as_ptr(),)* &n, &count, a.cast(), &ONE, &ONE, $of.as_ptr(),
                    $($of_factor.as_ptr(),)* x.cast(), &ONE, &ONE, of_x.as_ptr(), &mut info,
                );
            }
            checked($name, info)
        }
    };
}

impl<T: Scalar> Part<T> {
    pub(super) fn perform(&mut self, stage: Stage, grid: &Grid) -> Result<()> {
        // Later stages have no factor to work with.
        if self.info != 0 {
            return Ok(());
        }
        match stage {
            Stage::Arrange => self.arrange(grid),
            Stage::Restore if self.options.routine.gives_eigenvectors() => {
                self.turn_eigenvectors(grid)
            }
            Stage::Restore => self.restore(grid),
            Stage::HermitianNorm => self.find_norm(grid, Norm::One, Some(!self.options.lower)),
            Stage::Norm => self.find_norm(grid, Norm::One, None),
            Stage::AnyNorm => self.find_norm(grid, self.options.norm, None),
            Stage::Potrf => self.potrf(grid),
            Stage::Getrf => self.getrf(grid),
            Stage::CholeskySolve => {
                self.solve_by_cholesky(grid, self.options.op, self.right_hand_sides())
            }
            Stage::LuSolve => self.solve_by_lu(grid, self.options.op, self.right_hand_sides()),
            Stage::TriangularSolve => self.triangular_solve(grid),
            Stage::CholeskyCondition => self.find_condition(grid, Part::solve_by_cholesky),
            Stage::LuCondition => self.find_condition(grid, Part::solve_by_lu),
            Stage::CholeskyInverse => self.cholesky_inverse(grid),
            Stage::LuInverse => self.lu_inverse(grid),
            Stage::CholeskyDeterminant => {
                let diagonal = self.diagonal(grid)?;
                self.logdet = 2.0 * diagonal.iter().map(|x| x.magnitude().ln()).sum::<f64>();
                Ok(())
            }
            Stage::LuDeterminant => {
                let diagonal = self.diagonal(grid)?;
                let pivots = &self.pivots[..diagonal.len()];
                (self.values, self.logdet) = lu::determinant_of(&diagonal, pivots);
                Ok(())
            }
            Stage::ToBand => self.decompose(grid),
            // With the first one.
            Stage::ToTridiagonal | Stage::Eigenvalues => Ok(()),
            Stage::Divide | Stage::TransformBack => Ok(()),
            Stage::ConjugateFactor => {
                self.conjugate_factor();
                Ok(())
            }
            Stage::Geqrf => self.geqrf(grid),
            Stage::CopyTriangle => self.copy_triangle(grid),
            Stage::FormQ => self.form_q(grid),
            Stage::ApplyQ => self.apply_q(grid),
            Stage::SolveTriangle => self.solve_by_r(grid, Op::None, self.right_hand_sides()),
            Stage::TriangleNorm => self.find_norm_of_r(grid),
            Stage::TriangleCondition => self.find_condition(grid, Part::solve_by_r),
            _ => unreachable!("a stage of `KNOWN`"),
        }
    }

    /// ScaLAPACK's description of B, in the order of the work.
    pub(super) fn descriptor(&self, grid: &Grid) -> Descriptor {
        Descriptor::new(grid.context, &self.order, self.order.width)
    }

    /// The first of B's columns, for ScaLAPACK.
    pub(super) fn a(&self) -> *mut T {
        self.columns().as_ptr().cast()
    }

    fn n_of_c(&self) -> c_int {
        self.n() as c_int
    }

    /// From the caller's shards to B, by columns in the order of the work.
    fn arrange(&mut self, grid: &Grid) -> Result<()> {
        let (n, local) = (self.m(), self.order.local());
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        let a = unsafe { elements_mut::<T>(self.columns()) };
        if self.options.storage == Storage::Columns {
            transpose_in_place(a, n, local, settings::threads());
        }
        // By rows B is at first A^T.
        let given_lower = self.options.lower != self.options.storage.is_transpose();
        match (self.options.routine.family, self.options.structure) {
            (Family::Cholesky, _) if !given_lower => {
                mirror(&grid.ranks, n, a, &mut self.staged, false, true)?;
            }
            (Family::Lu, Structure::Hermitian | Structure::Symmetric) => {
                let conjugate = self.options.structure == Structure::Hermitian;
                mirror(&grid.ranks, n, a, &mut self.staged, given_lower, conjugate)?;
            }
            _ => {}
        }
        if self.turns() {
            transpose(&grid.ranks, n, a, &mut self.staged)?;
        }
        self.order.move_columns(&grid.ranks, a, &mut self.staged, true)
    }

    /// The reverse, for an inverse or Q.
    fn restore(&mut self, grid: &Grid) -> Result<()> {
        let (n, local) = (self.m(), self.order.local());
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        let a = unsafe { elements_mut::<T>(self.columns()) };
        self.order.move_columns(&grid.ranks, a, &mut self.staged, false)?;
        if self.options.routine.family == Family::Cholesky {
            mirror(&grid.ranks, n, a, &mut self.staged, true, true)?;
        }
        if self.turns() {
            transpose(&grid.ranks, n, a, &mut self.staged)?;
        }
        if self.options.storage == Storage::Columns {
            transpose_in_place(a, local, n, settings::threads());
        }
        Ok(())
    }

    fn potrf(&mut self, grid: &Grid) -> Result<()> {
        let info = self.factor(grid, Update::Cholesky)?;
        self.info = self.first(grid, info, |pivot| !pivot.is_number())?;
        Ok(())
    }

    fn getrf(&mut self, grid: &Grid) -> Result<()> {
        let info = self.factor(grid, Update::Lu)?;
        self.info = self.first(grid, info, |pivot| !pivot.is_number())?;
        Ok(())
    }

    fn solve_by_cholesky(&mut self, grid: &Grid, op: Op, x: Sides<T>) -> Result<()> {
        let conjugated = solves_with_conjugate(&self.options, op);
        let (n, of, a) = (self.n_of_c(), self.descriptor(grid), self.a());
        let potrs = grid.scalapack.routines::<T>().potrs;
        let solve = substitution!("p?potrs", potrs, (LOWER), n, a, of, ());
        self.solve(grid, x, conjugated, solve)
    }

    /// op(A) as an operation on B: ScaLAPACK's name, and whether the right-hand sides are conjugated.
    fn op_on_b(&self, op: Op) -> (&'static CStr, bool) {
        match self.options.op_on_b(op) {
            Op::None => (c"N", false),
            Op::Transpose => (c"T", false),
            Op::Adjoint => (c"C", false),
            Op::Conjugate => (c"N", true),
        }
    }

    /// Conjugates this process' columns of a factor, as `cholesky::conjugate_factor` does.
    fn conjugate_factor(&self) {
        if T::IS_COMPLEX && self.options.storage == Storage::Columns {
            // SAFETY: a result of the call, which this thread alone uses until the reply.
            let a = unsafe { elements_mut::<T>(self.columns()) };
            a.iter_mut().for_each(|x| *x = T::conj_impl(x));
        }
    }

    fn solve_by_lu(&mut self, grid: &Grid, op: Op, x: Sides<T>) -> Result<()> {
        let (op, conjugated) = self.op_on_b(op);
        let (n, of, a) = (self.n_of_c(), self.descriptor(grid), self.a());
        let pivots: Vec<c_int> = self.pivots.iter().map(|row| row + 1).collect();
        let getrs = grid.scalapack.routines::<T>().getrs;
        let solve = substitution!("p?getrs", getrs, (op), n, a, of, (pivots));
        self.solve(grid, x, conjugated, solve)
    }

    fn triangular_solve(&mut self, grid: &Grid) -> Result<()> {
        if !self.options.unit_diagonal {
            self.info = self.first(grid, 0, |x| x == T::ZERO || !x.is_number())?;
            if self.info != 0 {
                return Ok(());
            }
        }
        let (op, conjugated) = self.op_on_b(self.options.op);
        let triangle = if self.options.lower != self.is_transpose() { c"L" } else { c"U" };
        let ones = if self.options.unit_diagonal { c"U" } else { c"N" };
        let (n, of) = (self.n_of_c(), self.descriptor(grid));
        let a = self.copy_by_columns();
        let trtrs = grid.scalapack.routines::<T>().trtrs;
        let solve = substitution!("p?trtrs", trtrs, (triangle, op, ones), n, a, of, ());
        self.solve(grid, self.right_hand_sides(), conjugated, solve)
    }

    /// This process' columns in its own scratch, if the caller has them by rows.
    fn copy_by_columns(&mut self) -> *mut T {
        let (n, local) = (self.n(), self.order.local());
        if self.options.storage != Storage::Columns {
            return self.a();
        }
        // SAFETY: an operand of the call, which nothing writes until the reply.
        let given = unsafe { super::elements::<T>(self.columns()) };
        self.work.copy_from_slice(given);
        transpose_in_place(&mut self.work, n, local, settings::threads());
        self.work.as_mut_ptr()
    }

    fn cholesky_inverse(&mut self, grid: &Grid) -> Result<()> {
        let (n, of, mut info) = (self.n_of_c(), self.descriptor(grid), 0);
        let potri = grid.scalapack.routines::<T>().potri;
        // SAFETY: as in `potrf`.
        unsafe { whole!(potri, (LOWER.as_ptr(), &n), self.a(), of, (&mut info)) };
        checked("p?potri", info).map(drop)
    }

    fn lu_inverse(&mut self, grid: &Grid) -> Result<()> {
        let (n, of, a, mut info) = (self.n_of_c(), self.descriptor(grid), self.a(), 0);
        let pivots: Vec<c_int> = self.pivots.iter().map(|row| row + 1).collect();
        let getri = grid.scalapack.routines::<T>().getri;
        let mut call = |work: &mut [T], numbers: &mut [c_int], query: bool| {
            let lengths = [work.len(), numbers.len()].map(|x| if query { -1 } else { x as c_int });
            let (work, numbers) = (work.as_mut_ptr().cast(), numbers.as_mut_ptr());
            // SAFETY: as in `potrf`. Without a query the work is as large as the library has asked for.
            unsafe {
                whole!(
                    getri,
                    (&n),
                    a,
                    of,
                    (pivots.as_ptr(), work, &lengths[0], numbers, &lengths[1], &mut info)
                )
            };
        };
        let (mut asked, mut asked_numbers) = ([T::ZERO; 2], [0; 2]);
        call(&mut asked, &mut asked_numbers, true);
        let mut work = std::mem::take(&mut self.work);
        work.resize(work.len().max(counted(&asked)), T::ZERO);
        call(&mut work, &mut vec![0; asked_numbers[0].max(1) as usize], false);
        checked("p?getri", info).map(drop)
    }
}

/// The count that a query gives as a number, which single precision may have rounded.
pub(super) fn counted<T: Scalar>(asked: &[T]) -> usize {
    (asked[0].parts().0 * (1.0 + 1e-6)).ceil().max(1.0) as usize
}
