//! The Cholesky routines: what each takes, gives and does, and its attributes.
//!
//! | routine | operands (after `place`) | results | does |
//! |---|---|---|---|
//! | `posv` | a, b | work, x, info | factors A and solves A X = B |
//! | `potrf` | a | work, info | factors A |
//! | `potrs` | work, info, b | x | solves with a factor |
//! | `pack` | c | work | a triangle of scipy's `(c, lower)` to the solver's form |
//! | `unpack` | work, info | c | and back |
//! | `logdet` | work, info | logdet | log det A from a factor |
//!
//! The factor that `potrf` and `pack` leave, `work`, does not depend on the number of devices: read as
//! JAX's array it holds U of A = U^H U in its upper triangle, sharded by rows; with storage
//! "column-major" it holds L of A = L L^H in its lower one. Names and `info` are LAPACK's.
//!
//! Attributes: `storage` ("rows": a is `[n/P, n]`; "columns": a is `[n, n/P]` and so is the result that
//! takes its memory, which then holds the `[n/P, n]` of rows; "column-major": `[n, n/P]` with layout
//! (1, 0)), `lower` (0/1: which triangle of A is read or made), `rhs`
//! ("replicated": b is equal on all ranks; "columns": each rank has k of its own), `order` ("auto",
//! "natural", "cyclic": of the columns while they are worked on; a factor keeps it), `tile` (0: chosen
//! here), `order_of_a` (of A without the identity corner that pads it; 0: there is none).

use std::sync::Arc;
use std::time::Instant;

use super::job::Cholesky;
use super::operands::{Problem, Signature, Slot, info, matrix, real, rhs};
use crate::call::{Attributes, Call, Job};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::layout::{Order, Storage};
use crate::routines::{Configured, Routine};
use crate::scalar::DType;

/// What a routine does, in this order.
#[derive(Debug)]
pub struct Verb {
    pub name: &'static str,
    pub signature: Signature,
    /// Brings A to the solver's form: transposes shards, mirrors the triangle, deals columns.
    pub arrange: bool,
    pub factor: bool,
    pub solve: bool,
    /// The reverse of `arrange`.
    pub restore: bool,
}

/// A routine that does nothing yet.
const fn verb(name: &'static str, args: &'static [Slot], rets: &'static [Slot]) -> Verb {
    let signature = Signature { args, rets };
    Verb { name, signature, arrange: false, factor: false, solve: false, restore: false }
}

pub static POSV: Verb = Verb {
    arrange: true,
    factor: true,
    solve: true,
    ..verb(
        "posv",
        &[matrix("a"), rhs("b")],
        &[matrix("work").starts_as(0), rhs("x").starts_as(1), info("info")],
    )
};

static POTRF: Verb = Verb {
    arrange: true,
    factor: true,
    ..verb("potrf", &[matrix("a")], &[matrix("work").starts_as(0), info("info")])
};

static POTRS: Verb = Verb {
    solve: true,
    ..verb("potrs", &[matrix("work"), info("info"), rhs("b")], &[rhs("x").starts_as(2)])
};

static PACK: Verb =
    Verb { arrange: true, ..verb("pack", &[matrix("c")], &[matrix("work").starts_as(0)]) };

static UNPACK: Verb = Verb {
    restore: true,
    ..verb("unpack", &[matrix("work"), info("info")], &[matrix("c").starts_as(0)])
};

static LOGDET: Verb = verb("logdet", &[matrix("work"), info("info")], &[real("logdet")]);

pub static ROUTINES: [Routine; 6] = [
    Routine {
        name: "posv",
        summary: "solve A X = B, A Hermitian positive definite",
        configure: |a| configure(&POSV, a),
    },
    Routine {
        name: "potrf",
        summary: "Cholesky factor of A, in the solver's layout",
        configure: |a| configure(&POTRF, a),
    },
    Routine {
        name: "potrs",
        summary: "solve A X = B with the factor of A",
        configure: |a| configure(&POTRS, a),
    },
    Routine {
        name: "pack",
        summary: "a triangular factor as scipy has it, to the solver's layout",
        configure: |a| configure(&PACK, a),
    },
    Routine {
        name: "unpack",
        summary: "a factor in the solver's layout, to scipy's",
        configure: |a| configure(&UNPACK, a),
    },
    Routine {
        name: "logdet",
        summary: "log det A from its factor",
        configure: |a| configure(&LOGDET, a),
    },
];

/// How B is spread over the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhs {
    Replicated,
    Columns,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub verb: &'static Verb,
    pub storage: Storage,
    pub lower: bool,
    pub rhs: Rhs,
    pub order: Order,
    pub tile: Option<usize>,
    /// Order of A without the identity corner that pads it, which says nothing about magnitudes.
    pub unpadded: Option<usize>,
}

/// Width of the tile columns of an n x n matrix: wide enough for the product kernels, narrow enough
/// that panels are a small part of the work. Measured, not timed at run time.
pub fn tile_width(n: usize, dtype: DType) -> usize {
    let wide = match dtype {
        DType::C128 => 96,
        _ => 128,
    };
    if n < 1536 { 64 } else { wide }
}

fn configure(verb: &'static Verb, attributes: &dyn Attributes) -> Result<Box<dyn Configured>> {
    let bad = |name: &str, expected: &str, got: String| {
        Error::invalid(format!(
            "meshsolve.{}: attribute `{name}`: expected {expected}, got {got}",
            verb.name
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
    let rhs = match attributes.text("rhs").as_deref() {
        Some("replicated") => Rhs::Replicated,
        Some("columns") => Rhs::Columns,
        None if !verb.solve => Rhs::Replicated,
        other => return Err(bad("rhs", "\"replicated\" or \"columns\"", format!("{other:?}"))),
    };
    // Every lane of the host reaches every shard, so the cyclic order gains nothing there and costs
    // a pass over the matrix: "auto" stays with the natural one (DESIGN.md has the figures).
    let order = match attributes.text("order").as_deref() {
        None | Some("auto" | "natural") => Order::Natural,
        Some("cyclic") => Order::Cyclic,
        Some(other) => {
            return Err(bad("order", "\"auto\", \"natural\" or \"cyclic\"", format!("{other:?}")));
        }
    };
    let tile = match attributes.int("tile").unwrap_or(0) {
        0 => None,
        t @ 1..=8192 => Some(t as usize),
        other => return Err(bad("tile", "a width from 1 to 8192, or 0", other.to_string())),
    };
    let unpadded = match attributes.int("order_of_a").unwrap_or(0) {
        0 => None,
        n @ 1.. => Some(n as usize),
        other => return Err(bad("order_of_a", "an order, or 0", other.to_string())),
    };
    Ok(Box::new(Options { verb, storage, lower, rhs, order, tile, unpadded }))
}

impl Configured for Options {
    fn prepare(&self, calls: Vec<Call>, since: Instant) -> Result<Arc<dyn Job>> {
        let name = self.verb.name;
        // As the caller's array has it; a factor of columns is an array of rows.
        let tall = match self.storage {
            Storage::Rows => false,
            Storage::Columns => self.verb.arrange,
            Storage::ColumnMajor => true,
        };
        let problem = Problem::new(name, &self.verb.signature, tall, &calls)?;
        dispatch!(problem.dtype, T => Ok(Arc::new(Cholesky::<T>::new(*self, problem, calls, since)?)),
        else => Err(Error::invalid(format!(
            "meshsolve.{name}: a: expected float32, float64, complex64 or complex128, got {}",
            problem.dtype.name()
        ))))
    }
}
