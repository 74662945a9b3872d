//! The engine of this library's own algorithms, on all devices.

use super::{Engine, Performs};
use crate::comm::Step;
use crate::device::Worker;
use crate::routines::solver::job::Solver;
use crate::routines::solver::routine::Stage;
use crate::routines::solver::{
    cholesky, eigen, eigenvectors, functions, lu, norm, qr, residual, trace, triangular, tsqr,
};
use crate::scalar::Scalar;

#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Engine for Native {}

impl<T: Scalar, W: Worker<T>> Performs<T, W> for Native {
    fn perform(
        &self,
        stage: Stage,
        job: &Solver<T>,
        worker: &mut W,
        scale: &mut Option<f64>,
    ) -> Step {
        match stage {
            Stage::Arrange => job.arrange(worker),
            Stage::Restore => job.restore(worker),
            Stage::Norm => lu::norm(job, worker, scale),
            Stage::HermitianNorm => job.measure_hermitian(worker),
            Stage::Potrf => cholesky::potrf(job, worker, scale),
            Stage::Getrf => lu::getrf(job, worker, scale),
            Stage::CholeskySolve => cholesky::solve(job, worker, scale),
            Stage::LuSolve => lu::solve(job, worker, *scale),
            Stage::TriangularSolve => triangular::solve(job, worker),
            Stage::CholeskyCondition => cholesky::condition(job, worker),
            Stage::LuCondition => lu::condition(job, worker),
            Stage::CholeskyInverse => cholesky::invert(job, worker, scale),
            Stage::LuInverse => lu::invert(job, worker, *scale),
            Stage::CholeskyDeterminant => cholesky::determinant(job, worker),
            Stage::LuDeterminant => lu::determinant(job, worker),
            Stage::CholeskyTrace => trace::of_cholesky(job, worker),
            Stage::LuTrace => trace::of_lu(job, worker),
            Stage::ConjugateFactor => cholesky::conjugate_factor(job, worker),
            Stage::CheckDiagonal => job.check_diagonal(worker),
            Stage::Residual => residual::residual(job, worker),
            Stage::AnyNorm => norm::norm(job, worker),
            Stage::Geqrf => qr::factor(job, worker),
            Stage::CopyTriangle => qr::copy_triangle(job, worker),
            Stage::FormQ => qr::form(job, worker),
            Stage::ApplyQ => qr::apply(job, worker),
            Stage::SolveTriangle => qr::solve_triangle(job, worker),
            Stage::TriangleNorm => qr::norm(job, worker),
            Stage::TriangleCondition => qr::condition(job, worker),
            Stage::Triangle => tsqr::triangle_of_a(job, worker),
            Stage::FormRows | Stage::FormReflectors => tsqr::form_rows(job, worker),
            Stage::LeastSquares => tsqr::least_squares(job, worker),
            Stage::Reduce => tsqr::reduce_rows(job, worker, false),
            Stage::ReduceRest => tsqr::reduce_rows(job, worker, true),
            Stage::ToBand => eigen::to_band(job, worker),
            Stage::ToTridiagonal => eigen::to_tridiagonal(job, worker),
            Stage::Eigenvalues => eigen::values(job, worker),
            Stage::Divide => eigenvectors::divide(job, worker),
            Stage::TransformBack => eigenvectors::transform_back(job, worker),
            Stage::Weigh => functions::weigh(job, worker),
            Stage::Assemble => functions::assemble(job, worker),
        }
    }
}
