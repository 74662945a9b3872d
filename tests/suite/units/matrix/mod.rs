//! Tests of views of memory.

mod cells;
