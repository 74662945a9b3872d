//! A solver routine as one value: what it takes, what it gives, and the stages that it runs.

use super::operands::Requirement;
use super::slot::{Kind, Signature, Slot};
use super::stack;
use crate::algorithms::condition::block;
use crate::algorithms::eigen;
use crate::algorithms::lu::more_elements;
use crate::algorithms::qr::{self, tsqr};
use crate::log::Task;

/// The factorisation that a routine makes or uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Cholesky,
    Lu,
    /// A is triangular itself.
    Triangular,
    /// The routine only multiplies with A.
    Residual,
    /// The routine finds a norm of A.
    Norm,
    /// A = Q R by columns.
    Qr,
    /// The triangle R of a tall A by rows.
    Tsqr,
    /// Eigenvalues of a Hermitian A.
    Eigen,
}

impl Family {
    /// Whether the routine only reads the matrix, in place and in any storage.
    pub fn reads_only(self) -> bool {
        matches!(self, Family::Triangular | Family::Residual | Family::Norm | Family::Tsqr)
    }

    /// Whether columns stay where the caller has them.
    pub fn keeps_columns(self) -> bool {
        self.reads_only() || self == Family::Qr
    }

    /// Whether it works on the lower half of the solver's matrix, which is Hermitian.
    pub fn reads_lower_half(self) -> bool {
        matches!(self, Family::Cholesky | Family::Eigen)
    }

    pub fn name(self) -> &'static str {
        match self {
            Family::Cholesky => "cholesky",
            Family::Lu => "lu",
            Family::Triangular => "triangular",
            Family::Residual => "residual",
            Family::Norm => "norm",
            Family::Qr => "qr",
            Family::Tsqr => "tsqr",
            Family::Eigen => "eigen",
        }
    }

    const fn requires(self) -> &'static [Requirement] {
        match self {
            Family::Norm => &[],
            Family::Qr => &[Requirement::WholeColumnsOrSquare],
            Family::Tsqr => &[Requirement::WholeRows, Requirement::Tall],
            _ => &[Requirement::Square, Requirement::WholeColumns],
        }
    }
}

/// A stage of a routine. `run.rs` performs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Brings A to the solver's layout: transposes shards, mirrors the triangle, distributes columns.
    Arrange,
    /// The reverse.
    Restore,
    /// Finds norm1(A) before A is overwritten, from the lower triangle if A is Hermitian.
    Norm,
    HermitianNorm,
    /// A = L L^H.
    Potrf,
    /// P A = L U.
    Getrf,
    /// Solves with a factor, or with a triangle.
    CholeskySolve,
    LuSolve,
    TriangularSolve,
    /// Estimates the condition of A from its factor and norm1(A).
    CholeskyCondition,
    LuCondition,
    /// A^-1 from a factor.
    CholeskyInverse,
    LuInverse,
    /// The determinant, or its logarithm, from a factor.
    CholeskyDeterminant,
    LuDeterminant,
    /// The trace of A^-1 B from a factor.
    CholeskyTrace,
    LuTrace,
    /// Conjugates a Cholesky factor that enters or leaves the call, where the caller's is that of
    /// conj(A).
    ConjugateFactor,
    /// Reports a zero on the diagonal of U.
    CheckDiagonal,
    /// B - op(A) X.
    Residual,
    /// The norm that the attribute names.
    AnyNorm,
    /// A = Q R, with its reflectors.
    Geqrf,
    /// R, out of the factor.
    CopyTriangle,
    /// Q, from its reflectors.
    FormQ,
    /// op(Q) X
    ApplyQ,
    /// R^-1 X
    SolveTriangle,
    /// norm1(R), and the condition of R in that norm.
    TriangleNorm,
    TriangleCondition,
    /// The triangle R of A = Q R, by rows.
    Triangle,
    /// Q, after that.
    FormRows,
    /// The reflectors of all rows instead.
    FormReflectors,
    /// R of A with its ridge term, and the solutions that minimise |B - A X|.
    LeastSquares,
    /// R and Q^H B of rows that are a part of a matrix; R of those after its first n rows.
    Reduce,
    ReduceRest,
    /// A Hermitian A becomes a band, that a tridiagonal matrix with A's eigenvalues.
    ToBand,
    ToTridiagonal,
    Eigenvalues,
    /// The eigenvectors of the tridiagonal matrix, and from these those of A.
    Divide,
    TransformBack,
    /// A function of A from these: its values as factors of eigenvectors, and the product.
    Weigh,
    Assemble,
}

impl Stage {
    /// What it does, whatever the factorisation: the phase of `last_call`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Arrange => "arrange",
            Stage::Restore => "restore",
            Stage::Norm | Stage::HermitianNorm | Stage::AnyNorm | Stage::TriangleNorm => "norm",
            Stage::Potrf | Stage::Getrf | Stage::Geqrf => "factor",
            Stage::CopyTriangle => "copy",
            Stage::FormQ | Stage::FormRows | Stage::FormReflectors => "form",
            Stage::ApplyQ => "apply",
            Stage::SolveTriangle => "substitute",
            Stage::CholeskySolve | Stage::LuSolve | Stage::TriangularSolve => "solve",
            Stage::CholeskyCondition | Stage::LuCondition | Stage::TriangleCondition => "condition",
            Stage::CholeskyInverse | Stage::LuInverse => "invert",
            Stage::CholeskyDeterminant | Stage::LuDeterminant => "determinant",
            Stage::CholeskyTrace | Stage::LuTrace => "trace",
            Stage::ConjugateFactor => "conjugate",
            Stage::CheckDiagonal => "check",
            Stage::Residual => "residual",
            Stage::Triangle | Stage::LeastSquares | Stage::Reduce | Stage::ReduceRest => "reduce",
            Stage::ToBand => "band",
            Stage::ToTridiagonal => "tridiagonal",
            Stage::Eigenvalues => "values",
            Stage::Divide => "divide",
            Stage::TransformBack => "back",
            Stage::Weigh => "weigh",
            Stage::Assemble => "assemble",
        }
    }
}

/// The leading dimension of a tile column in scratch. With an order that is a power of two, the
/// columns would otherwise share a few cache sets.
pub fn panel_rows(n: usize) -> usize {
    n + 16
}

/// Sizes of a call that decide how much scratch its stages need.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    pub m: usize,
    pub n: usize,
    pub ranks: usize,
    pub workers: usize,
    /// Right-hand sides of a device, and how many a worker takes at a time.
    pub rhs: usize,
    pub group: usize,
    /// Whether each device has its own right-hand sides.
    pub distributed: bool,
    /// The widest tile column.
    pub widest: usize,
    /// Bytes of an element.
    pub size: usize,
    pub is_rank: bool,
    /// How many tile columns there are if a routine uses reflectors of the reduction to a band later.
    pub kept: usize,
    /// Whether A becomes tridiagonal without a band between.
    pub one_stage: bool,
    /// Elements to divide and to transform back, in addition to the workers' own scratch.
    pub vectors: usize,
}

impl Extents {
    /// A has the smaller extent as columns.
    fn of_rows(&self) -> tsqr::Extent {
        let &Extents { m, n, workers, rhs, size, is_rank, .. } = self;
        tsqr::Extent { rows: m.max(n), order: m.min(n), sides: rhs, workers, size, is_rank }
    }

    fn of_band(&self) -> eigen::Extent {
        let &Extents { n, widest, workers, is_rank, kept, one_stage, .. } = self;
        eigen::Extent { n, widest, workers, is_rank, kept, one_stage }
    }
}

impl Stage {
    /// Elements of the scratch that stages use in turn: once in a memory, and for each worker there.
    /// Moves of A have theirs in addition.
    pub fn scratch(self, of: &Extents) -> [usize; 2] {
        let &Extents { m, n, workers, rhs, group, distributed, widest, is_rank, .. } = of;
        let sums = if distributed { 0 } else { n * rhs };
        match self {
            // Partial sums.
            Stage::CholeskySolve | Stage::LuSolve | Stage::TriangularSolve => [0, sums],
            // Those and a tile.
            Stage::Residual => [0, sums + widest * widest],
            Stage::CholeskyCondition | Stage::LuCondition | Stage::TriangleCondition => {
                [n * block(n); 2]
            }
            // A tile column.
            Stage::CholeskyInverse => [panel_rows(m) * widest, 0],
            Stage::LuInverse => {
                let more = if is_rank { more_elements(m, widest) } else { 0 };
                [panel_rows(m) * widest + more, 0]
            }
            Stage::CholeskyTrace | Stage::LuTrace => [0, n * group],
            Stage::Geqrf | Stage::FormQ | Stage::ApplyQ => qr::elements((m, n), widest, is_rank),
            Stage::SolveTriangle => [0, sums],
            stage if stage.reduces_rows() => stack::tsqr(of.of_rows()).elements(),
            Stage::Triangle => {
                let of_a = (m.max(n), m.min(n));
                [0, stack::thin(of_a, workers, of.size, is_rank).elements()]
            }
            Stage::ToBand => of.of_band().elements(),
            Stage::Divide | Stage::TransformBack => [of.vectors, 0],
            _ => [0, 0],
        }
    }
}

impl Stage {
    /// Whether it reduces rows to a triangle without what makes Q.
    pub fn reduces_rows(self) -> bool {
        matches!(self, Stage::LeastSquares | Stage::Reduce | Stage::ReduceRest)
    }

    /// Operations, about, for A of m x n, k right-hand sides, and so many eigenvectors: reports of
    /// progress weigh stages by them. In one stage A is read for each column. That takes as long as 3 n^3
    /// operations by the phases of `last_call` on two cores, and less where A is in a cache.
    fn work(self, [m, n, k, vectors]: [usize; 4], one_stage: bool) -> f64 {
        let [m, n, k, vectors] = [m, n, k, vectors].map(|extent| extent as f64);
        let (cube, least) = (n * n * n, m.min(n));
        let qr = 4.0 * least * (m * n - least * ((m + n) / 2.0 - least / 3.0));
        match self {
            Stage::ToBand if one_stage => 3.0 * cube,
            Stage::ToTridiagonal if one_stage => 0.0,
            Stage::TransformBack if one_stage => 2.0 * n * n * vectors,
            Stage::Potrf => cube / 3.0,
            Stage::Getrf | Stage::CholeskyInverse => 2.0 * cube / 3.0,
            Stage::LuInverse | Stage::ToBand => 4.0 * cube / 3.0,
            Stage::Divide => cube / 3.0 + n * n * vectors,
            Stage::TransformBack => 4.0 * n * n * vectors,
            Stage::Assemble => cube,
            Stage::Geqrf | Stage::FormQ | Stage::FormRows | Stage::FormReflectors => qr,
            Stage::Triangle | Stage::LeastSquares | Stage::Reduce | Stage::ReduceRest => qr,
            Stage::CholeskyTrace | Stage::LuTrace => 2.0 * cube,
            Stage::CholeskySolve | Stage::LuSolve | Stage::Residual => 2.0 * n * n * k,
            Stage::ApplyQ => 4.0 * m * least * k,
            Stage::TriangularSolve | Stage::SolveTriangle => n * n * k,
            Stage::ToTridiagonal => 400.0 * n * n,
            _ => n * n,
        }
    }
}

/// Attributes that only some routines take. All routines take the others.
pub const OWN_ATTRIBUTES: [&str; 9] =
    ["rhs", "trans", "structure", "lower", "unit_diagonal", "norm", "function", "first", "vectors"];

/// A solver routine.
#[derive(Debug)]
pub struct SolverRoutine {
    pub name: &'static str,
    pub summary: &'static str,
    pub family: Family,
    pub signature: Signature,
    pub requires: &'static [Requirement],
    /// Those of [`OWN_ATTRIBUTES`] that it takes.
    pub attributes: &'static [&'static str],
    /// Its stages, in their order.
    pub run: &'static [Stage],
    /// Whether the solver has A itself of an A by rows, transposed across the shards. Otherwise it
    /// has A^T, as rows are columns of that.
    pub upright: bool,
}

impl SolverRoutine {
    pub const fn new(
        family: Family,
        name: &'static str,
        summary: &'static str,
        args: &'static [Slot],
        rets: &'static [Slot],
        attributes: &'static [&'static str],
        run: &'static [Stage],
    ) -> SolverRoutine {
        let (signature, requires) = (Signature { args, rets }, family.requires());
        SolverRoutine {
            name,
            summary,
            family,
            signature,
            requires,
            attributes,
            run,
            upright: false,
        }
    }

    pub const fn upright(self) -> SolverRoutine {
        SolverRoutine { upright: true, ..self }
    }

    /// Also needs at least as many rows as columns.
    pub const fn tall(self) -> SolverRoutine {
        SolverRoutine { requires: &[Requirement::WholeColumnsOrSquare, Requirement::Tall], ..self }
    }

    /// Also needs as many rows as A has columns on each device.
    pub const fn tall_shards(self) -> SolverRoutine {
        SolverRoutine { requires: &[Requirement::WholeRows, Requirement::TallShards], ..self }
    }

    /// Its stages, as parts of the work for A of m x n, k right-hand sides, and so many eigenvectors;
    /// with a band or in one stage.
    pub fn tasks(
        &self,
        extents: [usize; 4],
        one_stage: bool,
    ) -> impl Iterator<Item = (Stage, Task)> {
        let (run, routine, n) = (self.run, self.name, extents[1]);
        let all: f64 = run.iter().map(|stage| stage.work(extents, one_stage)).sum();
        let mut before = 0.0;
        run.iter().map(move |&stage| {
            let part = stage.work(extents, one_stage) / all.max(1.0);
            let task = Task { routine, n, stage: stage.name(), before, part };
            before += part;
            (stage, task)
        })
    }

    pub fn has(&self, stage: Stage) -> bool {
        self.run.contains(&stage)
    }

    /// Whether a result is of this kind.
    pub fn gives(&self, kind: Kind) -> bool {
        Signature::find(self.signature.rets, kind).is_some()
    }

    /// Whether its matrix is one of eigenvectors, not only made from some.
    pub fn gives_eigenvectors(&self) -> bool {
        self.has(Stage::TransformBack) && !self.has(Stage::Assemble)
    }

    pub fn factors(&self) -> bool {
        self.has(Stage::Potrf) || self.has(Stage::Getrf)
    }

    pub fn inverts(&self) -> bool {
        self.has(Stage::CholeskyInverse) || self.has(Stage::LuInverse)
    }

    pub fn estimates_condition(&self) -> bool {
        let stages = [Stage::CholeskyCondition, Stage::LuCondition, Stage::TriangleCondition];
        stages.into_iter().any(|stage| self.has(stage))
    }

    /// Whether workers copy groups of columns to scratch.
    pub fn copies_groups(&self) -> bool {
        self.has(Stage::CholeskyTrace) || self.has(Stage::LuTrace)
    }

    /// Whether it has right-hand sides.
    pub fn has_rhs(&self) -> bool {
        Signature::find(self.signature.args, Kind::Rhs).is_some()
    }

    /// Whether its matrix is one as the caller has it, not a factor.
    pub fn takes_matrix(&self) -> bool {
        let args = self.signature.args;
        Signature::matrix(args).is_some_and(|first| args[first].kind == Kind::Matrix)
    }
}
