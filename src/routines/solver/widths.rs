//! Widths of tile columns on CUDA devices, the fastest in a model of the factorisation. A model,
//! not a clock, so that reruns are bit-identical.
//!
//! The numbers for compute capability 9.0 are from one H200 (`benchmarks/NOTES.md`): the model is
//! within 15 % of the times of widths from 256 to 1024 and orders from 8192 to 32768. Other devices have the peaks of their datasheets and the H200's other numbers.
//! Compare with the rows `meshsolve tile W` of `benchmarks/gpu_solve.py`.

use super::routine::Family;
use crate::scalar::DType;

/// Families whose matrix one rank factors as a single tile, in one call of cuSOLVER, because that was
/// faster on an H200. `make first-gpu-run` compares, and prints the line to put here.
pub const WHOLE_BY_ONE_RANK: &[Family] = &[Family::Cholesky];

/// The candidates. Wider ones are no faster for any order; narrower ones slow the products.
const WIDTHS: [usize; 4] = [128, 256, 512, 1024];

/// A generation of devices, from a compute capability on.
pub struct Device {
    /// 10 * major + minor.
    pub since: u32,
    /// Additions and multiplications per second in products of float64 and of float32.
    pub double: f64,
    single: f64,
    /// Bytes per second of its memory, and of a link to another device.
    memory: f64,
    link: f64,
}

/// Ascending.
pub const DEVICES: [Device; 5] = [
    // V100, T4, A100: A100's.
    Device { since: 0, double: 17e12, single: 17e12, memory: 1.4e12, link: 250e9 },
    // Cards with little float64.
    Device { since: 86, double: 1e12, single: 40e12, memory: 0.8e12, link: 25e9 },
    // H100, H200.
    Device { since: 90, double: 60e12, single: 60e12, memory: 4e12, link: 400e9 },
    // B200.
    Device { since: 100, double: 35e12, single: 65e12, memory: 7e12, link: 800e9 },
    // Cards again.
    Device { since: 120, double: 1.5e12, single: 90e12, memory: 1.5e12, link: 50e9 },
];

/// Seconds of a column of a panel in L U, and of a column of a tile in L L^H; columns depend on
/// each other. Seconds of a launch on the host.
const OF_LU: f64 = 4.5e-6;
const OF_CHOLESKY: f64 = 1.0e-6;
const LAUNCH: f64 = 4e-6;
/// The inner dimensions at which products reach half of the rate: wide ones of L U, and those of
/// Cholesky by tile columns.
const HALF_OF_LU: f64 = 90.0;
const HALF_OF_CHOLESKY: f64 = 150.0;
/// The part of a panel's time by which products at the same time take longer: both read the same
/// cache.
const DISTURBED: f64 = 0.6;
/// The part of that rate that triangular solves of panels reach, and those for rows of U.
const SOLVES: f64 = 0.5;
const SOLVES_OF_U: f64 = 0.15;
/// Bytes that move for each byte of interchanged rows, in U and in L: sectors read and written, at
/// a third of the memory's rate.
const MOVES: f64 = 12.0;

/// A matrix to be factored.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub n: usize,
    pub ranks: usize,
    pub dtype: DType,
    pub family: Family,
}

/// Whether a matrix is one tile, given the `families` that one rank factors whole.
pub fn is_factored_whole(shape: Shape, families: &[Family]) -> bool {
    shape.ranks == 1 && families.contains(&shape.family)
}

/// The width for a matrix on devices of an architecture ("sm_90"); equal for all routines of a
/// family.
pub fn cuda_tile_width(architecture: &str, shape: Shape) -> usize {
    let capability = architecture.trim_start_matches("sm_").parse().unwrap_or(0);
    let known = DEVICES.iter().rev().find(|one| one.since <= capability);
    let device = known.unwrap_or(&DEVICES[0]);
    let times = WIDTHS.map(|width| (device.seconds(shape, width), width));
    let (_, width) =
        times.into_iter().fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
    // Each rank gets several tile columns, and small matrices some.
    width.min((shape.n / (4 * shape.ranks)).next_multiple_of(64)).max(64)
}

impl Device {
    /// The time of a factorisation with lookahead 1. Each step takes the longest of three times:
    /// the products with a panel, the next panel, and the host's launches.
    pub fn seconds(&self, shape: Shape, width: usize) -> f64 {
        let is_lu = shape.family == Family::Lu;
        let (n, ranks, w) = (shape.n as f64, shape.ranks as f64, width as f64);
        let size = shape.dtype.size() as f64;
        let is_single = matches!(shape.dtype.real(), DType::F32);
        let is_complex = shape.dtype.real() != shape.dtype;
        let peak = if is_single { self.single } else { self.double };
        let half = if is_lu { HALF_OF_LU } else { HALF_OF_CHOLESKY };
        let rate = peak * w / (w + half) / if is_complex { 4.0 } else { 1.0 };
        let panel = |rows: f64| match is_lu {
            true => w * OF_LU + rows * w * w / (SOLVES * rate),
            false => w * OF_CHOLESKY + rows * w * w / (SOLVES * rate),
        };
        let step = |k: usize| {
            let rest = n - ((k + 1) * width) as f64;
            // Cholesky updates the lower triangle, including whole tiles on the diagonal.
            let entries = if is_lu { rest * rest } else { rest * (rest + w) / 2.0 } / ranks;
            let moved = 2.0 * entries * size / self.memory;
            let mut products = (2.0 * entries * w / rate).max(moved);
            let mut launches = rest / w / ranks;
            if is_lu {
                // Rows of U, and interchanged rows in sectors of 32 bytes.
                products += w * w * rest / ranks / (SOLVES_OF_U * rate);
                products += MOVES * w * rest / ranks * size.max(32.0) / self.memory;
                // Products have several tile columns, and all else has all.
                launches = launches / 8.0 + 6.0;
            }
            let remote = if shape.ranks > 1 { rest * w * size / self.link } else { 0.0 };
            let next = 2.0 * rest * w * w / rate + panel(rest) + remote;
            (products + DISTURBED * panel(rest) / ranks).max(next).max(launches * LAUNCH)
        };
        let steps = shape.n.div_ceil(width).saturating_sub(1);
        panel(n) + (0..steps).map(step).sum::<f64>()
    }
}
