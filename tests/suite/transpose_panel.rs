//! Transposition in place by the panel algorithm against its definition.

use meshsolve::transpose::maps;
use meshsolve::transpose::panels::{Panels, Stage};
use meshsolve::transpose::{Algorithm, Plan, transpose_with};

use crate::common::part::part;
use crate::transposition::{Random, SIZES, check, check_shifted, in_any_order};

const THREADS: [usize; 4] = [1, 2, 3, 7];

fn panel(height: usize) -> Algorithm {
    Algorithm::Panel { height }
}

#[test]
fn small_shapes_exhaustively() {
    for (rows, cols) in part((1..=30).flat_map(|i| (1..=30).map(move |j| (i, j)))) {
        for height in [1, 2, 3, 4, 7, 8, 9, 16, 17, 31] {
            if height <= rows.max(cols) {
                let size = SIZES[(rows + 2 * cols + height) % 3];
                let threads = THREADS[(rows + cols) % 4];
                check(panel(height), rows, cols, size, threads);
            }
        }
    }
}

#[test]
fn around_groups_and_lines() {
    for size in SIZES {
        for edge in [64 / size, 512 / size, 1024 / size] {
            for short in [edge - 1, edge, edge + 1] {
                for height in [edge - 1, edge, edge + 1].into_iter().filter(|h| *h > 0) {
                    for (long, threads) in [(3 * height, 2), (4 * height - 1, 7)] {
                        if long >= short {
                            check(panel(height), long, short, size, threads);
                            check(panel(height), short, long, size, threads);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn larger_shapes() {
    for (x, y, height) in
        [(1021, 1009, 64), (997, 1999, 128), (64, 5003, 256), (33, 4001, 512), (2500, 100, 2500)]
    {
        check(panel(height), x, y, 8, 2);
        check(panel(height), y, x, 8, 3);
        check_shifted(panel(height), (x, y), 4, 2, 1);
        check_shifted(panel(height), (y, x), 16, 2, 3);
    }
}

/// Cycles of chunks cut into the largest number of chains.
#[test]
fn many_chains() {
    for (long, short, height, size) in
        [(2903, 2999, 250, 4), (2111, 2003, 61, 8), (1511, 1447, 100, 16), (200_003, 41, 300, 8)]
    {
        check(panel(height), long, short, size, 3);
        check(panel(height), short, long, size, 2);
        check_shifted(panel(height), (long, short), size, 2, 1);
    }
}

/// One worker does the units of each phase in random order.
#[test]
fn units_in_any_order() {
    let mut random = Random(5);
    for (rows, cols, height) in [(300, 211, 64), (211, 300, 64), (500, 96, 100), (65, 400, 32)] {
        let plan = Plan::forced(panel(height), rows, cols, 8);
        let data = in_any_order(&plan, &mut random);
        let right = |(k, x): (usize, &u64)| *x as usize == k % rows * cols + k / rows;
        assert!(data.iter().enumerate().all(right), "{plan}");
    }
}

/// The order of the chunks, and its inverse, also past 2^32 elements.
#[test]
fn chunks_of_huge_arrays() {
    let shapes =
        [(79999, 9973, 64), (1_000_003, 999_983, 256), ((1 << 34) + 1, 12_345, 512), (5, 3, 1)];
    let mut random = Random(2);
    for (long, short, height) in shapes {
        let (tall, wide) = (Panels::new(long, short, height), Panels::new(short, long, height));
        assert!(tall.tall && !wide.tall);
        let count = tall.count;
        assert_eq!((count * height + tall.rest, tall.short), (long, short));
        for _ in 0..3000 {
            let (i, c) = (random.below(count), random.below(short));
            let (there, here) = ((i + 1) % count * short + c, c * count + i);
            assert_eq!(tall.source(here), there);
            assert_eq!(wide.source(there), here);
        }
    }
    // Phases of a wide array are those of a tall one in reverse, but chunks are marked before they
    // move.
    let (tall, wide) = (Panels::new(10, 4, 3), Panels::new(4, 10, 3));
    let stages = |p: &Panels| (0..p.phases()).map(|k| p.stage(k)).collect::<Vec<_>>();
    let back = [Stage::Hold, Stage::Turn(0), Stage::Turn(1), Stage::Turn(2)];
    let order = [Stage::Mark, Stage::Permute];
    let forward: Vec<_> = back.into_iter().rev().chain(order).collect();
    assert_eq!(stages(&tall), forward);
    assert_eq!(stages(&wide), order.into_iter().chain(back).collect::<Vec<_>>());
}

/// Chunks of narrow arrays are long and few. Still, many workers have some, in scratch that they
/// have anyway.
#[test]
fn chains_of_narrow_arrays() {
    for (long, short) in [(10_007, 40), (20_011, 40), (50_021, 40), (200_003, 34), (8191, 8101)] {
        for (rows, cols) in [(long, short), (short, long)] {
            let plan = Plan::new(rows, cols, 8);
            let panels = plan.panels().expect("panels");
            let permute = (0..plan.phases()).find(|k| panels.stage(*k) == Stage::Permute).unwrap();
            assert!(plan.units(permute) >= 16, "{plan}: {} chains", plan.units(permute));
            let (held, bits) = (panels.held_bytes(8), panels.count * panels.short / 4);
            assert!(plan.shared_bytes() <= held + bits + (8 << 10), "{plan}");
        }
    }
}

#[test]
fn plans_take_panels_when_scratch_is_shared() {
    let offered = |rows, cols, own, shared| Plan::offered(rows, cols, 8, own, shared);
    let plan = offered(8191, 8101, 1 << 20, 40 << 20).unwrap();
    assert_eq!(plan.algorithm(), panel(256));
    assert!(plan.shared_bytes() <= 40 << 20 && plan.passes() == 2);
    let text = plan.to_string();
    assert!(text.starts_with("panels of ") && text.ends_with(" shared"), "{text}");
    assert_eq!(offered(8191, 8101, 1 << 20, 1 << 20).unwrap().algorithm(), Algorithm::C2r);
    assert_eq!(offered(8191, 8101, 100, 40 << 20), None);
    assert_eq!(offered(8192, 4096, 1 << 20, 1 << 30), Some(Plan::new(8192, 4096, 8)));
    // Too short for a separate phase.
    assert!(offered(901, 33, 1 << 24, 1 << 40).unwrap().panels().is_none());
}

/// The plans of the library's own calls: panels, within the offered scratch.
#[test]
fn plans_take_panels_by_themselves() {
    let mut random = Random(41);
    let mut shapes = vec![(8191, 8101), (7919, 4001), (10007, 9973), (8192, 4095), (1201, 1099)];
    shapes.extend([(1_000_003, 40), (100, 500_009), ((1 << 34) + 1, 1001), (70_001, 65_537)]);
    shapes.extend((0..300).map(|_| (4096 + random.below(20_905), 4096 + random.below(20_905))));
    for (x, y) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            let plan = Plan::new(rows, cols, 8);
            let bytes = rows * cols * 8;
            let shared = (bytes / 32).max((bytes / 8).min(4 << 20));
            assert!(plan.shared_bytes() <= shared.max(256 << 10), "{plan}");
            let own = (rows.max(cols) * 8).max(256 << 10).max(bytes / 4096);
            assert!(plan.scratch_bytes() <= own, "{plan}");
            assert_eq!(plan.panels().is_none(), maps::gcd(rows, cols) >= 64, "{plan}");
        }
    }
    for (rows, cols) in [(1201, 1099), (599, 1201), (10_007, 40), (100, 5003)] {
        let plan = Plan::new(rows, cols, 8);
        assert!(plan.panels().is_some(), "{plan}");
        let mut data: Vec<u64> = (0..(rows * cols) as u64).collect();
        transpose_with(&plan, &mut data, 3);
        assert!((0..rows * cols).all(|k| data[k] as usize == k % rows * cols + k / rows));
    }
}

#[test]
#[should_panic(expected = "4 x 6 has no panels of height 7")]
fn panels_are_within_the_array() {
    Plan::forced(panel(7), 4, 6, 8);
}

#[test]
#[should_panic(expected = "4 x 6 has no panels of height 0")]
fn panels_are_not_empty() {
    Plan::forced(panel(0), 4, 6, 8);
}
