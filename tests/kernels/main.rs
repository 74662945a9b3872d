//! The CUDA kernels of `kernels/`, as plain C++ on the host, against plain references.

mod copy;
mod emulator;
mod memory;
mod transpose;
