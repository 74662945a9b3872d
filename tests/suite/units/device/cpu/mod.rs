//! Tests of the kernels of CPU devices.

mod back;
mod chase;
mod divide;
mod one_stage;
#[cfg(target_os = "linux")]
mod pages;
mod product;
mod reflect;
