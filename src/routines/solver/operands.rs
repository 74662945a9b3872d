//! The checks of a call's operands and results. `slot.rs` describes these.
//!
//! Square matrices are `[n/P, n]` on each device, or `[n, n/P]` (`tall`), others `[m/p, n/q]` on a
//! p x q grid.

use super::slot::{Element, Extent, Kind, Signature};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::layout::Grid;
use crate::scalar::DType;

/// What a routine needs of its matrix, beyond the checks of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// As many rows as columns.
    Square,
    /// Each device holds whole columns, or whole rows.
    WholeColumns,
    /// Each device holds whole columns, or whole rows of a square matrix.
    WholeColumnsOrSquare,
    /// Each device holds whole rows.
    WholeRows,
    /// At least as many rows as columns.
    Tall,
    /// At least as many rows on each device as A has columns.
    TallShards,
}

impl Requirement {
    pub fn name(self) -> &'static str {
        match self {
            Requirement::Square => "square",
            Requirement::WholeColumns => "whole columns",
            Requirement::WholeColumnsOrSquare => "whole columns, or square",
            Requirement::WholeRows => "whole rows",
            Requirement::Tall => "tall",
            Requirement::TallShards => "tall shards",
        }
    }
}

/// The checked sizes of one call: those of the solver's matrix B, which is A or A^T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub m: usize,
    pub n: usize,
    pub grid: Grid,
    /// Right-hand sides per rank, or columns of a second matrix there; 0 if the routine takes none.
    pub rhs: usize,
    pub dtype: DType,
}

impl Problem {
    pub fn ranks(&self) -> usize {
        self.grid.ranks()
    }
}

/// An address in the rank's matrices, to query sizes.
pub fn shard(call: &Call) -> u64 {
    let matrices = call.rets.iter().chain(&call.args);
    matrices.map(|b| b.as_ptr().addr() as u64).next().unwrap_or_default()
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
    /// Whether the array of the matrix is the transpose of its shard.
    pub turned: bool,
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
        let matrix = &calls[0].args[Signature::matrix(args).expect("a matrix")];
        let &[rows, columns] = matrix.dims() else {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected a matrix, got {}",
                matrix.describe()
            )));
        };
        let given = [rows, columns];
        let is_square = self.requires.contains(&Requirement::Square);
        let (rows, columns) =
            if self.turned && !is_square { (columns, rows) } else { (rows, columns) };
        let (p, q) = (self.grid.rows(), self.grid.columns());
        let is_whole = if self.is_transpose { q == 1 } else { p == 1 };
        if self.requires.contains(&Requirement::WholeColumns) && !is_whole {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected whole rows or whole columns on each device, got a grid \
                 of {p} x {q} devices; reshard A along one axis"
            )));
        }
        if self.requires.contains(&Requirement::WholeRows)
            && !(self.is_transpose && q == 1 || p * q == 1)
        {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected whole rows on each device, got columns, or a grid of {p} x \
                 {q} devices; reshard A by rows"
            )));
        }
        let order = if self.tall { rows } else { columns };
        let (shard, m, n, grid) = match is_square {
            true => (self.square_shard(order)?, order, order, Grid::new(1, p * q)),
            false if self.is_transpose => (given, columns * q, rows * p, self.grid.transposed()),
            false => (given, rows * p, columns * q, self.grid),
        };
        let (m_of_a, n_of_a) = if self.is_transpose { (n, m) } else { (m, n) };
        if self.requires.contains(&Requirement::Tall) && m_of_a < n_of_a {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected at least as many rows as columns, got {m_of_a} x {n_of_a}"
            )));
        }
        let rows = m_of_a / (p * q);
        if self.requires.contains(&Requirement::TallShards) && rows < n_of_a {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected at least as many rows on each device as columns, got {rows} \
                 rows and {n_of_a} columns; reshard A by columns, and use geqrf"
            )));
        }
        let is_whole = if self.is_transpose { q == 1 && m == n } else { p == 1 };
        if self.requires.contains(&Requirement::WholeColumnsOrSquare) && !is_whole {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected whole columns on each device, or whole rows of a square \
                 matrix, got {m_of_a} x {n_of_a} on a grid of {p} x {q} devices; reshard A by columns"
            )));
        }
        let dtype = matrix.dtype();
        let matrices = args.iter().filter(|slot| slot.kind.is_matrix()).count();
        let sides = Signature::find(args, Kind::Rhs).or(Signature::find(args, Kind::Aligned));
        let rhs = match sides.map(|b| (&calls[0].args[b], calls[0].args[b].dims())) {
            None if matrices > 1 => n / (p * q),
            None => 0,
            Some((_, &[_, k])) => k,
            Some((b, _)) => {
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: b: expected a matrix [rows, k], got {}",
                    b.describe()
                )));
            }
        };
        for Call { rank, args: a, rets: r, .. } in calls {
            for (slot, buffer) in args.iter().zip(a).chain(rets.iter().zip(r)) {
                let what = format!("{} of rank {rank}", slot.name);
                let of = match slot.kind.element() {
                    Element::Int32 => DType::S32,
                    Element::Real => dtype.real(),
                    Element::OfA => dtype,
                };
                let extent = |extent: &Extent| match extent {
                    Extent::M => m_of_a,
                    Extent::N => n_of_a,
                    Extent::Least => m.min(n),
                    Extent::K => rhs,
                    Extent::Rows => m_of_a / (p * q),
                    Extent::Columns => n_of_a / (p * q),
                };
                let shape = match slot.kind.is_matrix() {
                    true => shard.to_vec(),
                    false => slot.shape.iter().map(extent).collect(),
                };
                buffer.check(name, &what, of, &shape)?;
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

/// Row interchanges must be valid row numbers.
pub(super) fn check_rows(routine: &str, rows: &[i32], n: usize) -> Result<()> {
    let wrong = |&row: &i32| usize::try_from(row).map_or(true, |row| row >= n);
    match rows.iter().position(wrong) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!(
            "meshsolve.{}: pivots: expected row numbers from 0 to {}, got {} at position {at}; pass \
             the pivots of the factorisation",
            routine,
            n - 1,
            rows[at]
        ))),
    }
}
