//! On a CUDA device, checked as well as measured. The tests of CUDA kernels include this module.

pub mod panel;
pub mod ranks;
pub mod transpositions;

use meshsolve::device::cuda::nvrtc::Program;
use meshsolve::device::cuda::sources;

/// Elements that tell their number, and whether each is where it belongs.
static CHECK: Program<'static> = Program {
    name: "check.cu",
    source: include_str!("../../kernels/check.cu"),
    headers: sources::HEADERS,
    options: sources::OPTIONS,
};
