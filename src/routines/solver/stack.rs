//! The scratch of a worker that reduces rows of a tall matrix.

use crate::algorithms::qr::thin;
use crate::algorithms::qr::tsqr::Stack;
use crate::device::cpu::reflect;

/// Its elements, for so many columns of A, right-hand sides, and rows on a rank.
pub fn elements(n: usize, rhs: usize, rows: usize, is_rank: bool) -> usize {
    Stack::new(n, rhs, rows, is_rank).elements(room(n + rhs, is_rank))
}

/// The same for Q and R of an A of m x n, or R alone.
pub fn thin((m, n): (usize, usize), workers: usize, is_rank: bool) -> thin::Scratch {
    let first = (m / workers).saturating_sub(n);
    let of = thin::Extent { order: n, most: m.div_ceil(workers), first, workers, is_rank };
    thin::Scratch::new(of, room(n, is_rank))
}

/// The elements that a device needs to reduce so many columns.
fn room(columns: usize, is_rank: bool) -> usize {
    if is_rank { 0 } else { reflect::scratch_elements(columns) }
}
