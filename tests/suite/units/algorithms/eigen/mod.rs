//! Tests of the parts of eigenvalue problems.

mod function;
mod values;
