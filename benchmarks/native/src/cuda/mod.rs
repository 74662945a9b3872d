//! Measurements on a CUDA device, with checks. The tests of CUDA kernels include this module.

pub mod panel;
pub mod ranks;
pub mod transpositions;

use meshsolve::device::cuda::nvrtc::Program;
use meshsolve::device::cuda::sources;

/// Writes elements that encode their index, and checks their places.
static CHECK: Program<'static> = Program {
    name: "check.cu",
    source: include_str!("../../kernels/check.cu"),
    headers: sources::HEADERS,
    options: sources::OPTIONS,
};
