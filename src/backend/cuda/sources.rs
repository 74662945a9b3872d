//! The kernels of `kernels/`, embedded as source. Each `.cu` file is one translation unit whose entry points
//! are `extern "C" __global__`; headers are given to NVRTC by the name they are included by.

use super::nvrtc::Program;

/// For all kernels.
pub const OPTIONS: &[&str] = &["--std=c++17"];

macro_rules! kernels {
    ($($name:literal $([$($header:literal),*])?;)*) => {
        &[$(Program {
            name: concat!($name, ".cu"),
            source: include_str!(concat!("../../../kernels/", $name, ".cu")),
            headers: &[$($(
                ($header, include_str!(concat!("../../../kernels/", $header))),
            )*)?],
            options: OPTIONS,
        }),*]
    };
}

/// The table. A file with headers reads `"transpose" ["common.cuh"];`.
static KERNELS: &[Program<'static>] = kernels! {
    "fill";
};

/// Names of the kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name.trim_end_matches(".cu"))
}

/// A kernel by its name, that of its file without `.cu`.
pub fn kernel(name: &str) -> Option<&'static Program<'static>> {
    KERNELS.iter().find(|kernel| kernel.name.strip_suffix(".cu") == Some(name))
}
