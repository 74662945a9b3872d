//! Widths of tile columns on CUDA devices, by their generation: wide enough that a product with one keeps the
//! device busy, narrow enough that each rank has several. Fixed, not timed at run time, so that reruns are
//! bit-identical.

/// Widths from an order of the matrix on.
type Widths = [(usize, usize); 3];

/// Devices from a compute capability on.
struct Generation {
    /// 10 * major + minor.
    since: u32,
    widths: Widths,
}

/// Not measured on any device: a guess for all of them. What replaces it is the fastest of the rows
/// `meshsolve tile W` of `examples/bench/gpu_solve.py`.
const GUESS: Widths = [(0, 256), (4096, 512), (16384, 1024)];

/// Ascending.
const GENERATIONS: [Generation; 3] = [
    // A100 and what came before.
    Generation { since: 0, widths: GUESS },
    // H100, H200.
    Generation { since: 90, widths: GUESS },
    // B200 and later.
    Generation { since: 100, widths: GUESS },
];

/// The width for a matrix of order n on devices of an architecture ("sm_90").
pub fn tile_width(architecture: &str, n: usize, ranks: usize) -> usize {
    let capability = architecture.trim_start_matches("sm_").parse().unwrap_or(0);
    let known = GENERATIONS.iter().rev().find(|one| one.since <= capability);
    let widths = known.map_or(&GUESS, |one| &one.widths);
    let wide = widths.iter().rev().find(|(least, _)| *least <= n).map_or(256, |(_, width)| *width);
    wide.min((n / (4 * ranks)).next_multiple_of(64)).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_has_widths_for_all_orders() {
        assert!(GENERATIONS.is_sorted_by_key(|one| one.since));
        for Generation { since, widths } in &GENERATIONS {
            assert!(widths[0].0 == 0 && widths.is_sorted(), "{since}");
        }
        for (architecture, n, ranks, width) in [
            ("sm_75", 100, 1, 64),
            ("sm_80", 4095, 1, 256),
            ("sm_90", 4096, 1, 512),
            ("sm_90", 32768, 8, 1024),
            ("sm_103", 16384, 8, 512),
            ("sm_120", 32768, 4, 1024),
        ] {
            assert_eq!(tile_width(architecture, n, ranks), width, "{architecture}, {n}");
        }
    }
}
