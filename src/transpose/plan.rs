//! The plan for an array, as integers only.

use super::columns::{Step, Tiling};
use super::maps::Maps;
use super::panels::Panels;
use super::segments::Segments;
use super::skinny::Skinny;
use super::square::Blocks;
use std::fmt;

/// The algorithm of a transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// No data moves: one side is 0 or 1.
    Trivial,
    /// Rows = cols: pairs of tiles are exchanged.
    Square,
    /// Square blocks are transposed in place, then their rows move to their places. The side of the
    /// blocks divides both sides of the array.
    Blocks { side: usize },
    /// Panels of `height` along the long side become chunks, which then move to their places.
    Panel { height: usize },
    /// One side is 2 to 32. Panels of `height` along the long side become chunks on chip, which
    /// then move to their places.
    Skinny { height: usize },
    /// Columns to rows, on the rows x cols view of the array (theorem 1).
    C2r,
    /// Rows to columns, its inverse, on the cols x rows view (theorem 2).
    R2c,
}

/// A step over the whole array. Its units are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A unit is a pair of tiles.
    Tiles,
    /// A unit is a slice of all segments.
    Segments,
    /// A phase of the panel algorithm.
    Panels,
    /// A phase of the algorithm for skinny arrays.
    Skinny,
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
    work: Work,
}

/// The parameters of the algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Nothing,
    Blocks(Blocks, Segments),
    Panels(Panels),
    Skinny(Skinny),
    Decomposition(Decomposition),
}

/// The parameters of C2R and R2C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decomposition {
    pub maps: Maps,
    pub tiling: Tiling,
    /// C2R, as opposed to its inverse.
    pub forward: bool,
}

impl Plan {
    /// A given algorithm. Trivial arrays stay trivial.
    ///
    /// Panics as [`Plan::new`] does, and when the algorithm does not apply to the shape.
    pub fn forced(algorithm: Algorithm, rows: usize, cols: usize, element_size: usize) -> Self {
        assert_possible(rows, cols, element_size);
        let plan = |algorithm, work| Plan { rows, cols, size: element_size, algorithm, work };
        let decomposition = |m, n, forward| {
            let (maps, tiling) = (Maps::new(m, n), Tiling::new(m, n, element_size));
            Work::Decomposition(Decomposition { maps, tiling, forward })
        };
        let blocks = |side| {
            let (down, across) = (rows / side, cols / side);
            Work::Blocks(Blocks { down, across, side }, Segments::new(down, across, side))
        };
        if rows <= 1 || cols <= 1 {
            return plan(Algorithm::Trivial, Work::Nothing);
        }
        let work = match algorithm {
            Algorithm::Trivial => panic!("{rows} x {cols} is not trivial"),
            Algorithm::Square => {
                assert!(rows == cols, "{rows} x {cols} is not square");
                blocks(rows)
            }
            Algorithm::Blocks { side } => {
                let divides = rows.is_multiple_of(side) && cols.is_multiple_of(side);
                assert!(divides, "{rows} x {cols} is not made of blocks of {side} x {side}");
                blocks(side)
            }
            Algorithm::Panel { height } => Work::Panels(Panels::new(rows, cols, height)),
            Algorithm::Skinny { height } => {
                Work::Skinny(Skinny::new(rows, cols, height, element_size))
            }
            Algorithm::C2r => decomposition(rows, cols, true),
            Algorithm::R2c => decomposition(cols, rows, false),
        };
        plan(algorithm, work)
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
        match &self.work {
            Work::Panels(_) => return 2,
            Work::Skinny(skinny) => return skinny.passes(),
            _ => {}
        }
        (0..self.phases())
            .map(|phase| match (self.phase(phase), &self.work) {
                (Phase::Columns(step), Work::Decomposition(work)) => work.passes(step),
                _ => 1,
            })
            .sum()
    }

    /// Bytes of scratch that every worker brings.
    pub fn scratch_bytes(&self) -> usize {
        match &self.work {
            Work::Nothing => 0,
            Work::Blocks(_, segments) if self.phases() > 1 => segments.scratch_bytes(self.size),
            Work::Blocks(..) => 0,
            Work::Panels(panels) => panels.scratch_bytes(self.size),
            Work::Skinny(skinny) => skinny.scratch_bytes(self.size),
            Work::Decomposition(work) => {
                let (m, n) = (work.maps.m, work.maps.n);
                (n * self.size).max(work.tiling.scratch_bytes(m, self.size))
            }
        }
    }

    /// Bytes of scratch that all workers share.
    pub fn shared_bytes(&self) -> usize {
        match &self.work {
            Work::Panels(panels) => panels.shared_bytes(self.size),
            Work::Skinny(skinny) => skinny.shared_bytes(self.size),
            _ => 0,
        }
    }

    /// Number of phases. All workers finish one before any begins the next.
    pub fn phases(&self) -> usize {
        match &self.work {
            Work::Panels(panels) => panels.phases(),
            Work::Skinny(skinny) => skinny.phases(),
            _ => self.list().len(),
        }
    }

    /// Number of independent pieces of work in a phase.
    pub fn units(&self, phase: usize) -> usize {
        match (self.phase(phase), &self.work) {
            (Phase::Tiles, Work::Blocks(blocks, _)) => blocks.units(self.size),
            (Phase::Segments, Work::Blocks(_, segments)) => segments.units(self.size),
            (Phase::Panels, Work::Panels(panels)) => panels.units(phase, self.size),
            (Phase::Skinny, Work::Skinny(skinny)) => skinny.units(phase, self.size),
            (Phase::Rows, Work::Decomposition(work)) => work.maps.m,
            (Phase::Columns(_), Work::Decomposition(work)) => {
                work.maps.n.div_ceil(work.tiling.width)
            }
            _ => 0,
        }
    }

    pub(super) fn phase(&self, phase: usize) -> Phase {
        match &self.work {
            Work::Panels(_) => Phase::Panels,
            Work::Skinny(_) => Phase::Skinny,
            _ => self.list()[phase],
        }
    }

    pub fn panels(&self) -> Option<&Panels> {
        match &self.work {
            Work::Panels(panels) => Some(panels),
            _ => None,
        }
    }

    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// The index maps of the view that C2R and R2C use.
    pub fn maps(&self) -> Option<&Maps> {
        match &self.work {
            Work::Decomposition(work) => Some(&work.maps),
            _ => None,
        }
    }

    pub fn segments(&self) -> Option<&Segments> {
        match &self.work {
            Work::Blocks(_, segments) => Some(segments),
            _ => None,
        }
    }

    fn list(&self) -> &'static [Phase] {
        const BLOCKS: [Phase; 2] = [Phase::Tiles, Phase::Segments];
        match &self.work {
            Work::Nothing | Work::Panels(_) | Work::Skinny(_) => &[],
            Work::Blocks(blocks, _) if blocks.down == 1 && blocks.across == 1 => &BLOCKS[..1],
            Work::Blocks(..) => &BLOCKS,
            Work::Decomposition(work) => work.phases(),
        }
    }
}

/// Panics as [`Plan::new`] promises.
pub(super) fn assert_possible(rows: usize, cols: usize, size: usize) {
    assert!(matches!(size, 4 | 8 | 16), "elements of {size} bytes");
    let bytes = rows.checked_mul(cols).and_then(|x| x.checked_mul(size));
    assert!(bytes.is_some_and(|x| isize::try_from(x).is_ok()), "{rows} x {cols} is too large");
}

impl Decomposition {
    /// The first rotation is the identity when the sides are coprime.
    fn phases(&self) -> &'static [Phase] {
        const C2R: [Phase; 3] =
            [Phase::Columns(Step::Rotate), Phase::Rows, Phase::Columns(Step::Permute)];
        const R2C: [Phase; 3] =
            [Phase::Columns(Step::Permute), Phase::Rows, Phase::Columns(Step::Rotate)];
        let coprime = (self.maps.c == 1) as usize;
        if self.forward { &C2R[coprime..] } else { &R2C[..3 - coprime] }
    }

    fn passes(&self, step: Step) -> usize {
        match step {
            _ if self.tiling.held || self.tiling.width == 1 => 1,
            // Groups of equal amounts have no fine rotation.
            Step::Rotate if self.maps.b >= self.tiling.width => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Plan { rows, cols, size, .. } = self;
        match self.algorithm {
            Algorithm::Trivial => return write!(f, "trivial {rows} x {cols} of {size} bytes"),
            Algorithm::Square => write!(f, "square")?,
            Algorithm::Blocks { side } => write!(f, "blocks of {side} in")?,
            Algorithm::Panel { height } => write!(f, "panels of {height} in")?,
            Algorithm::Skinny { height } => write!(f, "skinny panels of {height} in")?,
            Algorithm::C2r => write!(f, "C2R")?,
            Algorithm::R2c => write!(f, "R2C")?,
        }
        let passes = self.passes();
        let (plural, bound) = (if passes == 1 { "" } else { "es" }, 1.0 / passes as f64);
        write!(f, " {rows} x {cols} of {size} bytes, {passes} pass{plural}, ")?;
        write!(f, "about {bound:.2} of a copy, {} bytes of scratch", self.scratch_bytes())?;
        match self.shared_bytes() {
            0 => Ok(()),
            shared => write!(f, ", {shared} shared"),
        }
    }
}
