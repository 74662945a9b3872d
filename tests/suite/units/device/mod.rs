//! Tests of the devices.

mod cpu;
mod cuda;
mod squares;
