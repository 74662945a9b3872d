//! Exchanges of pairs of tiles.

use meshsolve::transpose::square::Blocks;
use meshsolve::transpose::tiles::{self, Exchange};
use meshsolve::transpose::vector::{Vector, with};

use super::every_instruction_set;

/// Arrays of blocks around the sizes of chips and tiles, unaligned, against the definition.
fn check<V: Vector, const S: usize>() {
    let (chip, tile) = (64 / S, tiles::side(S));
    for side in [1, 2, chip - 1, chip, chip + 1, 3 * chip, tile - 1, tile, tile + chip + 1] {
        for (down, across) in [(1, 1), (2, 1), (1, 2), (2, 3)] {
            let (rows, cols) = (down * side, across * side);
            let before: Vec<u8> = (0..rows * cols * S + 3).map(|x| (x * 37 % 251) as u8).collect();
            let mut data = before.clone();
            let blocks = Blocks { down, across, side };
            let units = blocks.units(S);
            for units in [0..units / 3, units / 3..units] {
                // SAFETY: `data` is local and has 3 bytes more than the array; the caller checked
                // V.
                unsafe {
                    let pairs = blocks.tiles::<S>(units, data.as_mut_ptr().add(3));
                    with::<V, S>(Exchange(pairs));
                }
            }
            let mut expected = before.clone();
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let from = (i - i % side + j % side) * cols + j - j % side + i % side;
                let (to, from) = ((i * cols + j) * S + 3, from * S + 3);
                expected[to..][..S].copy_from_slice(&before[from..][..S]);
            }
            assert!(data == expected, "{S} bytes, {down} x {across} blocks of {side}");
        }
    }
}

every_instruction_set!(check);
