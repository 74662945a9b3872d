//! The scratch of a worker that reduces rows of a tall matrix.

use crate::algorithms::qr::tsqr::Stack;
use crate::device::cpu::reflect;

/// Its elements, for so many columns of A, right-hand sides, and rows on a rank.
pub fn elements(n: usize, rhs: usize, rows: usize, is_rank: bool) -> usize {
    // cuSOLVER needs a coefficient for each reflector.
    let room = if is_rank { n + rhs } else { reflect::scratch_elements(n + rhs) };
    Stack::new(n, rhs, rows, is_rank).elements(room)
}
