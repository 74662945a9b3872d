//! Tests of CUDA devices that need no driver.

mod cache;
mod engine;
