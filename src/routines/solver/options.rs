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
//! - `first`, `vectors`: only so many eigenvectors, from the first one on, counted from 0. `vectors` 0:
//!   all. Other columns of v have no meaning then.
//! - `function` ("sqrt", "log", "exp", "inverse_sqrt", "inverse") of a Hermitian matrix.
//! - `rhs`: "replicated": b is equal on all ranks; "columns": each rank has its own k columns.
//! - `order` ("auto", "natural", "cyclic") of the columns during the work; a factor keeps it.
//! - `tile`: the width; 0: the library chooses.
//! - `engine`: "meshsolve", or "cusolvermg" on CUDA devices. A factor keeps it, because it decides
//!   on tiles. "scalapack": the ranks are processes, with a device each.
//! - `order_of_a`: the order of A without the identity corner that pads it; 0: no padding.
//! - `on_failure`: "nan"; "raise": the call fails where `info` is not 0.
//! - `grid_rows`: p, where A is sharded over a p x q grid of devices. 0: whole rows or columns, as
//!   `storage` says.
//! - `alone` (1): no other device has its own call at the same time. The library then informs the
//!   user if the matrix is large.

use super::operands::{Expected, Problem};
use super::routine::{Family, OWN_ATTRIBUTES, SolverRoutine};
use crate::algorithms::eigen::Function;
use crate::call::{Attributes, Call};
use crate::device::Op;
use crate::error::{Error, Result};
use crate::layout::{Grid, Mapping, Storage};
use crate::scalar::DType;

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

/// Who performs the stages of a call; `engine` has what each of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    Native,
    CusolverMg,
    Scalapack,
}

impl EngineName {
    /// The values of the attribute, the default first.
    pub const ALL: [(&'static str, EngineName); 3] = [
        ("meshsolve", EngineName::Native),
        ("cusolvermg", EngineName::CusolverMg),
        ("scalapack", EngineName::Scalapack),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub routine: &'static SolverRoutine,
    pub storage: Storage,
    pub lower: bool,
    pub structure: Structure,
    /// Whether the diagonal of a triangular matrix is all ones and not read.
    pub unit_diagonal: bool,
    /// The operation on A in a solve.
    pub op: Op,
    pub norm: Norm,
    pub function: Function,
    /// The first of the eigenvectors to find, and their number; all without it.
    pub vectors: Option<(usize, usize)>,
    pub rhs: Rhs,
    /// The requested mapping of columns to ranks, if any.
    pub mapping: Option<Mapping>,
    pub tile: Option<usize>,
    pub engine: EngineName,
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

/// The attributes of a call site, with errors that name routine and attribute.
struct Reader<'a> {
    routine: &'static str,
    attributes: &'a dyn Attributes,
}

impl Reader<'_> {
    fn wrong(&self, name: &str, expected: &str, got: impl std::fmt::Display) -> Error {
        Error::invalid(format!(
            "meshsolve.{}: attribute `{name}`: expected {expected}, got {got}",
            self.routine
        ))
    }

    /// The value of a name; the first one without the attribute.
    fn choice<V: Copy>(&self, name: &str, values: &[(&str, V)]) -> Result<V> {
        let Some(got) = self.attributes.text(name) else { return Ok(values[0].1) };
        let found = values.iter().find(|(value, _)| *value == got);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = values.iter().map(|(name, _)| format!("{name:?}")).collect();
            let (last, others) = names.split_last().expect("some value");
            let expected = format!("{} or {last}", others.join(", "));
            self.wrong(name, &expected, format!("{got:?}"))
        })
    }

    fn flag(&self, name: &str) -> Result<bool> {
        match self.attributes.int(name).unwrap_or(0) {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.wrong(name, "0 or 1", other)),
        }
    }

    /// A number up to `most`; `None` for 0, as without the attribute.
    fn count(&self, name: &str, most: i64, expected: &str) -> Result<Option<usize>> {
        match self.attributes.int(name).unwrap_or(0) {
            0 => Ok(None),
            number if (1..=most).contains(&number) => Ok(Some(number as usize)),
            other => Err(self.wrong(name, expected, other)),
        }
    }
}

impl SolverRoutine {
    /// The attributes of a call site of this routine.
    pub(super) fn options(&'static self, attributes: &dyn Attributes) -> Result<Options> {
        let given = Reader { routine: self.name, attributes };
        let is_foreign = |name: &&&str| {
            let is_given = || attributes.text(name).is_some() || attributes.int(name).is_some();
            !self.attributes.contains(*name) && is_given()
        };
        if let Some(name) = OWN_ATTRIBUTES.iter().find(is_foreign) {
            let own = match self.attributes {
                [] => "none of its own".to_owned(),
                own => format!("`{}` as its own", own.join("`, `")),
            };
            let expected = format!("a routine with this attribute, and not one that has {own}");
            return Err(given.wrong(name, &expected, "it; leave it out"));
        }
        let structures = [
            ("general", Structure::General),
            ("hermitian", Structure::Hermitian),
            ("symmetric", Structure::Symmetric),
            ("triangular", Structure::Triangular),
        ];
        let factored = self.family != Family::Residual;
        let distributions = [("replicated", Rhs::Replicated), ("columns", Rhs::Columns)];
        if self.has_rhs() && attributes.text("rhs").is_none() {
            return Err(given.wrong("rhs", "\"replicated\" or \"columns\"", "None"));
        }
        let mappings = [
            ("auto", None),
            ("natural", Some(Mapping::Block)),
            ("cyclic", Some(Mapping::BlockCyclic)),
        ];
        Ok(Options {
            routine: self,
            storage: given.choice("storage", &Storage::ALL)?,
            lower: given.flag("lower")?,
            structure: given.choice("structure", &structures[..if factored { 3 } else { 4 }])?,
            unit_diagonal: given.flag("unit_diagonal")?,
            op: match attributes.int("trans").unwrap_or(0) {
                0 => Op::None,
                1 => Op::Transpose,
                2 => Op::Adjoint,
                other => return Err(given.wrong("trans", "0, 1 or 2", other)),
            },
            norm: given.choice(
                "norm",
                &[("1", Norm::One), ("inf", Norm::Infinity), ("fro", Norm::Frobenius)],
            )?,
            function: given.choice("function", &Function::ALL)?,
            vectors: {
                let first = given.count("first", i64::MAX, "a position from 0 on")?.unwrap_or(0);
                let count = given.count("vectors", i64::MAX, "a number of eigenvectors, or 0")?;
                if first > 0 && count.is_none() {
                    let expected = "0 without the attribute `vectors`";
                    return Err(given.wrong("first", expected, first));
                }
                count.map(|count| (first, count))
            },
            rhs: given.choice("rhs", &distributions)?,
            mapping: given.choice("order", &mappings)?,
            tile: given.count("tile", 1 << 20, "a width from 1 to 1048576, or 0")?,
            engine: given.choice("engine", &EngineName::ALL)?,
            unpadded: given.count("order_of_a", i64::MAX, "an order, or 0")?,
            grid_rows: given.count("grid_rows", i64::MAX, "rows of a grid of devices, or 0")?,
            raises: given.choice("on_failure", &[("nan", false), ("raise", true)])?,
            alone: given.flag("alone")?,
        })
    }
}

impl Options {
    /// Checks the buffers of `calls`, which belong to a call of `ranks` ranks.
    pub(super) fn problem(&self, ranks: usize, calls: &[Call]) -> Result<Problem> {
        // The shape of the caller's array; a factor of columns is an array of rows.
        let tall = match self.storage {
            Storage::Rows => false,
            Storage::Columns => self.routine.takes_matrix(),
            Storage::ColumnMajor => true,
        };
        let rows = self.grid_rows.unwrap_or(if self.storage.is_transpose() { ranks } else { 1 });
        if !ranks.is_multiple_of(rows) {
            return Err(Error::invalid(format!(
                "meshsolve.{}: attribute `grid_rows`: expected a divisor of the {ranks} devices, got \
                 {rows}",
                self.routine.name
            )));
        }
        let expected = Expected {
            name: self.routine.name,
            signature: &self.routine.signature,
            requires: self.routine.requires,
            grid: Grid::new(rows, ranks / rows),
            tall,
            turned: self.storage == Storage::Columns && !self.routine.takes_matrix(),
            is_transpose: self.storage.is_transpose(),
        };
        let problem = expected.check(calls)?;
        let order = self.unpadded.unwrap_or(problem.n).min(problem.n);
        match self.vectors {
            Some((first, count)) if first.saturating_add(count) > order => {
                Err(Error::invalid(format!(
                    "meshsolve.{}: attribute `vectors`: expected at most the {} eigenvectors from {first} \
                     on, got {count}",
                    self.routine.name,
                    order.saturating_sub(first)
                )))
            }
            _ => Ok(problem),
        }
    }

    pub(super) fn wrong_dtype(&self, dtype: DType) -> Error {
        Error::invalid(format!(
            "meshsolve.{}: a: expected float32, float64, complex64 or complex128, got {}",
            self.routine.name,
            dtype.name()
        ))
    }
}
