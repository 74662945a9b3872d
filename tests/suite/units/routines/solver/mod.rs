//! Tests of the parts of the solvers.

mod sizes;
mod widths;
