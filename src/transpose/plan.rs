//! What will be done to an array, as integers only.

use super::columns::{Step, Tiling};
use super::maps::Maps;
use std::fmt;

/// How an array is transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Nothing moves: one side is 0 or 1.
    Trivial,
    /// Columns to rows, on the rows x cols view of the array (theorem 1).
    C2r,
    /// Rows to columns, its inverse, on the cols x rows view (theorem 2).
    R2c,
}

/// A step over the whole array; its units are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A unit is a group of columns.
    Columns(Step),
    /// A unit is a row.
    Rows,
}

/// An algorithm with its parameters for one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    rows: usize,
    cols: usize,
    size: usize,
    algorithm: Algorithm,
    work: Option<Work>,
}

/// What the decomposition needs to know; absent when nothing moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub maps: Maps,
    pub tiling: Tiling,
    /// C2R, as opposed to its inverse.
    pub forward: bool,
}

impl Plan {
    /// The best algorithm for a row-major `rows` x `cols` array of elements of `element_size` bytes.
    ///
    /// Panics unless the size is 4, 8 or 16 and the array fits in the address space.
    pub fn new(rows: usize, cols: usize, element_size: usize) -> Self {
        // The view with fewer rows when its groups of columns fit in scratch; otherwise the one with
        // fewer columns, as in the paper.
        let (most, least) = (rows.max(cols), rows.min(cols));
        let few_rows = least > 0 && Tiling::new(least, most, element_size).held;
        let algorithm = if (rows > cols) != few_rows { Algorithm::C2r } else { Algorithm::R2c };
        Plan::forced(algorithm, rows, cols, element_size)
    }

    /// A certain algorithm; trivial arrays stay trivial.
    ///
    /// Panics as [`Plan::new`] does, and when a trivial plan is asked for where elements must move.
    pub fn forced(algorithm: Algorithm, rows: usize, cols: usize, element_size: usize) -> Self {
        assert!(matches!(element_size, 4 | 8 | 16), "elements of {element_size} bytes");
        let bytes = rows.checked_mul(cols).and_then(|x| x.checked_mul(element_size));
        assert!(bytes.is_some_and(|x| isize::try_from(x).is_ok()), "{rows} x {cols} is too large");
        let (size, trivial) = (element_size, rows <= 1 || cols <= 1);
        let (m, n, forward) = match algorithm {
            _ if trivial => {
                return Plan { rows, cols, size, algorithm: Algorithm::Trivial, work: None };
            }
            Algorithm::Trivial => panic!("{rows} x {cols} is not trivial"),
            Algorithm::C2r => (rows, cols, true),
            Algorithm::R2c => (cols, rows, false),
        };
        let work = Work { maps: Maps::new(m, n), tiling: Tiling::new(m, n, size), forward };
        Plan { rows, cols, size, algorithm, work: Some(work) }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn cols(&self) -> usize {
        self.cols
    }

    pub fn element_size(&self) -> usize {
        self.size
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// How often every element is read and written.
    pub fn passes(&self) -> usize {
        let of = |work: &Work, phase| match phase {
            Phase::Rows => 1,
            Phase::Columns(_) if work.tiling.held || work.tiling.width == 1 => 1,
            // Groups of equal amounts have no fine rotation.
            Phase::Columns(Step::Rotate) if work.maps.b >= work.tiling.width => 1,
            Phase::Columns(_) => 2,
        };
        self.work.iter().flat_map(|w| self.list().iter().map(move |p| of(w, *p))).sum()
    }

    /// Bytes of scratch that every worker brings; at most max(rows, cols) elements.
    pub fn scratch_bytes(&self) -> usize {
        self.work.as_ref().map_or(0, |work| {
            let (m, n) = (work.maps.m, work.maps.n);
            (n * self.size).max(work.tiling.scratch_bytes(m, self.size))
        })
    }

    /// Number of phases; all workers finish one before any begins the next.
    pub fn phases(&self) -> usize {
        self.list().len()
    }

    /// Number of independent pieces of work in a phase.
    pub fn units(&self, phase: usize) -> usize {
        self.work.as_ref().map_or(0, |work| match self.phase(phase) {
            Phase::Rows => work.maps.m,
            Phase::Columns(_) => work.maps.n.div_ceil(work.tiling.width),
        })
    }

    pub(super) fn phase(&self, phase: usize) -> Phase {
        self.list()[phase]
    }

    pub(super) fn work(&self) -> Option<&Work> {
        self.work.as_ref()
    }

    /// The index maps of the view that is worked on.
    pub fn maps(&self) -> Option<&Maps> {
        self.work.as_ref().map(|work| &work.maps)
    }

    /// The first rotation is the identity when the sides are coprime.
    fn list(&self) -> &'static [Phase] {
        const C2R: [Phase; 3] =
            [Phase::Columns(Step::Rotate), Phase::Rows, Phase::Columns(Step::Permute)];
        const R2C: [Phase; 3] =
            [Phase::Columns(Step::Permute), Phase::Rows, Phase::Columns(Step::Rotate)];
        match &self.work {
            None => &[],
            Some(Work { maps, forward: true, .. }) => &C2R[(maps.c == 1) as usize..],
            Some(Work { maps, forward: false, .. }) => &R2C[..3 - (maps.c == 1) as usize],
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = match self.algorithm {
            Algorithm::Trivial => "trivial",
            Algorithm::C2r => "C2R",
            Algorithm::R2c => "R2C",
        };
        let Plan { rows, cols, size, .. } = self;
        write!(f, "{name} {rows} x {cols} of {size} bytes, {} passes, ", self.passes())?;
        write!(f, "{} bytes of scratch", self.scratch_bytes())
    }
}
