//! Widths of cuSolverMg's tiles.

use meshsolve::device::cuda::engine::{WIDEST, WIDEST_OF_LU, cusolvermg_tile_width};

#[test]
fn one_width_divides_the_columns_of_a_rank() {
    for (n, ranks, width) in [
        (0, 3, 1),
        (7, 1, 7),
        (12, 3, 4),
        (254, 2, 127),
        (4096, 2, 512),
        (2 * 7 * 73, 2, 511),
        (2 * 1009, 2, 1009),
        (3 * 640, 3, 320),
    ] {
        assert_eq!(cusolvermg_tile_width(n, ranks, WIDEST), Ok(width), "{n} over {ranks}");
    }
    // 1031 is prime, 2 * 521 has 521 only.
    assert_eq!(cusolvermg_tile_width(2 * 1031, 2, WIDEST), Err(2 * 1152));
    assert_eq!(cusolvermg_tile_width(2 * 521, 1, WIDEST), Ok(521));
    assert_eq!(cusolvermg_tile_width(2 * 1009, 2, WIDEST_OF_LU), Err(2 * 1024));
    for (ranks, most) in (1..9).flat_map(|ranks| [(ranks, WIDEST), (ranks, WIDEST_OF_LU)]) {
        for columns in 1..3000 {
            match cusolvermg_tile_width(ranks * columns, ranks, most) {
                Ok(width) => {
                    assert_eq!(columns % width, 0);
                    assert!(width <= most && (width >= 128 || width == columns));
                }
                Err(padded) => {
                    assert!(padded > ranks * columns && padded < ranks * (columns + 128));
                    assert!(cusolvermg_tile_width(padded, ranks, most).is_ok(), "{padded}");
                }
            }
        }
    }
}
