//! The description of a solver routine, and its attributes:
//! - `storage`: "rows": a is `[n/P, n]`. "columns": a is `[n, n/P]`, and so is the result in its
//!   memory, which then holds the `[n/P, n]` of rows. "column-major": `[n, n/P]` with layout (1,
//!   0).
//! - `lower` (0/1): the triangle of A that is read or made.
//! - `structure` of an A that is factored as L U or multiplied with: "general"; "hermitian",
//!   "symmetric": one triangle is read; "triangular": a triangle is all of an A that is multiplied
//!   with.
//! - `trans` (0, 1, 2): solve with A, A^T, A^H.
//! - `unit_diagonal` (0/1).
//! - `norm` ("1", "inf", "fro"): the norm to find.
//! - `rhs`: "replicated": b is equal on all ranks; "columns": each rank has its own k columns.
//! - `order` ("auto", "natural", "cyclic") of the columns during the work; a factor keeps it.
//! - `tile`: the width; 0: the library chooses.
//! - `engine`: "meshsolve", or "cusolvermg" on CUDA devices. A factor keeps it, because it decides
//!   on tiles.
//! - `order_of_a`: the order of A without the identity corner that pads it; 0: no padding.
//! - `on_failure`: "nan"; "raise": the call fails where `info` is not 0.
//! - `grid_rows`: p, where A is sharded over a p x q grid of devices. 0: whole rows or columns, as
//!   `storage` says.
//! - `alone` (1): no other device has its own call at the same time. The library then informs the
//!   user if the matrix is large.

use super::operands::{Expected, Problem, Requirement, Signature, Slot};
use crate::call::{Attributes, Call};
use crate::device::Op;
use crate::error::{Error, Result};
use crate::layout::{Grid, Mapping, Storage};
use crate::scalar::DType;

/// The factorisation that a routine makes or uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Cholesky,
    Lu,
    /// A is triangular itself.
    Triangular,
    /// The routine only multiplies with A.
    Residual,
    /// The routine finds a norm of A.
    Norm,
}

impl Family {
    /// Whether the routine only reads the matrix, in place and in any storage.
    pub fn reads_only(self) -> bool {
        matches!(self, Family::Triangular | Family::Residual | Family::Norm)
    }

    const fn requires(self) -> &'static [Requirement] {
        match self {
            Family::Norm => &[],
            _ => &[Requirement::Square, Requirement::WholeColumns],
        }
    }
}

/// The steps of a routine, in this order.
#[derive(Debug)]
pub struct Verb {
    pub name: &'static str,
    pub summary: &'static str,
    pub signature: Signature,
    pub requires: &'static [Requirement],
    pub family: Family,
    /// Brings A to the solver's form: transposes shards, mirrors the triangle, distributes columns.
    pub arrange: bool,
    /// Finds norm1(A) before A is overwritten.
    pub norm: bool,
    pub factor: bool,
    pub solve: bool,
    /// Estimates the condition of A from its factor and norm1(A).
    pub condition: bool,
    pub invert: bool,
    /// The reverse of `arrange`.
    pub restore: bool,
    /// The solver's matrix is A itself: rows, which are A^T, are transposed across the shards.
    pub upright: bool,
}

impl Verb {
    /// A routine without any step.
    pub const fn new(
        family: Family,
        name: &'static str,
        summary: &'static str,
        args: &'static [Slot],
        rets: &'static [Slot],
    ) -> Verb {
        let signature = Signature { args, rets };
        Verb {
            name,
            summary,
            signature,
            requires: family.requires(),
            family,
            arrange: false,
            norm: false,
            factor: false,
            solve: false,
            condition: false,
            invert: false,
            restore: false,
            upright: false,
        }
    }
}

/// How B is distributed over the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhs {
    Replicated,
    Columns,
}

/// The structure of a matrix that is factored as L U or multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    General,
    Hermitian,
    Symmetric,
    /// Only for multiplication, not for a factorisation.
    Triangular,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    One,
    Infinity,
    Frobenius,
}

/// The engine that factors a matrix and solves with its factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Own,
    CusolverMg,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub verb: &'static Verb,
    pub storage: Storage,
    pub lower: bool,
    pub structure: Structure,
    /// Whether the diagonal of a triangular matrix is all ones and not read.
    pub unit_diagonal: bool,
    /// The operation on A in a solve.
    pub op: Op,
    pub norm: Norm,
    pub rhs: Rhs,
    /// The requested mapping of columns to ranks, if any.
    pub mapping: Option<Mapping>,
    pub tile: Option<usize>,
    pub engine: Engine,
    /// The order of A without its identity corner, which does not count in magnitudes.
    pub unpadded: Option<usize>,
    /// Rows of the grid of devices, where A is sharded along both axes.
    pub grid_rows: Option<usize>,
    /// Whether the call fails where there is no answer, instead of returning NaN.
    pub raises: bool,
    /// Whether no other device has its own call at the same time.
    pub alone: bool,
}

/// From this number of columns per worker on, tiles are twice as wide.
const WIDE_FROM: usize = 4096;

/// The width of the tile columns of an n x n matrix. Wide tiles suit the product kernels, and their
/// updates pass over the matrix fewer times. Narrow tiles keep panels a small part of the work and
/// give every worker many. The widths come from measurements, not from timing at run time.
pub fn cpu_tile_width(n: usize, dtype: DType, workers: usize) -> usize {
    let wide = match dtype {
        DType::C128 => 96,
        _ => 128,
    };
    match n {
        0..1536 => 64,
        _ if n / workers < WIDE_FROM => wide,
        _ => 2 * wide,
    }
}

impl Verb {
    /// The attributes of a call site of this routine.
    pub(super) fn options(&'static self, attributes: &dyn Attributes) -> Result<Options> {
        let bad = |name: &str, expected: &str, got: String| {
            Error::invalid(format!(
                "meshsolve.{}: attribute `{name}`: expected {expected}, got {got}",
                self.name
            ))
        };
        let storage = match attributes.text("storage") {
            None => Storage::Rows,
            Some(name) => Storage::from_name(&name).ok_or_else(|| {
                bad("storage", "\"rows\", \"columns\" or \"column-major\"", format!("{name:?}"))
            })?,
        };
        let lower = match attributes.int("lower").unwrap_or(0) {
            0 => false,
            1 => true,
            other => return Err(bad("lower", "0 or 1", other.to_string())),
        };
        let structure = match attributes.text("structure").as_deref() {
            None | Some("general") => Structure::General,
            Some("hermitian") => Structure::Hermitian,
            Some("symmetric") => Structure::Symmetric,
            Some("triangular") if self.family == Family::Residual => Structure::Triangular,
            Some(other) => {
                let expected = match self.family {
                    Family::Residual => {
                        "\"general\", \"hermitian\", \"symmetric\" or \"triangular\""
                    }
                    _ => "\"general\", \"hermitian\" or \"symmetric\"",
                };
                return Err(bad("structure", expected, format!("{other:?}")));
            }
        };
        let unit_diagonal = match attributes.int("unit_diagonal").unwrap_or(0) {
            0 => false,
            1 => true,
            other => return Err(bad("unit_diagonal", "0 or 1", other.to_string())),
        };
        let op = match attributes.int("trans").unwrap_or(0) {
            0 => Op::None,
            1 => Op::Transpose,
            2 => Op::Adjoint,
            other => return Err(bad("trans", "0, 1 or 2", other.to_string())),
        };
        let norm = match attributes.text("norm").as_deref() {
            None | Some("1") => Norm::One,
            Some("inf") => Norm::Infinity,
            Some("fro") => Norm::Frobenius,
            Some(other) => {
                return Err(bad("norm", "\"1\", \"inf\" or \"fro\"", format!("{other:?}")));
            }
        };
        let rhs = match attributes.text("rhs").as_deref() {
            Some("replicated") => Rhs::Replicated,
            Some("columns") => Rhs::Columns,
            None if !self.solve => Rhs::Replicated,
            other => return Err(bad("rhs", "\"replicated\" or \"columns\"", format!("{other:?}"))),
        };
        let mapping = match attributes.text("order").as_deref() {
            None | Some("auto") => None,
            Some("natural") => Some(Mapping::Block),
            Some("cyclic") => Some(Mapping::BlockCyclic),
            Some(other) => {
                return Err(bad(
                    "order",
                    "\"auto\", \"natural\" or \"cyclic\"",
                    format!("{other:?}"),
                ));
            }
        };
        let tile = match attributes.int("tile").unwrap_or(0) {
            0 => None,
            t @ 1..=8192 => Some(t as usize),
            other => return Err(bad("tile", "a width from 1 to 8192, or 0", other.to_string())),
        };
        let engine = match attributes.text("engine").as_deref() {
            None | Some("meshsolve") => Engine::Own,
            Some("cusolvermg") => Engine::CusolverMg,
            Some(other) => {
                let expected = "\"meshsolve\" or \"cusolvermg\"";
                return Err(bad("engine", expected, format!("{other:?}")));
            }
        };
        let unpadded = match attributes.int("order_of_a").unwrap_or(0) {
            0 => None,
            n @ 1.. => Some(n as usize),
            other => return Err(bad("order_of_a", "an order, or 0", other.to_string())),
        };
        let grid_rows = match attributes.int("grid_rows").unwrap_or(0) {
            0 => None,
            p @ 1.. => Some(p as usize),
            other => {
                return Err(bad("grid_rows", "rows of a grid of devices, or 0", other.to_string()));
            }
        };
        let raises = match attributes.text("on_failure").as_deref() {
            None | Some("nan") => false,
            Some("raise") => true,
            Some(other) => {
                return Err(bad("on_failure", "\"nan\" or \"raise\"", format!("{other:?}")));
            }
        };
        let alone = match attributes.int("alone").unwrap_or(0) {
            0 => false,
            1 => true,
            other => return Err(bad("alone", "0 or 1", other.to_string())),
        };
        Ok(Options {
            verb: self,
            storage,
            lower,
            structure,
            unit_diagonal,
            op,
            norm,
            rhs,
            mapping,
            tile,
            engine,
            unpadded,
            grid_rows,
            raises,
            alone,
        })
    }
}

impl Options {
    /// Checks the buffers of `calls`, which belong to a call of `ranks` ranks.
    pub(super) fn problem(&self, ranks: usize, calls: &[Call]) -> Result<Problem> {
        // The shape of the caller's array; a factor of columns is an array of rows.
        let tall = match self.storage {
            Storage::Rows => false,
            Storage::Columns => self.verb.arrange || self.verb.family.reads_only(),
            Storage::ColumnMajor => true,
        };
        let rows = self.grid_rows.unwrap_or(if self.storage.is_transpose() { ranks } else { 1 });
        if !ranks.is_multiple_of(rows) {
            return Err(Error::invalid(format!(
                "meshsolve.{}: attribute `grid_rows`: expected a divisor of the {ranks} devices, got \
                 {rows}",
                self.verb.name
            )));
        }
        let expected = Expected {
            name: self.verb.name,
            signature: &self.verb.signature,
            requires: self.verb.requires,
            grid: Grid::new(rows, ranks / rows),
            tall,
            is_transpose: self.storage.is_transpose(),
        };
        expected.check(calls)
    }

    pub(super) fn wrong_dtype(&self, dtype: DType) -> Error {
        Error::invalid(format!(
            "meshsolve.{}: a: expected float32, float64, complex64 or complex128, got {}",
            self.verb.name,
            dtype.name()
        ))
    }

    /// Whether the engine solves with a factor: its `getrs` supports no transposes.
    pub fn engine_solves(&self) -> bool {
        let transposes = self.verb.family == Family::Lu && self.op_on_b(self.op).transposes();
        self.engine == Engine::CusolverMg && !transposes
    }
}
