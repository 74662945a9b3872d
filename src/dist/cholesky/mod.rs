//! Cholesky: `A = L L^H`, then `L y = b`, `L^H x = y`.

mod factor;

pub use factor::factor;

use crate::backend::{Op, Triangle};

/// The triangular solves that make up a solve with `L L^H`, or with its conjugate.
pub fn sweeps(conjugated: bool) -> [(Triangle, Op); 2] {
    let (forward, backward) =
        if conjugated { (Op::Conjugate, Op::Transpose) } else { (Op::None, Op::Adjoint) };
    [(Triangle::Lower, forward), (Triangle::Lower, backward)]
}
