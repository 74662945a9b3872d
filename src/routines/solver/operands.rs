//! The operands and results of the solvers, and their checks.
//!
//! Matrices are `[n/P, n]` on each device, or `[n, n/P]` (`tall`). Right-hand sides are `[n, k]`,
//! pivots int32 `[n]`, info an int32 scalar. Values are scalars of the matrix's dtype, or real
//! ones. A result starts as the operand that `from` names.

use crate::call::Call;
use crate::error::{Error, Result};
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

/// The checked sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub n: usize,
    pub ranks: usize,
    /// Right-hand sides per rank; 0 if the routine takes none.
    pub rhs: usize,
    pub dtype: DType,
}

impl Problem {
    /// Checks every buffer of some or all of the `ranks`; `calls` is in rank order. Matrices are
    /// `tall`, `[n, n/P]`, or wide, `[n/P, n]`. It returns an error for a wrong number, dtype or
    /// shape of buffers.
    pub fn new(
        name: &str,
        signature: &Signature,
        tall: bool,
        ranks: usize,
        calls: &[Call],
    ) -> Result<Problem> {
        let Signature { args, rets } = *signature;
        for Call { rank, args: a, rets: r, .. } in calls {
            if a.len() != args.len() || r.len() != rets.len() {
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: rank {rank}: expected operands {}; got {} operands and {} \
                     results",
                    signature.describe(),
                    a.len() + 1,
                    r.len()
                )));
            }
        }
        let matrix = &calls[0].args[Signature::find(args, Kind::Matrix).expect("a matrix")];
        let n = match (matrix.dims(), tall) {
            (&[n, _], true) | (&[_, n], false) => n,
            _ => {
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: a: expected a matrix, got {}",
                    matrix.describe()
                )));
            }
        };
        if !n.is_multiple_of(ranks) {
            return Err(Error::invalid(format!(
                "meshsolve.{name}: a: expected n divisible by the {ranks} devices of the mesh axis, \
                 got n = {n}; pad A with an identity corner or use fewer devices"
            )));
        }
        let dtype = matrix.dtype();
        let rhs = match Signature::find(args, Kind::Rhs).map(|b| calls[0].args[b].dims()) {
            None => 0,
            Some(&[_, k]) => k,
            Some(_) => {
                let b = &calls[0].args[Signature::find(args, Kind::Rhs).expect("just found")];
                return Err(Error::invalid(format!(
                    "meshsolve.{name}: b: expected [{n}, k], got {}",
                    b.describe()
                )));
            }
        };
        let local = n / ranks;
        for Call { rank, args: a, rets: r, .. } in calls {
            for (slot, buffer) in args.iter().zip(a).chain(rets.iter().zip(r)) {
                let what = format!("{} of rank {rank}", slot.name);
                match slot.kind {
                    Kind::Info => buffer.check(name, &what, DType::S32, &[])?,
                    Kind::Pivots => buffer.check(name, &what, DType::S32, &[n])?,
                    Kind::Value => buffer.check(name, &what, dtype, &[])?,
                    Kind::Real => buffer.check(name, &what, dtype.real(), &[])?,
                    Kind::Rhs => buffer.check(name, &what, dtype, &[n, rhs])?,
                    Kind::Matrix if tall => buffer.check(name, &what, dtype, &[n, local])?,
                    Kind::Matrix => buffer.check(name, &what, dtype, &[local, n])?,
                }
            }
        }
        Ok(Problem { n, ranks, rhs, dtype })
    }
}
