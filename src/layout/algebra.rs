//! A layout and its coordinates. The sibling module `tiling` has tilings and products.

use std::fmt;

use super::Tuple;

/// A map from coordinates within `shape` to indices in memory, written `shape:stride`.
///
/// One step in a mode of the shape moves the index by the stride in the same place, so both nest in
/// the same way. Coordinates are *natural* (nested as the shape is) or *1-D*: the natural ones
/// counted with the leftmost integer fastest.
///
/// ```
/// use meshsolve::layout::Layout;
/// let a = Layout::new(((2, 2), 2), ((4, 1), 2));
/// assert_eq!(a.to_string(), "((2,2),2):((4,1),2)");
/// assert_eq!(a.at(((1, 0), 1)), 6);
/// assert_eq!(a.at((1, 1)), 6); // an integer for a nested mode: its 1-D coordinate
/// assert_eq!(a.index(5), 6);
/// assert_eq!(a.coordinate(5), ((1, 0), 1).into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Tuple,
    stride: Tuple,
}

impl Layout {
    /// Panics unless shape and stride nest in the same way.
    pub fn new(shape: impl Into<Tuple>, stride: impl Into<Tuple>) -> Self {
        let (shape, stride) = (shape.into(), stride.into());
        assert!(shape.congruent(&stride), "shape {shape} and stride {stride} nest differently");
        Layout { shape, stride }
    }

    /// LayoutLeft: the leftmost mode is contiguous (column-major for rank 2).
    pub fn left(shape: impl Into<Tuple>) -> Self {
        let shape = shape.into();
        let mut next = 1;
        let stride = shape.map(&mut |s| {
            let here = next;
            next *= s;
            here
        });
        Layout { shape, stride }
    }

    /// LayoutRight: the rightmost mode is contiguous (row-major for rank 2).
    pub fn right(shape: impl Into<Tuple>) -> Self {
        let shape = shape.into();
        let flat = shape.flat();
        let mut position = 0;
        let stride = shape.map(&mut |_| {
            position += 1;
            flat[position..].iter().product()
        });
        Layout { shape, stride }
    }

    /// The layout with these top-level modes.
    pub(super) fn join(modes: impl IntoIterator<Item = Layout>) -> Self {
        let (shape, stride): (Vec<_>, Vec<_>) =
            modes.into_iter().map(|mode| (mode.shape, mode.stride)).unzip();
        Layout { shape: shape.into(), stride: stride.into() }
    }

    pub fn shape(&self) -> &Tuple {
        &self.shape
    }

    pub fn stride(&self) -> &Tuple {
        &self.stride
    }

    /// The number of coordinates.
    pub fn size(&self) -> usize {
        self.shape.product()
    }

    /// The largest index + 1: the elements of its memory. 0 for an empty layout.
    pub fn cosize(&self) -> usize {
        match self.size() {
            0 => 0,
            _ => self.flat().map(|(s, d)| (s - 1) * d).sum::<usize>() + 1,
        }
    }

    /// The number of top-level modes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Top-level mode `i`. A layout `s:d` is its own mode 0. Panics past the last mode.
    pub fn mode(&self, i: usize) -> Layout {
        assert!(i < self.rank(), "no mode {i} in {self}");
        Layout { shape: self.shape.modes()[i].clone(), stride: self.stride.modes()[i].clone() }
    }

    pub(super) fn modes(&self) -> impl Iterator<Item = Layout> {
        (0..self.rank()).map(|i| self.mode(i))
    }

    /// (size, stride) of the innermost modes from left to right.
    pub(super) fn flat(&self) -> impl Iterator<Item = (usize, usize)> {
        self.shape.flat().into_iter().zip(self.stride.flat())
    }

    /// The index at a natural coordinate. A nested mode also takes an integer, its 1-D coordinate.
    ///
    /// Panics when the coordinate does not fit the shape.
    pub fn at(&self, coordinate: impl Into<Tuple>) -> usize {
        let coordinate = coordinate.into();
        at(&self.shape, &self.stride, &coordinate)
            .unwrap_or_else(|| panic!("coordinate {coordinate} does not fit {self}"))
    }

    /// The index at 1-D coordinate `l`. Panics unless `l` is below the size.
    pub fn index(&self, l: usize) -> usize {
        self.at(l)
    }

    /// The natural coordinate of 1-D coordinate `l`; `Layout::left(shape).at` is the inverse.
    ///
    /// Panics unless `l` is below the size.
    pub fn coordinate(&self, l: usize) -> Tuple {
        assert!(l < self.size(), "coordinate {l} does not fit {self}");
        let mut rest = l;
        self.shape.map(&mut |s| {
            let here = rest % s;
            rest /= s;
            here
        })
    }

    /// A matrix with its modes swapped: the transpose, without moving data.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// // Rank d of P = 3 holds n/P = 2 rows of a row-major 6 x 6 matrix A: two columns of A^T.
    /// let shard = Layout::right((2, 6));
    /// assert_eq!(shard.to_string(), "(2,6):(6,1)");
    /// assert_eq!(shard.transposed(), Layout::left((6, 2)));
    /// ```
    ///
    /// Panics unless the rank is 2.
    pub fn transposed(&self) -> Layout {
        assert!(self.rank() == 2, "{self} is not a matrix");
        Layout::join([self.mode(1), self.mode(0)])
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape, self.stride)
    }
}

/// None where the coordinate does not fit.
fn at(shape: &Tuple, stride: &Tuple, coordinate: &Tuple) -> Option<usize> {
    match (shape, stride, coordinate) {
        (_, _, Tuple::Int(l)) => {
            let mut rest = *l;
            let in_range = rest < shape.product();
            in_range.then(|| {
                let step = |(s, d)| {
                    let here = rest % s * d;
                    rest /= s;
                    here
                };
                shape.flat().into_iter().zip(stride.flat()).map(step).sum()
            })
        }
        (Tuple::Tuple(s), Tuple::Tuple(d), Tuple::Tuple(c)) if s.len() == c.len() => {
            s.iter().zip(d).zip(c).map(|((s, d), c)| at(s, d, c)).sum()
        }
        _ => None,
    }
}
