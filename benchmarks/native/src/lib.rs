//! Measurements of meshsolve and what it is compared with. See `python` for what Python sees.

mod cpu;
mod cuda;
#[path = "../../../tests/common/diagnose.rs"]
mod diagnose;
mod python;
