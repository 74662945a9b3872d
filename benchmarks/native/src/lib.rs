//! Measurements of meshsolve and its baselines. See `python` for the Python interface.

mod cpu;
mod cuda;
#[path = "../../../tests/common/diagnose.rs"]
mod diagnose;
mod python;
