//! Tests of parts of the library, in the tree of its modules.

mod algorithms;
mod device;
mod matrix;
mod processes;
mod routines;
mod transpose;
