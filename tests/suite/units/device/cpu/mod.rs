//! Tests of the kernels of CPU devices.

mod back;
mod chase;
mod divide;
mod one_stage;
mod product;
mod reflect;
