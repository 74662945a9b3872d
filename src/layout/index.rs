//! Indices of rows and columns, a type for each kind. Arithmetic between kinds does not compile.
//!
//! A [`Partition`](super::Partition) of the rows or of the columns converts between them. For
//! n = 12, P = 2 and tiles of 2 whole columns, block-cyclic:
//!
//! | from | to | by | worked |
//! |---|---|---|---|
//! | `GlobalColumn` | `TileColumn` | `columns.tile_of(j)` | 5 is in 2 |
//! | `GlobalColumn` | rank, `LocalColumn` | `columns.local(j)` | 5 is 3 of rank 0 |
//! | rank, `LocalColumn` | `GlobalColumn` | `columns.global(d, j)` | 3 of rank 0 is 5 |
//! | `GlobalColumn` | `GlobalRow` | `j.row()`, the diagonal | 5 is 5 |
//! | `TileColumn` | `GlobalColumn` | `columns.tile(t).columns()` | 2 is 4 to 5 |
//! | `TileColumn` | rank, `LocalColumn` | `columns.tile(t)` | 2 begins at 2 of rank 0 |
//! | `TileColumn` | `TileRow` | `t.row()`, the diagonal | 2 is 2 |
//! | `TileRow` | `GlobalRow` | `rows.range(i)` | 2 is 4 to 5 |
//! | `GlobalRow` | rank, `LocalRow` | `rows.local(i)` | 4 is 4, of all ranks |
//!
//! ```
//! use meshsolve::layout::*;
//! let matrix = Distribution::whole_columns((12, 12), 2, 2, Mapping::BlockCyclic);
//! let (rows, columns) = (matrix.rows(), matrix.columns());
//! let (i, j) = (GlobalRow::new(4), GlobalColumn::new(5));
//! let (local, t) = (LocalColumn::new(3), TileColumn::new(2));
//! assert_eq!(columns.tile_of(j), t);
//! assert_eq!(columns.local(j), (0, local));
//! assert_eq!(columns.global(0, local), j);
//! assert_eq!(j.row(), GlobalRow::new(5));
//! assert_eq!(columns.tile(t).columns(), GlobalColumn::new(4)..GlobalColumn::new(6));
//! assert_eq!((columns.tile(t).rank, columns.tile(t).local), (0, LocalColumn::new(2)));
//! assert_eq!(t.row(), TileRow::new(2));
//! assert_eq!(rows.range(t.row()), i..i + 2);
//! assert_eq!(rows.local(i), (0, LocalRow::new(4)));
//! // A distance is a plain number.
//! assert_eq!(j - GlobalColumn::new(2), 3);
//! ```
//!
//! An index is no distance:
//! ```compile_fail,E0308
//! # use meshsolve::layout::{GlobalColumn, TileColumn};
//! # let (j, k) = (GlobalColumn::new(5), GlobalColumn::new(2));
//! j + k;
//! ```
//! A global column is no local one:
//! ```compile_fail,E0308
//! # use meshsolve::layout::{GlobalColumn, LocalColumn};
//! # let (j, k) = (GlobalColumn::new(5), LocalColumn::new(2));
//! j - k;
//! ```
//! A column is no row:
//! ```compile_fail,E0308
//! # use meshsolve::layout::{GlobalColumn, GlobalRow};
//! # let (j, i) = (GlobalColumn::new(5), GlobalRow::new(2));
//! j < i;
//! ```
//! The number of a tile is not its first column:
//! ```compile_fail,E0308
//! # use meshsolve::layout::{Column, GlobalColumn, Mapping, Partition};
//! # let columns = Partition::<Column>::new(12, 2, 2, Mapping::Block);
//! columns.tile(GlobalColumn::new(2));
//! ```
//! A number from elsewhere is not an index:
//! ```compile_fail,E0308
//! # use meshsolve::layout::{Column, Mapping, Partition};
//! # let columns = Partition::<Column>::new(12, 2, 2, Mapping::Block);
//! columns.tile(2);
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Range, Sub};

macro_rules! markers {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}
    )*};
}
markers! {
    /// Counts elements of the whole matrix.
    Global
    /// Counts elements of a rank's shard.
    Local
    /// Counts tiles of the whole matrix.
    Tiled
    Row
    Column
}

/// An index of rows or columns (`Axis`) that counts `What`: [`Global`], [`Local`] or [`Tiled`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index<What, Axis>(usize, PhantomData<(What, Axis)>);

pub type GlobalRow = Index<Global, Row>;
pub type GlobalColumn = Index<Global, Column>;
pub type LocalRow = Index<Local, Row>;
pub type LocalColumn = Index<Local, Column>;
pub type TileRow = Index<Tiled, Row>;
pub type TileColumn = Index<Tiled, Column>;

impl<What, Axis> Index<What, Axis> {
    pub const fn new(index: usize) -> Self {
        Index(index, PhantomData)
    }

    pub const fn get(self) -> usize {
        self.0
    }

    /// The indices of a range, ascending.
    pub fn each(range: Range<Self>) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (range.start.0..range.end.0).map(Self::new)
    }
}

impl TileColumn {
    /// The tile row of the same number: that of the diagonal tile.
    pub const fn row(self) -> TileRow {
        TileRow::new(self.0)
    }
}

impl GlobalColumn {
    /// The row of the same number: that of the diagonal entry.
    pub const fn row(self) -> GlobalRow {
        GlobalRow::new(self.0)
    }
}

impl<What, Axis> Add<usize> for Index<What, Axis> {
    type Output = Self;

    fn add(self, distance: usize) -> Self {
        Self::new(self.0 + distance)
    }
}

impl<What, Axis> AddAssign<usize> for Index<What, Axis> {
    fn add_assign(&mut self, distance: usize) {
        self.0 += distance;
    }
}

impl<What, Axis> Sub for Index<What, Axis> {
    type Output = usize;

    fn sub(self, other: Self) -> usize {
        self.0 - other.0
    }
}

impl<What, Axis> fmt::Debug for Index<What, Axis> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
