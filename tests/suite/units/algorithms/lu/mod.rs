//! Tests of the parts of LU.

mod share;
