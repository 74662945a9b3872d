//! The kernels of `kernels/`, embedded as source. Each `.cu` file is one translation unit with
//! entry points `extern "C" __global__`. NVRTC gets all headers with it, by the names in its
//! includes.

use super::nvrtc::Program;
use crate::scalar::DType;

pub const OPTIONS: &[&str] = &[STANDARD];
const STANDARD: &str = "--std=c++17";

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

macro_rules! structures {
    ($($elements:literal)*) => {
        &[$(Program {
            name: "transpose_registers.cu",
            source: text!("transpose_registers.cu"),
            headers: HEADERS,
            options: &[STANDARD, concat!("-DELEMENTS=", $elements)],
        }),*]
    };
}

/// The files `kernels/*.cuh`.
pub static HEADERS: &[(&str, &str)] = headers![
    "bits.cuh" "bulk.cuh" "carrier.cuh" "common.cuh" "pieces.cuh" "registers.cuh" "skinny.cuh" "slice.cuh" "tiles.cuh"
];

/// The files `kernels/*.cu`.
static KERNELS: &[Program<'static>] = kernels![
    "columns" "conjugate" "copy" "fill" "moduli" "pivots" "rows" "transpose_blocks" "transpose_c2r" "transpose_panels"
    "transpose_skinny" "transpose_square" "triangle"
];

/// The file with kernels for structures of one number of elements, for 2 elements, 3 and so on.
static STRUCTURES: &[Program<'static>] = structures![
    2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
];

/// Its name, without the number.
const STRUCTURE: &str = "transpose_registers_";

/// One of those for structures, which represents them all. It has kernels for all sizes of
/// elements.
const ONE_STRUCTURE: &str = "transpose_registers_8";

pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name.trim_end_matches(".cu")).chain([ONE_STRUCTURE])
}

/// A kernel by its name: that of its file without `.cu`, and the number of elements of its
/// structures.
pub fn kernel(name: &str) -> Option<&'static Program<'static>> {
    if let Some(elements) = name.strip_prefix(STRUCTURE) {
        return STRUCTURES.get(elements.parse::<usize>().ok()?.checked_sub(2)?);
    }
    KERNELS.iter().find(|kernel| kernel.name.strip_suffix(".cu") == Some(name))
}

/// The names of the types in `kernels/moduli.cu` and `pivots.cu`.
pub fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::C64 => "c64",
        DType::C128 => "c128",
        _ => "f64",
    }
}
