//! The CUDA kernels of `kernels/`, as plain C++ on the host, against plain references.

mod columns;
mod copy;
mod device;
mod emulator;
mod far;
mod memory;
mod rows;
mod transpose;
#[path = "../transposition/mod.rs"]
mod transposition;
mod triangle;
