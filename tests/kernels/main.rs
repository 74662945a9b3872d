//! The CUDA kernels of `kernels/`, as plain C++ on the host, against plain references; and what launches
//! them, on an emulated driver.

mod columns;
mod copy;
mod device;
mod emulator;
mod entries;
mod far;
mod gpu;
mod launch;
mod memory;
mod rows;
mod transpose;
#[path = "../transposition/mod.rs"]
mod transposition;
mod triangle;
