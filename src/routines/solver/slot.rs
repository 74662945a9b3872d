//! Operands and results as data: kinds, shapes, and the operand that a result starts as.

use crate::routines::Array;

/// What an operand or result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix as the caller has it.
    Matrix,
    /// A matrix in the solver's form: factors.
    Factor,
    Rhs,
    /// Right-hand sides whose rows are distributed as those of A.
    Aligned,
    /// Solutions for these, on every device.
    Solution,
    /// The squared norms of their residuals.
    Residuals,
    /// The triangle R of A = Q R, on every device.
    Triangle,
    /// The same by columns, or all columns of a wide R.
    Upper,
    /// Coefficients of reflectors.
    Coefficients,
    /// A real number: the weight of |X|^2 in least squares, a tolerance.
    Number,
    /// Row interchanges, from 0 on.
    Pivots,
    /// LAPACK's `info`.
    Info,
    /// The eigenvalues of A, ascending.
    Eigenvalues,
    /// Real scalars: a norm, a reciprocal condition, the logarithm of a determinant's size.
    Norm,
    Rcond,
    Logdet,
    /// A scalar of the matrix's dtype.
    Value,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Those of A.
    OfA,
    /// Real numbers of A's precision.
    Real,
    Int32,
}

/// The extent of an axis, for A of m x n and k right-hand sides on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    M,
    N,
    /// min(m, n)
    Least,
    K,
    /// The rows, or the columns, of A on a device.
    Rows,
    Columns,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Matrix => "matrix",
            Kind::Factor => "factor",
            Kind::Rhs => "rhs",
            Kind::Aligned => "aligned",
            Kind::Solution => "solution",
            Kind::Triangle => "triangle",
            Kind::Upper => "upper",
            Kind::Coefficients => "coefficients",
            Kind::Number => "number",
            Kind::Pivots => "pivots",
            Kind::Info => "info",
            Kind::Norm | Kind::Rcond | Kind::Logdet => "real",
            Kind::Residuals => "residuals",
            Kind::Eigenvalues => "eigenvalues",
            Kind::Value => "value",
        }
    }

    /// Whether each device has a shard.
    pub fn is_matrix(self) -> bool {
        matches!(self, Kind::Matrix | Kind::Factor)
    }

    pub fn element(self) -> Element {
        match self {
            Kind::Matrix | Kind::Factor | Kind::Rhs | Kind::Value => Element::OfA,
            Kind::Aligned | Kind::Solution | Kind::Triangle => Element::OfA,
            Kind::Upper | Kind::Coefficients => Element::OfA,
            Kind::Norm | Kind::Rcond | Kind::Logdet | Kind::Residuals | Kind::Number => {
                Element::Real
            }
            Kind::Eigenvalues => Element::Real,
            Kind::Pivots | Kind::Info => Element::Int32,
        }
    }

    const fn shape(self) -> &'static [Extent] {
        match self {
            Kind::Matrix | Kind::Factor => &[Extent::M, Extent::N],
            Kind::Rhs | Kind::Solution => &[Extent::N, Extent::K],
            Kind::Aligned => &[Extent::Rows, Extent::K],
            Kind::Triangle => &[Extent::N, Extent::N],
            Kind::Residuals => &[Extent::K],
            Kind::Eigenvalues => &[Extent::N],
            Kind::Upper => &[Extent::Least, Extent::Columns],
            Kind::Pivots | Kind::Coefficients => &[Extent::Least],
            Kind::Info | Kind::Value | Kind::Number => &[],
            Kind::Norm | Kind::Rcond | Kind::Logdet => &[],
        }
    }
}

impl Extent {
    pub fn name(self) -> &'static str {
        match self {
            Extent::M => "m",
            Extent::N => "n",
            Extent::Least => "min(m, n)",
            Extent::K => "k",
            Extent::Rows => "m / devices",
            Extent::Columns => "n / devices",
        }
    }
}

/// A named operand, or a result with the operand that it starts as.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub name: &'static str,
    pub kind: Kind,
    pub shape: &'static [Extent],
    pub from: Option<usize>,
}

pub const fn slot(name: &'static str, kind: Kind) -> Slot {
    Slot { name, kind, shape: kind.shape(), from: None }
}

impl Slot {
    pub const fn starts_as(self, operand: usize) -> Self {
        Slot { from: Some(operand), ..self }
    }

    pub(super) fn description(&self) -> Array {
        let elements = match self.kind.element() {
            Element::OfA => "a",
            Element::Real => "real",
            Element::Int32 => "int32",
        };
        let shape = self.shape.iter().map(|extent| extent.name()).collect();
        Array { name: self.name, kind: self.kind.name(), elements, shape, from: self.from }
    }
}

// Those that several routines have.
pub const A: Slot = slot("a", Kind::Matrix);
/// Right-hand sides have as many rows as A, solutions as many as A has columns.
pub const B: Slot = Slot { shape: &[Extent::M, Extent::K], ..slot("b", Kind::Rhs) };
pub const WORK: Slot = slot("work", Kind::Factor);
pub const X: Slot = slot("x", Kind::Rhs);
pub const INFO: Slot = slot("info", Kind::Info);
pub const ANORM: Slot = slot("anorm", Kind::Norm);
pub const RCOND: Slot = slot("rcond", Kind::Rcond);
pub const PIVOTS: Slot = slot("pivots", Kind::Pivots);
pub const INVERSE: Slot = slot("inverse", Kind::Matrix);
pub const LOGDET: Slot = slot("logdet", Kind::Logdet);

/// The operands (after `place`) and the results of a routine.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    pub args: &'static [Slot],
    pub rets: &'static [Slot],
}

impl Signature {
    /// Position of the first operand or result of a kind.
    pub fn find(slots: &[Slot], kind: Kind) -> Option<usize> {
        slots.iter().position(|s| s.kind == kind)
    }

    /// Position of the matrix or factor.
    pub fn matrix(slots: &[Slot]) -> Option<usize> {
        slots.iter().position(|s| s.kind.is_matrix())
    }

    /// `a, b -> work, x, info`
    pub(super) fn describe(&self) -> String {
        let names = |slots: &[Slot]| slots.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        format!("place, {} and results {}", names(self.args), names(self.rets))
    }
}
