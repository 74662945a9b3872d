//! Turns of panels.

use meshsolve::transpose::panels::{PanelArray, Panels};
use meshsolve::transpose::turns::Turns;
use meshsolve::transpose::vector::{Vector, with};

use super::every_instruction_set;

/// Transposes the last but one panel of a tall array to chunks, and that of a wide array back to
/// rows.
fn check<V: Vector, const S: usize>() {
    let line = 64 / S;
    for height in [1, line - 1, line, line + 1, 3 * line] {
        for short in [1, line, 2 * line + 1, 600 / S].into_iter().filter(|s| *s <= 3 * height) {
            let long = 3 * height + 1;
            let before: Vec<u8> = (0..short * long * S + 5).map(|x| (x * 41 % 253) as u8).collect();
            for tall in [true, false] {
                let (rows, cols) = if tall { (long, short) } else { (short, long) };
                let panels = Panels::new(rows, cols, height);
                let mut data = before.clone();
                let data_at = data.as_mut_ptr().wrapping_add(5);
                let memory =
                    PanelArray::<S> { panels, data: data_at, shared: std::ptr::null_mut() };
                let offset = |address: *mut u8| address as usize - data_at as usize + 5;
                let mut expected = before.clone();
                for (c, t) in (0..short).flat_map(|c| (0..height).map(move |t| (c, t))) {
                    let row = offset(memory.row(height + t)) + c * S;
                    let chunk = offset(memory.parked(1, c)) + t * S;
                    let (from, to) = if panels.tall { (row, chunk) } else { (chunk, row) };
                    expected[to..][..S].copy_from_slice(&before[from..][..S]);
                }
                // Chunks of panel 1 are in the place of panel 2, and scratch is empty.
                let turns = Turns { memory: &memory, p: 1, columns: 0..short, group: 2 * line };
                // SAFETY: `data` is local; the caller checked V.
                unsafe { with::<V, S>(turns) };
                assert!(data == expected, "{S} bytes, {rows} x {cols}, height {height}");
            }
        }
    }
}

every_instruction_set!(check);
