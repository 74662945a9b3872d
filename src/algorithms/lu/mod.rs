//! LU with partial pivoting: `P A = L U`, L with ones on the diagonal. Pivots are LAPACK's, counted
//! from 0: row i was interchanged with row `pivots[i]` >= i.

mod factor;
mod inverse;
mod panel;
pub mod share;

pub use factor::factor;
pub use inverse::{inverse, more_elements};
pub use panel::finish_row;

use crate::device::{Op, Triangle};

/// The triangular solves of a solve with op(L U), and the place of the row interchanges: before
/// them (P b) or after them (P^T x).
pub fn sweeps(op: Op) -> ([(Triangle, Op); 2], Interchange) {
    let (lower, upper) = ((Triangle::UnitLower, op), (Triangle::Upper, op));
    match op.transposes() {
        false => ([lower, upper], Interchange::Before),
        true => ([upper, lower], Interchange::After),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interchange {
    /// In the order of the factorisation.
    Before,
    /// Undone in the reverse order.
    After,
}
