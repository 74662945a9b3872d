//! Transposition in place by the square and the gcd-block algorithm against its definition.

use meshsolve::transpose::segments::Segments;
use meshsolve::transpose::{Algorithm, Plan, transpose_in_place, transpose_with};

use crate::common::part::part;
use crate::transposition::{Random, SIZES, check, check_shifted, in_any_order};

const THREADS: [usize; 4] = [1, 2, 3, 7];

/// The side of a tile and of a field of tiles, in elements.
fn tile_and_field(size: usize) -> [usize; 2] {
    let tile = 256 / size;
    [tile, 16 * tile]
}

fn blocks(side: usize) -> Algorithm {
    Algorithm::Blocks { side }
}

fn is_transposed(data: &[u64], rows: usize, cols: usize) -> bool {
    data.iter().enumerate().all(|(k, x)| *x as usize == k % rows * cols + k / rows)
}

#[test]
fn small_squares_exhaustively() {
    for n in 0..=80 {
        for size in SIZES {
            for threads in THREADS {
                check(Algorithm::Square, n, n, size, threads);
            }
        }
    }
}

/// Every shape with every possible side of blocks.
#[test]
fn small_blocks_exhaustively() {
    for (rows, cols) in part((1..=48).flat_map(|i| (1..=48).map(move |j| (i, j)))) {
        for side in (1..=rows.min(cols)).filter(|d| rows % d == 0 && cols % d == 0) {
            for size in SIZES {
                let threads = THREADS[(rows + cols + side + size / 4) % 4];
                check(blocks(side), rows, cols, size, threads);
            }
        }
    }
}

#[test]
fn around_chips_and_tiles() {
    for size in SIZES {
        let [tile, field] = tile_and_field(size);
        for edge in [64 / size, tile, field] {
            for side in [edge - 1, edge, edge + 1] {
                for threads in THREADS {
                    check(Algorithm::Square, side, side, size, threads);
                    check(blocks(side), 2 * side, 3 * side, size, threads);
                    check(blocks(side), 4 * side, side, size, threads);
                }
            }
        }
    }
}

/// Around one slice, and around the bytes that move at once.
#[test]
fn around_slices() {
    for bytes in [512, 1024, 8192, 16384] {
        for size in SIZES {
            for side in [bytes / size - 1, bytes / size, bytes / size + 1] {
                if side * side * size < 2 << 20 {
                    check(blocks(side), 3 * side, 2 * side, size, 2);
                    check(blocks(side), side, 2 * side, size, 7);
                }
            }
        }
    }
}

#[test]
fn larger_shapes() {
    let shapes = [
        (1100, 2200, 1100),
        (1100, 2200, 550),
        (1024, 1024, 128),
        (2048, 512, 256),
        (1500, 1000, 500),
        (1500, 1000, 250),
        (640, 1920, 64),
        (300, 3000, 150),
        (3003, 1001, 77),
    ];
    for (x, y, side) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            check(blocks(side), rows, cols, 8, 2);
        }
        check(blocks(side), x, y, 4, 3);
        check(blocks(side), y, x, 16, 3);
    }
    for n in [511, 512, 777] {
        SIZES.iter().for_each(|&size| check(Algorithm::Square, n, n, size, 2));
    }
}

#[test]
fn any_address() {
    for size in SIZES {
        for shift in [0, 1, 3, 17, 63] {
            check_shifted(Algorithm::Square, (150, 150), size, 2, shift);
            check_shifted(blocks(150), (150, 300), size, 2, shift);
        }
    }
}

/// Shapes with few cycles: 12288 x 98304 has 10 with sides of 12288, and its scaled-down versions.
#[test]
fn long_cycles_are_shared() {
    let plan = Plan::new(12288, 98304, 8);
    assert_eq!(plan.algorithm(), blocks(2048));
    assert!((0..plan.phases()).all(|phase| plan.units(phase) >= 32), "{plan}");
    let whole = Plan::forced(blocks(12288), 12288, 98304, 8);
    assert!((0..whole.phases()).all(|phase| whole.units(phase) >= 192), "{whole}");
    assert_eq!(cycles(whole.segments().unwrap()), 10);
    for side in [768, 384, 64] {
        for threads in THREADS {
            check(blocks(side), 768, 6144, 4, threads);
        }
    }
}

/// Cycles of two segments and more.
fn cycles(segments: &Segments) -> usize {
    let mut seen = vec![false; segments.count()];
    let mut cycles = 0;
    for leader in 0..segments.count() {
        let (mut h, mut length) = (leader, 0);
        while !std::mem::replace(&mut seen[h], true) {
            (h, length) = (segments.source(h), length + 1);
        }
        cycles += (length > 1) as usize;
    }
    cycles
}

/// The order of the segments is a bijection with the right inverse, also past 2^32 elements.
#[test]
fn segments_of_huge_arrays() {
    let shapes = [
        (1usize << 20, 1usize << 21, 2048),
        (12288, 98304, 2048),
        (98304, 12288, 12288),
        (70001 * 64, 65537 * 64, 64),
        (3 << 34, 1 << 24, 1 << 12),
        (1 << 34, 1 << 24, 1 << 24),
        (1_000_000_014, 500_000_007, 500_000_007),
        (46349 * 46351 * 64, 64, 64),
        (64, 46349 * 46351 * 64, 64),
    ];
    let mut random = Random(4711);
    for (rows, cols, side) in shapes {
        let plan = Plan::forced(blocks(side), rows, cols, 8);
        let (down, across) = (rows / side, cols / side);
        assert_eq!((plan.passes(), plan.phases()), (2, 2));
        let tiles = side.div_ceil(tile_and_field(8)[0]);
        assert_eq!(plan.units(0), down * across * (tiles * (tiles + 1) / 2));
        assert_eq!(plan.units(1), (side * 8).div_ceil(128));
        let (there, back) = (plan.segments().unwrap(), Segments::new(across, down, side));
        assert_eq!(there.count(), rows * cols / side);
        for _ in 0..3000 {
            let (i, j, k) = (random.below(down), random.below(side), random.below(across));
            let (from, to) = ((i * side + j) * across + k, (k * side + j) * down + i);
            assert_eq!(there.source(to), from, "{plan}");
            assert_eq!(back.source(from), to, "{plan}");
        }
    }
}

#[test]
fn units_in_any_order() {
    let mut random = Random(31);
    let shapes = [(200, 200, 200), (200, 600, 200), (640, 256, 128), (260, 390, 130)];
    for (rows, cols, side) in shapes {
        let plan = Plan::forced(blocks(side), rows, cols, 8);
        let data = in_any_order(&plan, &mut random);
        assert!(is_transposed(&data, rows, cols), "{plan}");
    }
}

/// The chosen plan also runs, through the public entry point.
#[test]
fn chosen_plans_run() {
    let mut random = Random(77);
    for _ in 0..60 {
        let common = [64, 65, 96, 100, 128, 7][random.below(6)];
        let (rows, cols) = (common * (1 + random.below(6)), common * (1 + random.below(6)));
        let mut data: Vec<u64> = (0..(rows * cols) as u64).collect();
        transpose_in_place(&mut data, rows, cols, 1 + random.below(4));
        assert!(is_transposed(&data, rows, cols), "{}", Plan::new(rows, cols, 8));
    }
}

/// More memory than one cache holds, more threads than processors.
#[test]
fn large() {
    let (rows, cols) = (1536, 3072);
    let mut data: Vec<u64> = (0..(rows * cols) as u64).collect();
    transpose_with(&Plan::new(rows, cols, 8), &mut data, 5);
    assert!(is_transposed(&data, rows, cols));
}

#[test]
fn plans_choose_and_describe_themselves() {
    let algorithm = |rows, cols, size| Plan::new(rows, cols, size).algorithm();
    assert_eq!(algorithm(8192, 8192, 8), Algorithm::Square);
    assert_eq!(algorithm(3, 3, 16), Algorithm::Square);
    assert_eq!(algorithm(8192, 4096, 8), blocks(2048));
    assert_eq!(algorithm(8192, 4096, 4), blocks(4096));
    assert_eq!(algorithm(8192, 4096, 16), blocks(1024));
    assert_eq!(algorithm(8000, 4000, 8), blocks(2000));
    assert_eq!(algorithm(6000, 2000, 8), blocks(2000));
    assert_eq!(algorithm(64 * 127, 64 * 131, 8), blocks(64));
    assert_eq!(algorithm(2 * 100_003, 100_003, 8), blocks(100_003));
    assert!(matches!(algorithm(63 * 127, 63 * 131, 8), Algorithm::Panel { .. }));
    assert_eq!(algorithm(63 * 5, 63 * 7, 8), Algorithm::R2c);
    assert_eq!(algorithm(1, 9, 8), Algorithm::Trivial);
    let text = Plan::new(8192, 4096, 8).to_string();
    let expected = "blocks of 2048 in 8192 x 4096 of 8 bytes, 2 passes, about 0.50 of a copy, ";
    assert_eq!(text, format!("{expected}10240 bytes of scratch"));
    let text = Plan::new(500, 500, 4).to_string();
    let expected = "square 500 x 500 of 4 bytes, 1 pass, about 1.00 of a copy, ";
    assert_eq!(text, format!("{expected}0 bytes of scratch"));
    assert_eq!(Plan::new(1, 7, 4).to_string(), "trivial 1 x 7 of 4 bytes");
}

#[test]
fn plans_fit_in_what_is_offered() {
    let mut sides: Vec<usize> = (0..=80).collect();
    sides.extend((8..30).flat_map(|s| [(1 << s) - 1, 1 << s, 3 << (s - 1), 5 << (s - 2)]));
    for (rows, cols) in sides.iter().flat_map(|i| sides.iter().map(move |j| (*i, *j))) {
        for size in SIZES {
            if rows.checked_mul(cols).is_none_or(|x| x > 1 << 58) {
                continue;
            }
            let most = rows.max(cols) * size;
            let plan = Plan::new(rows, cols, size);
            let own = most.max(256 << 10).max(rows * cols * size / 4096);
            assert!(plan.scratch_bytes() <= own, "{plan}");
            for bytes in [0, 512, 10_000, most / 2, most, 1 << 40] {
                let offered = Plan::offered(rows, cols, size, bytes, 0);
                assert!(offered.as_ref().is_none_or(|p| p.scratch_bytes() <= bytes), "{offered:?}");
                assert!(offered.is_some() || bytes < most, "{rows} x {cols}");
                assert!(offered.is_some() || rows != cols);
            }
        }
    }
    assert!(Plan::new(8192, 4096, 8).scratch_bytes() <= 256 << 10);
    assert_eq!(Plan::offered(8192, 4096, 8, 0, 0), None);
    assert_eq!(Plan::offered(8192, 4096, 8, 10239, 0).unwrap().algorithm(), blocks(4096));
}

#[test]
#[should_panic(expected = "elements of 0 bytes")]
fn elements_have_a_size() {
    Plan::new(4, 6, 0);
}

#[test]
#[should_panic(expected = "4 x 6 is not square")]
fn squares_are_square() {
    Plan::forced(Algorithm::Square, 4, 6, 8);
}

#[test]
#[should_panic(expected = "4 x 6 is not made of blocks of 4 x 4")]
fn blocks_divide_both_sides() {
    Plan::forced(blocks(4), 4, 6, 8);
}

#[test]
#[should_panic(expected = "4 x 6 is not made of blocks of 0 x 0")]
fn blocks_are_not_empty() {
    Plan::forced(blocks(0), 4, 6, 8);
}
