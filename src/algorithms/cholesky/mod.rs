//! Cholesky: `A = L L^H`, then `L y = b`, `L^H x = y`, or `A^-1 = L^-H L^-1`.

mod factor;
mod inverse;

pub use factor::factor;
pub use inverse::inverse;

use crate::device::{Op, Triangle};

/// The triangular solves of a solve with `L L^H`, or with its conjugate.
pub fn sweeps(conjugated: bool) -> [(Triangle, Op); 2] {
    let (forward, backward) =
        if conjugated { (Op::Conjugate, Op::Transpose) } else { (Op::None, Op::Adjoint) };
    [(Triangle::Lower, forward), (Triangle::Lower, backward)]
}
