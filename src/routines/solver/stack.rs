//! The scratch of a worker that reduces rows of a tall matrix.

use crate::algorithms::qr::{thin, tsqr};
use crate::device::cpu::reflect;

/// To reduce them to a triangle.
pub fn tsqr(of: tsqr::Extent) -> tsqr::Scratch {
    let columns = of.order + of.sides;
    let [width, room] = device(of.order, columns, of.size, of.is_rank);
    tsqr::Scratch::new(of, width, room)
}

/// The most workers on a CPU that reduce them.
pub fn most_workers(rows: usize, order: usize, sides: usize, size: usize) -> usize {
    tsqr::most_workers(rows, order, reflect::panel_width(order + sides, size), size)
}

/// For Q and R of an A of m x n, or R alone, with elements of `size` bytes.
pub fn thin((m, n): (usize, usize), workers: usize, size: usize, is_rank: bool) -> thin::Scratch {
    let first = (m / workers).saturating_sub(n);
    let of = thin::Extent { order: n, most: m.div_ceil(workers), first, workers, is_rank };
    let [width, room] = device(n, n, size, is_rank);
    thin::Scratch::new(of, width, room)
}

/// The columns that a device reduces at a time, of `order` with more on the right, and the elements
/// that it needs.
fn device(order: usize, columns: usize, size: usize, is_rank: bool) -> [usize; 2] {
    match is_rank {
        true => [order, 0],
        false => [reflect::panel_width(columns, size), reflect::scratch_elements(columns, size)],
    }
}
