//! Rows of Q become rows of `Q U`, in groups that fit a worker's room.

use std::ops::Range;

use faer::{MatMut, MatRef};

use super::deflation::{Rotation, Side};
use super::intervals::{Interval, POINTS, Points};
use super::vectors::{Roots, fast, form};
use crate::device::Op;
use crate::device::cpu::blas;
use crate::device::cpu::product::{self, Packed, Units};
use crate::scalar::Scalar;

/// Rows of Q at a time, and what workers take in the last merge.
pub const GROUP: usize = 128;
/// Neighbouring poles of a child, which have an interval.
const POLES: usize = 64;
/// Neighbouring roots, which have an interval: whole units of all kernels.
const ROOTS: usize = 96;

/// Rows of Z, each contiguous.
pub type Rows<'a, 'm, R> = &'a mut [&'m mut [R]];

/// Sizes of the pieces of a product.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    units: Units,
    has_kernel: bool,
    /// Rows of Q.
    group: usize,
    /// Poles of one child, at a time and in all.
    depth: usize,
    poles: usize,
}

impl Pieces {
    /// For matrices of order n.
    pub fn new<R: Scalar>(n: usize, units: Option<Units>) -> Self {
        let poles = n.div_ceil(2).max(1);
        let (group, depth) = (GROUP.min(poles), POLES.min(poles));
        let has_kernel = units.is_some();
        let units = units.unwrap_or(Units { rows: ROOTS, cols: group });
        Pieces { units, has_kernel, group, depth, poles }
    }

    /// Elements of a right factor for a group of rows.
    fn right<R: Scalar>(self, depth: usize) -> usize {
        Packed::<R>::elements(self.units.cols, self.group, depth)
    }

    /// Elements of right factors for some rows, before the one that begins with this step of them all.
    fn before(self, rows: usize, first: usize) -> usize {
        rows.next_multiple_of(self.units.cols) * first
    }

    /// Elements of each part of [`Room`].
    fn elements<R: Scalar>(self) -> [usize; 5] {
        [
            self.right::<R>(self.poles),
            self.right::<R>(self.poles.div_ceil(self.depth) * POINTS),
            self.right::<R>(POINTS),
            Packed::<R>::elements(self.units.rows, ROOTS, self.depth.max(POINTS)),
            ROOTS * self.group,
        ]
    }

    /// Elements of a worker's room.
    pub fn room<R: Scalar>(self) -> usize {
        self.elements::<R>().iter().sum()
    }
}

/// A worker's room.
struct Room<'m, R> {
    /// Columns of poles, a right factor for each interval of these.
    gathered: &'m mut [R],
    /// Sums of them with polynomials, a right factor for each interval.
    sums: &'m mut [R],
    /// Sums of these at the points of roots, a right factor.
    at_points: &'m mut [R],
    left: &'m mut [R],
    product: &'m mut [R],
}

impl<'m, R: Scalar> Room<'m, R> {
    fn new(pieces: Pieces, mut room: &'m mut [R]) -> Self {
        let [gathered, sums, at_points, left, product] = pieces.elements::<R>().map(|elements| {
            let (part, rest) = std::mem::take(&mut room).split_at_mut(elements);
            room = rest;
            part
        });
        Room { gathered, sums, at_points, left, product }
    }
}

/// What happens to rows of a node, from its first column on.
pub struct Update<'a> {
    pub rotations: &'a [Rotation],
    pub roots: Roots<'a>,
    /// Where the columns of U go, and which of them are wanted.
    pub targets: &'a [usize],
    pub chosen: Range<usize>,
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
        columns: Range<usize>,
        pieces: Pieces,
        room: &mut [R],
    ) {
        let mut room = Room::new(pieces, room);
        let u = InPieces::new(self, active, pieces);
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
                    gather(&active.columns, row, [unit, line], count, pieces, room.gathered);
                    if let Some(order) = self.order {
                        for (to, &from) in moved.iter_mut().zip(order) {
                            *to = row[from];
                        }
                        row.copy_from_slice(&moved);
                    }
                }
            }
            u.sum(count, &mut room);
            for piece in &u.pieces_of_roots {
                let some = piece.wanted.clone();
                u.multiply(piece, count, &mut room);
                for (row, from) in rows.iter_mut().zip(room.product.chunks_exact(some.len())) {
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
    for (piece, columns) in columns.chunks(pieces.depth).enumerate() {
        let first = pieces.before(rows, piece * pieces.depth) + place[0] * unit * columns.len();
        for (to, &column) in to[first + place[1]..].iter_mut().step_by(unit).zip(columns) {
            *to = row[column];
        }
    }
}

/// Neighbouring poles, with their weights.
struct PieceOfPoles<'a> {
    interval: Interval,
    /// The first of them.
    first: usize,
    poles: &'a [f64],
    weights: &'a [f64],
    is_far_from_any: bool,
}

/// Neighbouring roots.
struct PieceOfRoots {
    interval: Interval,
    wanted: Range<usize>,
    /// Whether it is far from each piece of poles.
    is_far: Vec<bool>,
}

/// U in pieces, for groups of rows of Q.
struct InPieces<'a> {
    sizes: Pieces,
    points: Points,
    roots: Roots<'a>,
    pieces_of_poles: Vec<PieceOfPoles<'a>>,
    pieces_of_roots: Vec<PieceOfRoots>,
}

impl<'a> InPieces<'a> {
    fn new(update: &Update<'a>, active: &'a Active, sizes: Pieces) -> Self {
        let Update { roots, chosen, .. } = update;
        let poles = active.poles.chunks(sizes.depth).zip(active.weights.chunks(sizes.depth));
        let of_poles = |(piece, (poles, weights)): (usize, (&'a [f64], &'a [f64]))| {
            let (interval, first) = (Interval::of_poles(poles), piece * sizes.depth);
            PieceOfPoles { interval, first, poles, weights, is_far_from_any: false }
        };
        let mut pieces_of_poles: Vec<_> = poles.enumerate().map(of_poles).collect();
        let all = roots.origins.len();
        let mut pieces_of_roots = Vec::new();
        // The cuts between pieces do not depend on which are wanted.
        for first in (0..all).step_by(ROOTS) {
            let end = all.min(first + ROOTS);
            let wanted = first.max(chosen.start)..end.min(chosen.end);
            if wanted.is_empty() {
                continue;
            }
            let interval = Interval::of_roots(roots.part(first..end));
            let is_far = |from: &mut PieceOfPoles| {
                let is_far = from.interval.is_far_from(interval);
                from.is_far_from_any |= is_far;
                is_far
            };
            let is_far = pieces_of_poles.iter_mut().map(is_far).collect();
            pieces_of_roots.push(PieceOfRoots { interval, wanted, is_far });
        }
        InPieces {
            sizes,
            points: Points::chebyshev(),
            roots: *roots,
            pieces_of_poles,
            pieces_of_roots,
        }
    }

    /// Sums over the poles of each piece that is far from some roots, for so many rows.
    fn sum<R: Scalar>(&self, rows: usize, room: &mut Room<R>) {
        let (sizes, units) = (self.sizes, self.sizes.units);
        for (index, from) in self.pieces_of_poles.iter().enumerate() {
            if !from.is_far_from_any {
                continue;
            }
            let left = &mut *room.left;
            fast(
                #[inline(always)]
                || {
                    let (poles, weights) = (from.poles, from.weights);
                    from.interval.polynomials_of_poles(
                        &self.points,
                        units.rows,
                        poles,
                        weights,
                        left,
                    )
                },
            );
            let product = &mut room.product[..POINTS * rows];
            product.fill(R::ZERO);
            let right = &room.gathered[sizes.before(rows, from.first)..];
            sizes.add(product, POINTS, left, right, from.poles.len());
            let sums = &mut room.sums[sizes.before(rows, POINTS * index)..];
            pack(product, rows, units, sums);
        }
    }

    /// `U^T Q^T` for the wanted ones of some roots and so many rows, after the sums.
    fn multiply<R: Scalar>(&self, to: &PieceOfRoots, rows: usize, room: &mut Room<R>) {
        let (sizes, units, points) = (self.sizes, self.sizes.units, &self.points);
        let (roots, count) = (self.roots.part(to.wanted.clone()), to.wanted.len());
        let left = &mut *room.left;
        let pieces = || self.pieces_of_poles.iter().zip(&to.is_far).enumerate();
        let has_far = to.is_far.contains(&true);
        if has_far {
            let product = &mut room.product[..POINTS * rows];
            product.fill(R::ZERO);
            for (index, (from, _)) in pieces().filter(|(_, (_, is_far))| **is_far) {
                fast(
                    #[inline(always)]
                    || from.interval.between_points(points, units.rows, to.interval, left),
                );
                let right = &room.sums[sizes.before(rows, POINTS * index)..];
                sizes.add(product, POINTS, left, right, POINTS);
            }
            pack(product, rows, units, room.at_points);
        }
        let product = &mut room.product[..count * rows];
        product.fill(R::ZERO);
        if has_far {
            fast(
                #[inline(always)]
                || to.interval.polynomials_of_roots(points, units.rows, roots, left),
            );
            sizes.add(product, count, left, room.at_points, POINTS);
        }
        for (_, (from, _)) in pieces().filter(|(_, (_, is_far))| !**is_far) {
            fast(
                #[inline(always)]
                || form(units.rows, roots, from.poles, from.weights, left),
            );
            let right = &room.gathered[sizes.before(rows, from.first)..];
            sizes.add(product, count, left, right, from.poles.len());
        }
    }
}

/// Makes a product for all points and so many rows a right factor.
fn pack<R: Scalar>(product: &[R], rows: usize, units: Units, to: &mut [R]) {
    let product = MatRef::from_column_major_slice(product, POINTS, rows);
    Packed::new(product.transpose(), false, units.cols, to);
}

impl Pieces {
    /// `product <- product + L R` with so many rows, and factors in the first elements of their memory.
    fn add<R: Scalar>(self, product: &mut [R], rows: usize, left: &[R], right: &[R], depth: usize) {
        let (units, columns) = (self.units, product.len() / rows);
        let mut c = MatMut::from_column_major_slice_mut(product, rows, columns);
        if self.has_kernel {
            let left = Packed::of(left, units.rows, rows, depth);
            let right = Packed::of(right, units.cols, columns, depth);
            product::multiply(c, false, &left, 0, &right);
        } else {
            let part =
                |x, unit, lines| MatRef::from_column_major_slice(x, unit, depth).subrows(0, lines);
            let left: MatRef<R> = part(&left[..units.rows * depth], units.rows, rows);
            let right: MatRef<R> = part(&right[..units.cols * depth], units.cols, columns);
            blas::gemm(c.as_mut(), R::ONE, left, Op::None, right.transpose());
        }
    }
}
