//! Rows of Q become rows of `Q U`, in groups that fit a worker's room.

use faer::{MatMut, MatRef};

use super::deflation::{Rotation, Side};
use super::vectors::{Roots, fast, form};
use crate::device::Op;
use crate::device::cpu::blas;
use crate::device::cpu::product::{self, DEEPEST, Packed, Units};
use crate::scalar::Scalar;

/// Rows of Q at a time.
const GROUP: usize = 256;
/// The fewest rows that workers take in the last merge, and how many times as many at most.
pub const TAKEN: usize = 128;
pub const MOST_TAKEN: usize = GROUP / TAKEN;
/// Roots at a time where there is no kernel.
const ROOTS: usize = 128;

/// Rows of Z, each contiguous.
pub type Rows<'a, 'm, R> = &'a mut [&'m mut [R]];

/// Sizes of the pieces of a product.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    units: Units,
    has_kernel: bool,
    /// Rows of Q, and roots.
    group: usize,
    roots: usize,
    depth: usize,
    /// Poles of one child.
    poles: usize,
}

impl Pieces {
    /// For matrices of order n.
    pub fn new<R: Scalar>(n: usize, units: Option<Units>) -> Self {
        let poles = n.div_ceil(2).max(1);
        let (group, depth) = (GROUP.min(poles), DEEPEST.min(poles));
        let roots = match units {
            Some(units) => units.rows_in_cache::<R>(DEEPEST),
            None => ROOTS,
        };
        let roots = roots.min(n.max(1));
        let has_kernel = units.is_some();
        let units = units.unwrap_or(Units { rows: roots, cols: group });
        Pieces { units, has_kernel, group, roots, depth, poles }
    }

    fn elements<R: Scalar>(self) -> [usize; 3] {
        [
            Packed::<R>::elements(self.units.cols, self.group, self.poles),
            Packed::<R>::elements(self.units.rows, self.roots, self.depth),
            self.roots * self.group,
        ]
    }

    /// Elements of a worker's room.
    pub fn room<R: Scalar>(self) -> usize {
        self.elements::<R>().iter().sum()
    }
}

/// What happens to rows of a node, from its first column on.
pub struct Update<'a> {
    pub rotations: &'a [Rotation],
    /// Where the columns of U go.
    pub targets: &'a [usize],
    pub roots: Roots<'a>,
    /// Where other columns go, if they move.
    pub order: Option<&'a [usize]>,
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Poles whose columns are not zero in the rows at hand.
pub struct Active {
    /// The side whose columns are zero.
    pub other: Side,
    pub columns: Vec<usize>,
    pub poles: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Update<'_> {
    /// Applies rotations of columns to a row, but not those of columns that are zero in it.
    fn rotate<R: Scalar>(&self, row: &mut [R], zero: Side) {
        for &Rotation { zeroed, kept, cosine, sine, side } in self.rotations {
            if side != zero {
                let (c, s) = (R::of_parts(cosine, 0.0), R::of_parts(sine, 0.0));
                let (x, y) = (row[zeroed], row[kept]);
                row[zeroed] = c * x + s * y;
                row[kept] = c * y + -s * x;
            }
        }
    }

    /// Changes `rows`, whose columns are those of the node.
    pub fn run<R: Scalar>(
        &self,
        active: &Active,
        rows: Rows<R>,
        columns: std::ops::Range<usize>,
        pieces: Pieces,
        room: &mut [R],
    ) {
        let [gathered, formed, product] = pieces.elements::<R>();
        let (gathered, room) = room.split_at_mut(gathered);
        let (formed, room) = room.split_at_mut(formed);
        let product = &mut room[..product];
        let mut moved = vec![R::ZERO; if self.order.is_some() { columns.len() } else { 0 }];
        for rows in rows.chunks_mut(pieces.group) {
            // The next barrier would notice, but an update takes seconds.
            if (self.is_stopped)() {
                return;
            }
            let count = rows.len();
            for (unit, some) in rows.chunks_mut(pieces.units.cols).enumerate() {
                for (line, row) in some.iter_mut().enumerate() {
                    // All that reads the row at once, while it is in the first-level cache.
                    let row = &mut row[columns.clone()];
                    self.rotate(row, active.other);
                    gather(&active.columns, row, [unit, line], count, pieces, gathered);
                    if let Some(order) = self.order {
                        for (to, &from) in moved.iter_mut().zip(order) {
                            *to = row[from];
                        }
                        row.copy_from_slice(&moved);
                    }
                }
            }
            for first in (0..self.targets.len()).step_by(pieces.roots) {
                let some = first..self.targets.len().min(first + pieces.roots);
                let Roots { origins, offsets, scales } = self.roots;
                let roots = Roots {
                    origins: &origins[some.clone()],
                    offsets: &offsets[some.clone()],
                    scales: &scales[some.clone()],
                };
                let product = &mut product[..some.len() * rows.len()];
                multiply(roots, active, gathered, formed, pieces, product, rows.len());
                for (row, from) in rows.iter_mut().zip(product.chunks_exact(some.len())) {
                    let row = &mut row[columns.clone()];
                    for (&to, from) in self.targets[some.clone()].iter().zip(from) {
                        row[to] = *from;
                    }
                }
            }
        }
    }
}

/// Packs columns of a row as a line of the right factors of products, piece by piece. Its place is
/// line `place[1]` of the unit `place[0]`, with so many rows in all. Other lines of a last unit stay
/// as they are.
fn gather<R: Scalar>(
    columns: &[usize],
    row: &[R],
    place: [usize; 2],
    rows: usize,
    pieces: Pieces,
    to: &mut [R],
) {
    let unit = pieces.units.cols;
    let mut piece = 0;
    for columns in columns.chunks(pieces.depth) {
        let to = &mut to[piece + place[0] * unit * columns.len() + place[1]..];
        for (to, &column) in to.iter_mut().step_by(unit).zip(columns) {
            *to = row[column];
        }
        piece += Packed::<R>::elements(unit, rows, columns.len());
    }
}

/// `product <- U^T Q^T` for some roots (its rows) and the rows of Q that are packed (its columns).
fn multiply<R: Scalar>(
    roots: Roots,
    active: &Active,
    gathered: &[R],
    formed: &mut [R],
    pieces: Pieces,
    product: &mut [R],
    columns: usize,
) {
    let units = pieces.units;
    let rows = roots.origins.len();
    product.fill(R::ZERO);
    let mut at = 0;
    for (poles, weights) in
        active.poles.chunks(pieces.depth).zip(active.weights.chunks(pieces.depth))
    {
        let depth = poles.len();
        let size = Packed::<R>::elements(units.rows, rows, depth);
        let to = &mut formed[..size];
        fast(
            #[inline(always)]
            || form(units.rows, roots, poles, weights, to),
        );
        let right = &gathered[at..];
        at += Packed::<R>::elements(units.cols, columns, depth);
        let mut c = MatMut::from_column_major_slice_mut(&mut *product, rows, columns);
        if pieces.has_kernel {
            let left = Packed::of(formed, units.rows, rows, depth);
            let right = Packed::of(right, units.cols, columns, depth);
            product::multiply(c, false, &left, 0, &right);
        } else {
            let part =
                |x, unit, lines| MatRef::from_column_major_slice(x, unit, depth).subrows(0, lines);
            let left: MatRef<R> = part(&formed[..units.rows * depth], units.rows, rows);
            let right: MatRef<R> = part(&right[..units.cols * depth], units.cols, columns);
            blas::gemm(c.as_mut(), R::ONE, left, Op::None, right.transpose());
        }
    }
}
