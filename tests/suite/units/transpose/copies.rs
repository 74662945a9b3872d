//! Transposed copies, against the definition.

use meshsolve::transpose::copies::Copies;
use meshsolve::transpose::vector::{Vector, with};

use super::every_instruction_set;

/// Sizes around those of chips, unaligned, with gaps that must stay as they are.
fn check<V: Vector, const S: usize>() {
    let chip = 64 / S;
    for rows in [0, 1, chip - 1, chip, chip + 1, 6 * chip + 3] {
        for cols in [1, chip - 1, chip, 2 * chip + 1] {
            let (across, down) = (cols * S + 5, rows * S + 7);
            let from: Vec<u8> = (0..rows * across + 3).map(|x| (x * 37 % 251) as u8).collect();
            let mut to: Vec<u8> = (0..cols * down + 3).map(|x| (x * 41 % 241) as u8).collect();
            let mut expected = to.clone();
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let element = &from[3 + i * across + j * S..][..S];
                expected[3 + j * down + i * S..][..S].copy_from_slice(element);
            }
            let copies = Copies::<S> {
                from: from.as_ptr().wrapping_add(3),
                across,
                to: to.as_mut_ptr().wrapping_add(3),
                down,
                rows,
                cols,
            };
            // SAFETY: both are local, with 3 bytes before the elements; the caller checked V.
            unsafe { with::<V, S>(copies) };
            assert!(to == expected, "{S} bytes, {rows} x {cols}");
        }
    }
}

every_instruction_set!(check);
