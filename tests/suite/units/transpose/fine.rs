//! Fine rotations, against the definition.

use meshsolve::transpose::fine::Sweep;
use meshsolve::transpose::memory::WIDEST;
use meshsolve::transpose::vector::Vector;

use super::every_instruction_set;

/// Rotates columns of a small array both ways and compares with the definition.
fn check<V: Vector, const S: usize>() {
    for rows in [1usize, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 71] {
        for width in [1usize, 3, 4, 8, 15, 16, 17, 32, 40] {
            for slow in [1usize, 2, 5, 1000] {
                let amounts: Vec<usize> = (0..width).map(|t| t / slow).collect();
                let depth = amounts[width - 1];
                if depth >= rows || width * S > WIDEST {
                    continue;
                }
                let pitch = (width + 3) * S;
                let before: Vec<u8> = (0..rows * pitch).map(|x| (x * 37 % 251) as u8).collect();
                for up in [true, false] {
                    let mut data = before.clone();
                    let mut saved = vec![0u8; depth * width * S];
                    let base = data.as_mut_ptr().wrapping_add(S);
                    let last = base.wrapping_add((rows - 1) * pitch);
                    let (first, stride) =
                        if up { (base, pitch as isize) } else { (last, -(pitch as isize)) };
                    let sweep = Sweep { first, stride, rows, amounts: &amounts };
                    // SAFETY: `data` is local; `saved` holds depth sub-rows; the caller checked V.
                    unsafe { sweep.run::<S, V>(saved.as_mut_ptr()) };
                    let mut expected = before.clone();
                    for (i, t) in (0..rows).flat_map(|i| (0..width).map(move |t| (i, t))) {
                        let by = if up { amounts[t] } else { rows - amounts[t] };
                        let (to, from) = (i * pitch, (i + by) % rows * pitch);
                        let at = (t + 1) * S;
                        expected[to + at..][..S].copy_from_slice(&before[from + at..][..S]);
                    }
                    assert!(data == expected, "{S} bytes, {rows} x {width}, slope 1/{slow}, {up}");
                }
            }
        }
    }
}

every_instruction_set!(check);
