//! Tests of the algorithms.

mod eigen;
mod lu;
