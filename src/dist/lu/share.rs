//! Which lanes work on a panel: its owner while the others have enough to do, else several.
//!
//! Unit of time is what one lane needs to subtract a panel from a tile column. With r columns to the right
//! of the panel and L lanes a step takes
//!
//! ```text
//! max(1 + PANEL, (r + 1 + PANEL) / L)        with lookahead, by the owner
//! ceil(r / L) + (1 + PANEL) / G              without, by G lanes
//! ```

use crate::backend::{Backend, Group};
use crate::matrix::Matrix;
use crate::scalar::Scalar;

/// What the factorisation of a panel takes.
const PANEL: f64 = 2.0;

/// The lanes that factor panel `t`, in front of it its owner.
pub fn group_of<T: Scalar, B: Backend<T>>(lane: &B, a: &Matrix<T>, t: usize) -> Group {
    let (tile, lanes) = (a.columns.tile(t), lane.lanes());
    let size = lane.sharers(a.columns.n() - tile.global, tile.width);
    let others = a.columns.count() - t - 1;
    let size = if t == 0 || pays(others, lanes, size) { size } else { 1 };
    Group::new(t % lanes, size, tile.global)
}

/// Whether `size` of all lanes are faster together than one with lookahead, `others` tile columns
/// being to the right of the panel.
fn pays(others: usize, lanes: usize, size: usize) -> bool {
    let panel = 1.0 + PANEL;
    let ahead = panel.max((others as f64 + panel) / lanes as f64);
    let together = others.div_ceil(lanes) as f64 + panel / size as f64;
    together < ahead
}
