//! Tests of the kernels of CPU devices.

mod back;
mod chase;
mod divide;
mod product;
mod reflect;
