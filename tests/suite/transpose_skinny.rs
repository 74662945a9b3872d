//! Transposition in place of skinny arrays against its definition.

use meshsolve::transpose::skinny::{self, Skinny, Stage};
use meshsolve::transpose::{Algorithm, Plan, transpose_in_place};

use crate::transposition::{Random, SIZES, check, check_shifted, in_any_order};

fn forced(height: usize) -> Algorithm {
    Algorithm::Skinny { height }
}

fn is_transposed(data: &[u64], rows: usize, cols: usize) -> bool {
    data.iter().enumerate().all(|(k, x)| *x as usize == k % rows * cols + k / rows)
}

/// Every short side with every size, one panel of all, and panels that leave a rest, both ways.
#[test]
fn small_shapes_exhaustively() {
    for short in 2..=32 {
        for long in short..=80 {
            for height in [long, [1, 5, 16][long % 3], [2, 8, 17, 33][long % 4]] {
                for size in SIZES.into_iter().filter(|_| height <= long) {
                    // `check` also goes back, except with three threads.
                    let threads = if long % 8 == 0 { 3 } else { 1 };
                    check(forced(height), long, short, size, threads);
                    check(forced(height), short, long, size, threads);
                }
            }
        }
    }
}

/// Around multiples of the height and of the lanes of a register, several panels in a run.
#[test]
fn around_panels() {
    for short in [2, 3, 7, 12, 16, 31, 32] {
        for (height, size) in [(16, 4), (24, 8), (33, 16), (100, 8)] {
            for long in [3 * height - 1, 3 * height, 3 * height + 1, 400 * height + height - 1] {
                for threads in [1, 2, 3] {
                    if long < 10 * height || (short < 8 && threads == 2) {
                        check(forced(height), long, short, size, threads);
                        check(forced(height), short, long, size, threads);
                    }
                }
            }
        }
    }
}

#[test]
fn any_address() {
    for size in SIZES {
        for shift in [0, 1, size, 63] {
            check_shifted(forced(32), (1000, 6), size, 2, shift);
            check_shifted(forced(48), (5, 1000), size, 2, shift);
        }
    }
}

/// Chosen plans of a few megabytes: panels of the real size.
#[test]
fn chosen_plans() {
    for (long, short) in [(200_003, 3), (50_021, 13), (30_011, 32), (100_000, 16), (65_536, 8)] {
        for (rows, cols) in [(long, short), (short, long)] {
            let plan = Plan::new(rows, cols, 8);
            assert!(matches!(plan.algorithm(), Algorithm::Skinny { .. }), "{plan}");
            let mut data: Vec<u64> = (0..(rows * cols) as u64).collect();
            transpose_in_place(&mut data, rows, cols, 2);
            assert!(is_transposed(&data, rows, cols), "{plan}");
        }
    }
}

/// One worker does the units of each phase in random order.
#[test]
fn units_in_any_order() {
    let mut random = Random(5);
    for (rows, cols, height) in [(3000, 7, 16), (7, 3000, 16), (999, 32, 40), (2, 1999, 8)] {
        let plan = Plan::forced(forced(height), rows, cols, 8);
        assert!((0..plan.phases()).all(|phase| plan.units(phase) > 0));
        let data = in_any_order(&plan, &mut random);
        assert!(is_transposed(&data, rows, cols), "{plan}");
    }
}

/// The order and the places of the chunks, also past 2^32 elements.
#[test]
fn chunks_of_huge_arrays() {
    let mut random = Random(2);
    for (long, short, height) in
        [(80_000, 9, 64), ((1 << 34) + 1, 31, 1008), (3_000_000_019, 2, 4080), (5, 3, 1)]
    {
        let tall = Skinny::new(long, short, height, 8);
        let wide = Skinny::new(short, long, height, 8);
        assert!(tall.tall && !wide.tall);
        let (count, rest) = (tall.count, tall.rest);
        assert_eq!(count * height + rest, long);
        assert_eq!((tall.first(0), tall.first(tall.runs)), (0, count));
        for _ in 0..3000 {
            let (i, c) = (random.below(count), random.below(short));
            let (there, here) = (i * short + c, c * count + i);
            assert_eq!((tall.source(here), wide.source(there)), (there, here));
            assert_eq!(tall.chunk(here), c * long + i * height);
            // Chunks are behind their panel's place, by less than a panel.
            let behind = tall.chunk(there) - there * height;
            assert!(behind <= (short - 1) * rest && behind < short * height);
            let end = if i == 0 { 0 } else { tall.chunk(i * short - 1) + height };
            assert_eq!(tall.reach(i), end - i * short * height);
            let run = random.below(tall.runs);
            assert!(tall.first(run) < tall.first(run + 1));
        }
    }
    // Phases of a wide array are those of a tall one in reverse, but the hold phase runs first.
    let stages = |s: Skinny| (0..s.phases()).map(|k| s.stage(k)).collect::<Vec<_>>();
    let tall = stages(Skinny::new(10, 4, 3, 8));
    assert_eq!(tall, [Stage::Hold, Stage::Turn, Stage::Permute]);
    assert_eq!(stages(Skinny::new(4, 10, 3, 8)), [Stage::Permute, Stage::Hold, Stage::Turn]);
    assert_eq!(stages(Skinny::new(10, 4, 10, 8)), [Stage::Turn]);
}

/// A panel fits in 256 KiB, and little is shared, at any length.
#[test]
fn scratch_is_small() {
    let mut random = Random(77);
    let bits = |long: usize, short: usize, size: usize| {
        (long / skinny::height(long, short, size) * short).div_ceil(8) + 8192
    };
    for short in 2..=32 {
        let lengths = (6..36).flat_map(|k| [(1 << k) - 1, 1 << k, 3 << (k - 1)]);
        let more: Vec<usize> = (0..100).map(|_| 33 + random.below(1 << 34)).collect();
        for long in lengths.chain(more).filter(|long| *long > short) {
            for size in SIZES {
                for plan in [Plan::new(long, short, size), Plan::new(short, long, size)] {
                    assert!(matches!(plan.algorithm(), Algorithm::Skinny { .. }), "{plan}");
                    let own = (256 << 10).max(bits(long, short, size));
                    assert!(plan.scratch_bytes() <= own, "{plan}");
                    let shared = (long * short * size / 64).clamp(256 << 10, 2 << 20);
                    assert!(plan.shared_bytes() <= shared, "{plan}");
                    let units = |phase| plan.units(phase) >= 32 || long * short * size < 32 << 20;
                    let units_of: Vec<usize> = (0..plan.phases()).map(|p| plan.units(p)).collect();
                    assert!((0..plan.phases()).all(units), "{plan} {units_of:?}");
                }
            }
        }
    }
    // 800 MB, and little to share.
    let plan = Plan::new(100_000_000, 2, 4);
    assert!(plan.scratch_bytes() + plan.shared_bytes() < 128 << 10, "{plan}");
}

#[test]
fn plans_choose_and_describe_themselves() {
    let algorithm = |rows, cols, size| Plan::new(rows, cols, size).algorithm();
    assert_eq!(algorithm(500, 6, 8), forced(500));
    assert_eq!(algorithm(6, 500, 8), forced(500));
    assert_eq!(algorithm(1 << 20, 32, 16), forced(292));
    assert_eq!(algorithm(32, 32, 8), Algorithm::Square);
    assert_eq!(algorithm(500, 1, 8), Algorithm::Trivial);
    assert!(!matches!(algorithm(1 << 20, 33, 8), Algorithm::Skinny { .. }));
    // Without enough scratch, C2R and R2C remain.
    let least = Plan::offered(4000, 6, 8, 32_000, 0).unwrap().algorithm();
    assert!(matches!(least, Algorithm::C2r | Algorithm::R2c), "{least:?}");
    let text = Plan::new(500, 6, 8).to_string();
    let expected = "skinny panels of 500 in 500 x 6 of 8 bytes, 1 pass, about 1.00 of a copy, ";
    assert_eq!(text, format!("{expected}24064 bytes of scratch"));
    let text = Plan::forced(forced(100), 250, 6, 8).to_string();
    let expected = "skinny panels of 100 in 250 x 6 of 8 bytes, 2 passes, about 0.50 of a copy, ";
    assert_eq!(text, format!("{expected}4864 bytes of scratch, 4400 shared"));
}

#[test]
#[should_panic(expected = "40 x 33 is not skinny")]
fn skinny_arrays_are_skinny() {
    Plan::forced(forced(8), 40, 33, 8);
}

#[test]
#[should_panic(expected = "4 x 6 has no panels of height 7")]
fn panels_are_within_the_array() {
    Plan::forced(forced(7), 4, 6, 8);
}
