//! The operands and results of the solvers, and their checks.
//!
//! Square matrices are `[n/P, n]` on each device, or `[n, n/P]` (`tall`), others `[m/p, n/q]` on a
//! p x q grid. Right-hand sides are `[n, k]`, pivots int32 `[n]`, info an int32 scalar. Values are
//! scalars of the matrix's dtype, or real ones. A result starts as the operand that `from` names.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::layout::Grid;
use crate::scalar::DType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Matrix,
    Rhs,
    Pivots,
    Info,
    Real,
    Value,
}

/// A named operand, or a result with the operand that it starts as.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub name: &'static str,
    pub kind: Kind,
    pub from: Option<usize>,
}

pub const fn slot(name: &'static str, kind: Kind) -> Slot {
    Slot { name, kind, from: None }
}

impl Slot {
    pub const fn starts_as(self, operand: usize) -> Self {
        Slot { from: Some(operand), ..self }
    }
}

// Those that several routines have.
pub const A: Slot = slot("a", Kind::Matrix);
pub const B: Slot = slot("b", Kind::Rhs);
pub const WORK: Slot = slot("work", Kind::Matrix);
pub const X: Slot = slot("x", Kind::Rhs);
pub const INFO: Slot = slot("info", Kind::Info);
pub const ANORM: Slot = slot("anorm", Kind::Real);
pub const RCOND: Slot = slot("rcond", Kind::Real);
pub const PIVOTS: Slot = slot("pivots", Kind::Pivots);
pub const INVERSE: Slot = slot("inverse", Kind::Matrix);
pub const LOGDET: Slot = slot("logdet", Kind::Real);

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

    /// `a, b -> work, x, info`
    fn describe(&self) -> String {
        let names = |slots: &[Slot]| slots.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        format!("place, {} and results {}", names(self.args), names(self.rets))
    }
}

/// What a routine needs of its matrix, beyond the checks of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// As many rows as columns.
    Square,
    /// Each device holds whole columns, or whole rows.
    WholeColumns,
}

impl Requirement {
    pub fn name(self) -> &'static str {
        match self {
            Requirement::Square => "square",
            Requirement::WholeColumns => "whole columns",
        }
    }
}

/// The checked sizes of one call: those of the solver's matrix B, which is A or A^T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub m: usize,
    pub n: usize,
    pub grid: Grid,
    /// Right-hand sides per rank; 0 if the routine takes none.
    pub rhs: usize,
    pub dtype: DType,
}

impl Problem {
    /// A square matrix by whole columns.
    pub fn square(n: usize, ranks: usize, rhs: usize, dtype: DType) -> Problem {
        Problem { m: n, n, grid: Grid::new(1, ranks), rhs, dtype }
    }

    pub fn ranks(&self) -> usize {
        self.grid.ranks()
    }
}

/// What the buffers of a call are checked against.
pub struct Expected<'a> {
    pub name: &'a str,
    pub signature: &'a Signature,
    pub requires: &'a [Requirement],
    /// The grid over which A is sharded.
    pub grid: Grid,
    /// Whether the shards of a square matrix are `[n, n/P]`, not `[n/P, n]`.
    pub tall: bool,
    /// Whether B is A^T.
    pub is_transpose: bool,
}

impl Expected<'_> {
    /// Checks every buffer of some or all ranks; `calls` is in rank order. It returns an error for a
    /// wrong number, dtype or shape of buffers.
    pub fn check(&self, calls: &[Call]) -> Result<Problem> {
        let &Expected { name, signature: &Signature { args, rets }, .. } = self;
        for Call { rank, args: a, rets: r, .. } in calls {
            if a.len() != args.len() || r.len() != rets.len() {
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: rank {rank}: expected operands {}; got {} operands and {} \
                     results",
                    self.signature.describe(),
                    a.len() + 1,
                    r.len()
                )));
            }
        }
        let matrix = &calls[0].args[Signature::find(args, Kind::Matrix).expect("a matrix")];
        let &[rows, columns] = matrix.dims() else {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected a matrix, got {}",
                matrix.describe()
            )));
        };
        let (p, q) = (self.grid.rows(), self.grid.columns());
        let is_whole = if self.is_transpose { q == 1 } else { p == 1 };
        if self.requires.contains(&Requirement::WholeColumns) && !is_whole {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected whole rows or whole columns on each device, got a grid \
                 of {p} x {q} devices; reshard A along one axis"
            )));
        }
        let order = if self.tall { rows } else { columns };
        let (shard, m, n, grid) = match self.requires.contains(&Requirement::Square) {
            true => (self.square_shard(order)?, order, order, Grid::new(1, p * q)),
            false if self.is_transpose => {
                ([rows, columns], columns * q, rows * p, self.grid.transposed())
            }
            false => ([rows, columns], rows * p, columns * q, self.grid),
        };
        let dtype = matrix.dtype();
        let rhs = match Signature::find(args, Kind::Rhs).map(|b| calls[0].args[b].dims()) {
            None => 0,
            Some(&[_, k]) => k,
            Some(_) => {
                let b = &calls[0].args[Signature::find(args, Kind::Rhs).expect("just found")];
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: b: expected [{m}, k], got {}",
                    b.describe()
                )));
            }
        };
        for Call { rank, args: a, rets: r, .. } in calls {
            for (slot, buffer) in args.iter().zip(a).chain(rets.iter().zip(r)) {
                let what = format!("{} of rank {rank}", slot.name);
                match slot.kind {
                    Kind::Info => buffer.check(name, &what, DType::S32, &[])?,
                    Kind::Pivots => buffer.check(name, &what, DType::S32, &[m.min(n)])?,
                    Kind::Value => buffer.check(name, &what, dtype, &[])?,
                    Kind::Real => buffer.check(name, &what, dtype.real(), &[])?,
                    Kind::Rhs => buffer.check(name, &what, dtype, &[m, rhs])?,
                    Kind::Matrix => buffer.check(name, &what, dtype, &shard)?,
                }
            }
        }
        Ok(Problem { m, n, grid, rhs, dtype })
    }

    /// The shape of the shards of a matrix of order n.
    fn square_shard(&self, n: usize) -> Result<[usize; 2]> {
        let (name, ranks) = (self.name, self.grid.ranks());
        if !n.is_multiple_of(ranks) {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected n divisible by the {ranks} devices of the mesh axis, \
                 got n = {n}; pad A with an identity corner or use fewer devices"
            )));
        }
        Ok(if self.tall { [n, n / ranks] } else { [n / ranks, n] })
    }
}
