//! Tests of calls over processes that need no MPI.

mod moves;
