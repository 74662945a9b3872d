//! Tests of the routines.

mod solver;
