//! The kernels of `kernels/`, embedded as source. Each `.cu` file is one translation unit whose entry points
//! are `extern "C" __global__`; NVRTC gets all headers with it, by the names they are included by.

use super::nvrtc::Program;

/// For all kernels.
pub const OPTIONS: &[&str] = &["--std=c++17"];

macro_rules! text {
    ($file:expr) => {
        include_str!(concat!("../../../kernels/", $file))
    };
}

macro_rules! headers {
    ($($file:literal)*) => { &[$(($file, text!($file))),*] };
}

macro_rules! kernels {
    ($($name:literal)*) => {
        &[$(Program {
            name: concat!($name, ".cu"),
            source: text!(concat!($name, ".cu")),
            headers: HEADERS,
            options: OPTIONS,
        }),*]
    };
}

/// The files `kernels/*.cuh`.
static HEADERS: &[(&str, &str)] =
    headers!["bits.cuh" "common.cuh" "pieces.cuh" "slice.cuh" "tiles.cuh"];

/// The files `kernels/*.cu`.
static KERNELS: &[Program<'static>] = kernels![
    "columns" "conjugate" "copy" "fill" "moduli" "pivots" "rows" "scale" "transpose_blocks" "transpose_c2r" "transpose_panels"
    "transpose_skinny" "transpose_square" "triangle" "yardstick"
];

/// Names of the kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name.trim_end_matches(".cu"))
}

/// A kernel by its name, that of its file without `.cu`.
pub fn kernel(name: &str) -> Option<&'static Program<'static>> {
    KERNELS.iter().find(|kernel| kernel.name.strip_suffix(".cu") == Some(name))
}
