//! The order of pairs of tiles.

use meshsolve::transpose::square::{Blocks, Square, Triangle};
use std::collections::HashSet;

#[test]
fn pairs_of_small_triangles() {
    for tiles in 0..100 {
        let triangle = Triangle { tiles };
        let pairs: Vec<_> = triangle.pairs(0..triangle.count()).collect();
        assert!(pairs.iter().all(|(i, j)| j <= i && *i < tiles), "{tiles}");
        assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), tiles * (tiles + 1) / 2);
        let apart = |w: &[(usize, usize)]| w[0].0 != w[1].0 && w[0].1 != w[1].1;
        let together = pairs.windows(2).filter(|w| !apart(w)).count();
        assert!(together <= 2 * tiles, "{tiles}: {together}");
        for (n, pair) in pairs.iter().enumerate() {
            assert_eq!(triangle.pairs(n..n + 1).next(), Some(*pair), "{tiles}: {n}");
        }
    }
}

/// A start at any pair gives the rest of the sequence, also past 2^32 elements.
#[test]
fn tiles_of_huge_arrays() {
    for (down, across, side) in [(1, 1, 3 << 28), (1, 1, 1_000_000_007), (1 << 20, 3, 2048)] {
        let blocks = Blocks { down, across, side };
        let (units, pairs) = (blocks.units(8), blocks.units(8) / (down * across));
        let samples = (0..2000).flat_map(|k| [k * (units / 2000), units - 61 - k * k, k]);
        for unit in samples {
            let tiles = |from: usize| blocks.tiles::<8>(from..units, std::ptr::null_mut());
            let (pair, block) = (tiles(unit).next().unwrap(), unit / pairs);
            assert_eq!(tiles(unit + 60).next(), tiles(unit).nth(60), "{blocks:?} {unit}");
            let entry = block / across * side * side * across + block % across * side;
            let (x, y) = (pair.x as usize / 8 - entry, pair.y as usize / 8 - entry);
            let (i, j) = (x / (side * across), x % (side * across));
            assert_eq!((y / (side * across), y % (side * across)), (j, i));
            let tile = meshsolve::transpose::tiles::side(8);
            assert!(j <= i && i < side && i.is_multiple_of(tile) && j.is_multiple_of(tile));
            assert_eq!((pair.rows, pair.columns), (tile.min(side - i), tile.min(side - j)));
        }
    }
}

/// The tiles of all pairs are the whole matrix, each within one part.
#[test]
fn tiles_cover_the_parts() {
    for (order, parts) in [(0, 1), (1, 1), (3, 3), (64, 2), (33, 1), (99, 3), (8 * 37, 8)] {
        let (square, height) = (Square::new(order, parts, 8), order / parts);
        let mut seen = vec![0; order * order];
        // The address of a part contains its number.
        let part = |p: usize| std::ptr::without_provenance_mut(p << 40);
        for pair in square.tiles(0..square.units(), part, order * 8) {
            let mut tile = |start: *mut u8, rows: usize, columns: usize| {
                let (p, first) = (start.addr() >> 40, start.addr() % (1 << 40) / 8);
                assert!(first / order + rows <= height && first % order + columns <= order);
                for i in 0..rows {
                    let start = p * height * order + first + i * order;
                    seen[start..start + columns].iter_mut().for_each(|count| *count += 1);
                }
            };
            tile(pair.x, pair.rows, pair.columns);
            if pair.x != pair.y {
                tile(pair.y, pair.columns, pair.rows);
            }
        }
        assert!(seen.iter().all(|count| *count == 1), "{order} in {parts} parts");
    }
}
