//! `kernels/rows.cu`: interchanges one after the other.

use crate::kernels::emulator::{full, small};
use crate::kernels::memory::Array;
use crate::transposition::Random;

pub type Find = unsafe extern "C" fn(*mut i32, i32, *const i32, i32, i32);
pub type Move = unsafe extern "C" fn(*mut u8, u64, u64, u64, *const i32, i32);

/// Interchanges `pivots[i]` and `first + i`, one after the other. Element (i, j) is at
/// i * strides.0 + j * strides.1.
fn reference(
    x: &mut [u8],
    strides: (usize, usize),
    cols: usize,
    size: usize,
    first: usize,
    pivots: &[i32],
    back: bool,
) {
    let mut order: Vec<usize> = (0..pivots.len()).collect();
    if back {
        order.reverse();
    }
    for i in order {
        for j in 0..cols {
            for byte in 0..size {
                let at = |row: usize| (row * strides.0 + j * strides.1) * size + byte;
                x.swap(at(first + i), at(pivots[i] as usize));
            }
        }
    }
}

#[test]
fn interchanges_of_rows() {
    let mut random = Random(13);
    for trial in 0..240 {
        let size = [4, 8, 16][trial % 3];
        let count = [1, 2, 5, 16, 31, 33, 127, 128, 500, 1024][random.below(10)];
        let first = random.below(5);
        let rows = first + count + random.below(if trial % 2 == 0 { 4 } else { 200 }) + 1;
        let cols = 1 + random.below(9);
        // As from a factorisation, or arbitrary; with few rows the same one recurs often.
        let pivots: Vec<i32> = (0..count)
            .map(|i| match trial % 4 {
                0 => first + i + random.below(rows - first - i),
                1 => random.below(rows),
                2 => rows - 1 - random.below(2.min(rows)),
                _ => first + i,
            } as i32)
            .collect();
        let strides = if trial % 5 == 0 { (cols + 1, 1) } else { (1, rows + trial % 3) };
        let back = trial % 7 > 3;
        let len = ((rows - 1) * strides.0 + (cols - 1) * strides.1 + 1) * size;
        let mut x = Array::random(len, size, &mut random);
        let mut expected = x.content().to_vec();
        reference(&mut expected, strides, cols, size, first, &pivots, back);
        let emulator = if trial % 8 == 0 { full() } else { small() };
        // SAFETY: the parameters of the source.
        let find: Find = unsafe { emulator.kernel("find_moves") };
        // SAFETY: as above.
        let apply: Move = unsafe { emulator.kernel(&format!("permute_rows_{size}")) };
        let (data, list, slots) = (x.pointer(), pivots.as_ptr(), 2 * count);
        let mut moves = Array::new(2 * slots * 4, 4);
        let found: *mut i32 = moves.pointer().cast();
        emulator.launch(1 + trial as u32 % 2, trial as u64, || {
            // SAFETY: room for two numbers of each slot.
            unsafe { find(found, first as i32, list, count as i32, back as i32) };
        });
        moves.check("find_moves");
        emulator.launch(1 + trial as u32 % 3, trial as u64, || {
            let (down, across) = (strides.0 as u64, strides.1 as u64);
            // SAFETY: the block has these strides and all rows that the pivots name.
            unsafe { apply(data, down, across, cols as u64, found, slots as i32) };
        });
        x.check("permute_rows");
        let message = format!("{rows} x {cols} of {size}, from {first}, {pivots:?}, back {back}");
        assert!(x.content() == expected, "{message}");
    }
}
