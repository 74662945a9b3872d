//! The CUDA kernels of `kernels/`, as plain C++ on the host, against plain references; and their
//! launches, on an emulated driver.

mod called;
mod columns;
mod copy;
mod device;
mod emulator;
mod engine;
mod entries;
mod far;
mod gpu;
mod interchanges;
mod launch;
#[path = "../../benchmarks/native/src/cuda/mod.rs"]
#[allow(dead_code)]
mod measure;
mod measured_ranks;
mod measured_transpositions;
mod memory;
mod panels;
mod progress;
mod reach;
mod rows;
mod site;
mod solve;
mod transpose;
mod triangle;
