//! Transposition in place by C2R and R2C against its definition, bit for bit.

use meshsolve::transpose::divide::Divider;
use meshsolve::transpose::maps::{Maps, gcd, multiply};
use meshsolve::transpose::{Algorithm, Plan, transpose_in_place, transpose_with};

use crate::common::part::part;
use crate::transposition::{Random, SIZES, check, in_any_order};

const BOTH: [Algorithm; 2] = [Algorithm::C2r, Algorithm::R2c];
#[test]
fn small_shapes_exhaustively() {
    for algorithm in BOTH {
        for (rows, cols) in part((0..=64).flat_map(|i| (0..=64).map(move |j| (i, j)))) {
            for (i, size) in SIZES.into_iter().enumerate() {
                check(algorithm, rows, cols, size, 1 + (rows + 2 * cols + i) % 3);
            }
        }
    }
}

#[test]
fn larger_shapes() {
    let shapes = [
        (127, 129),
        (128, 128),
        (255, 256),
        (257, 251),
        (128, 512),
        (96, 1000),
        (2, 999),
        (3, 4096),
        (5, 640),
        (31, 2000),
        (33, 1056),
        (512, 1024),
        (520, 1040),
        (500, 1250),
        (601, 599),
        (1, 1000),
        (600, 900),
        (1023, 1024),
        (7, 2048),
        (16, 4096),
        (17, 4352),
        (1200, 1800),
    ];
    for (x, y) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            for algorithm in BOTH {
                for size in SIZES {
                    check(algorithm, rows, cols, size, 2);
                }
            }
        }
    }
}

#[test]
fn around_group_widths() {
    for width in [16usize, 32, 64, 128] {
        for cols in [width - 1, width, width + 1, 2 * width - 1, 16 * width, 16 * width + 3] {
            for rows in [width, width + 1, 3 * width, width * width / 4] {
                for algorithm in BOTH {
                    check(algorithm, rows, cols, 8, 3);
                    check(algorithm, rows, cols, 4, 1);
                }
            }
        }
    }
}

#[test]
fn random_shapes() {
    let mut random = Random(0x2545F4914F6CDD1D);
    for _ in 0..150 {
        let common = 1 + random.below(40);
        let (rows, cols) = (common * (1 + random.below(30)), common * (1 + random.below(30)));
        let (size, algorithm) = (SIZES[random.below(3)], BOTH[random.below(2)]);
        check(algorithm, rows, cols, size, 1 + random.below(4));
    }
}

/// A shape whose products exceed 32 bits.
#[test]
fn products_beyond_32_bits() {
    let (rows, cols) = (1001, 70001);
    for algorithm in BOTH {
        let mut data: Vec<u32> = (0..(rows * cols) as u32).collect();
        transpose_with(&Plan::forced(algorithm, rows, cols, 4), &mut data, 3);
        let right = |(k, x): (usize, &u32)| *x as usize == k % rows * cols + k / rows;
        assert!(data.iter().enumerate().all(right), "{algorithm:?}");
    }
}

#[test]
fn units_in_any_order() {
    let mut random = Random(99);
    for (rows, cols) in [(96, 144), (100, 700), (257, 64), (300, 301), (40, 4000), (640, 320)] {
        for algorithm in BOTH {
            let plan = Plan::forced(algorithm, rows, cols, 8);
            let data = in_any_order(&plan, &mut random);
            let right = |(k, x): (usize, &u64)| *x as usize == k % rows * cols + k / rows;
            assert!(data.iter().enumerate().all(right), "{plan}");
        }
    }
}

#[test]
fn slices_of_numbers() {
    for (rows, cols) in [(0, 5), (1, 7), (30, 20), (17, 40)] {
        let mut data: Vec<f64> = (0..rows * cols).map(|x| x as f64).collect();
        transpose_in_place(&mut data, rows, cols, 2);
        assert!((0..rows * cols).all(|k| data[k] as usize == k % rows * cols + k / rows));
        let mut data: Vec<[f64; 2]> = (0..rows * cols).map(|x| [x as f64, -1.0]).collect();
        transpose_in_place(&mut data, rows, cols, 1);
        assert!((0..rows * cols).all(|k| data[k][0] as usize == k % rows * cols + k / rows));
    }
}

#[test]
#[should_panic(expected = "elements must have 4, 8 or 16 bytes, not 32")]
fn other_element_sizes_are_refused() {
    transpose_in_place(&mut [[0u128; 2]; 6], 2, 3, 1);
}

#[test]
#[should_panic(expected = "2 x 4 is not 6 elements")]
fn other_shapes_are_refused() {
    transpose_in_place(&mut [0u64; 6], 2, 4, 1);
}

/// The source of element (i, j) in C2R, step by step, as a position in the m x n view.
fn c2r_source(maps: &Maps, i: usize, j: usize) -> (usize, usize) {
    let row = maps.source_row(i, j);
    let column = maps.unshuffled(row, j);
    assert_eq!(maps.shuffled(row, column), j, "{maps:?} row {row}");
    ((row + maps.rotation(column)) % maps.m, column)
}

/// The three steps together are eq. 11, even where products exceed 32 and 64 bits.
#[test]
fn maps_compose_to_the_transposition() {
    let big = 1usize << 31;
    let shapes = [
        (1, 1),
        (2, 3),
        (6, 4),
        (12, 18),
        (7, 7),
        (1001, 70001),
        (70001, 1001),
        (12288, 98304),
        (65536, 65537),
        (3 * 46349, 46349 * 5),
        (46349 * 46351, 6),
        (131072, 98304),
        (9973, 79999),
        (big + 11, 3),
        (3, big + 11),
        (big, big),
        (big - 2, big - 4),
        (3 << 40, 5 << 18),
        (6, (1 << 59) + 9),
        ((1 << 59) + 9, 6),
        (1_000_000_007, 998_244_353),
    ];
    let mut random = Random(12345);
    for (m, n) in shapes {
        let maps = Maps::new(m, n);
        for _ in 0..3000 {
            let (i, j) = (random.below(m), random.below(n));
            let linear = i * n + j;
            assert_eq!(c2r_source(&maps, i, j), (linear % m, linear / m), "{m} x {n}");
            // The same row shuffle as stretches.
            let (l, h) = (j / maps.b, j % maps.b);
            let stretches = maps.row(i).stretches();
            let s = stretches.iter().find(|s| (s.first..s.first + s.count).contains(&l)).unwrap();
            let v = (s.v + multiply(h, maps.a, maps.b)) % maps.b;
            assert_eq!(maps.shuffled(i, j), v * maps.c + s.target + l - s.first, "{m} x {n}");
        }
    }
}

/// Our forms of eqs. 24, 26 and 31 against those in the paper.
#[test]
fn maps_are_those_of_the_paper() {
    for (m, n) in (1..=24usize).flat_map(|m| (1..=24).map(move |n| (m, n))) {
        let maps = Maps::new(m, n);
        let c = gcd(m, n);
        let (a, b) = (m / c, n / c);
        assert_eq!(maps.a_inverse * a % b, 1 % b);
        let mut row = maps.row(0);
        for i in 0..m {
            assert_eq!(row, maps.row(i));
            row.advance();
            for j in 0..n {
                assert_eq!(maps.shuffled(i, j), ((i + j / b) % m + j * m) % n);
                assert_eq!(maps.source_row(i, j), (j + i * n - i / a) % m);
                let f = j + i * (n - 1) + if i + c <= m + j % c { 0 } else { m };
                let eq31 = maps.a_inverse * (f / c) % b + f % c * b;
                assert_eq!(maps.unshuffled(i, j), eq31, "{m} x {n} at {i}, {j}");
            }
        }
    }
}

#[test]
fn division_is_exact() {
    for d in 1..=400 {
        let by = Divider::new(d);
        for x in 0..=3000 {
            assert_eq!((by.quotient(x), by.remainder(x)), (x / d, x % d));
        }
    }
    let mut random = Random(7);
    for _ in 0..200_000 {
        let d = (random.next() >> random.below(64)).max(1) as usize;
        let by = Divider::new(d);
        let x = (random.next() >> random.below(64)) as usize;
        let multiple = x / d * d;
        for x in [x, multiple, multiple.wrapping_sub(1), multiple.wrapping_add(d - 1), d, d - 1] {
            assert_eq!((by.quotient(x), by.remainder(x)), (x / d, x % d), "{x} / {d}");
        }
        for x in [0, 1, usize::MAX, usize::MAX - 1, usize::MAX / 2, usize::MAX / 2 + 1] {
            assert_eq!(by.quotient(x), x / d, "{x} / {d}");
        }
    }
    for shift in 0..64 {
        for d in [1usize << shift, (1 << shift) + 1, (1usize << shift).wrapping_sub(1).max(1)] {
            let by = Divider::new(d);
            for x in [0, d - 1, d, d.wrapping_add(1), usize::MAX, usize::MAX - d] {
                assert_eq!((by.quotient(x), by.remainder(x)), (x / d, x % d), "{x} / {d}");
            }
        }
    }
}

#[test]
fn scratch_is_within_the_bound_of_the_paper() {
    let mut sides: Vec<usize> = (0..=140).collect();
    sides.extend((8..40).flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1, 3 << (s - 1)]));
    for (rows, cols) in sides.iter().flat_map(|i| sides.iter().map(move |j| (*i, *j))) {
        if rows.checked_mul(cols).is_none_or(|x| x > 1 << 58) {
            continue;
        }
        for size in SIZES {
            for plan in BOTH.map(|a| Plan::forced(a, rows, cols, size)) {
                assert!(plan.scratch_bytes() <= rows.max(cols) * size, "{plan}");
                let moves = rows > 1 && cols > 1;
                assert_eq!(plan.algorithm() == Algorithm::Trivial, !moves);
                assert_eq!(plan.passes() > 0, moves);
                assert!((0..plan.phases()).all(|p| plan.units(p) > 0));
            }
        }
    }
}

#[test]
fn plans_choose_and_describe_themselves() {
    // With no shared scratch, but with plenty of each worker's own.
    let offered = |rows, cols| Plan::offered(rows, cols, 8, 1 << 30, 0).unwrap();
    assert_eq!(offered(8192, 4095).algorithm(), Algorithm::C2r);
    assert_eq!(offered(4095, 8192).algorithm(), Algorithm::R2c);
    assert_eq!(offered(1, 4096).algorithm(), Algorithm::Trivial);
    assert_eq!(offered(7919, 4001).phases(), 2);
    let text = Plan::forced(Algorithm::C2r, 8192, 4096, 8).to_string();
    let expected = "C2R 8192 x 4096 of 8 bytes, 5 passes, about 0.20 of a copy, ";
    assert_eq!(text, format!("{expected}32768 bytes of scratch"));
}
