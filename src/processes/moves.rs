//! Moves of a matrix of which each rank has as many whole columns, one after the other in its memory.
//! All are in place, with some columns of staging.
//!
//! - From the block distribution (rank r has the columns from r n / P on) to the block-cyclic one, and
//!   back: all tiles of a rank move some of their columns at once. So a place is free before another
//!   column comes.
//! - One triangle becomes the mirror image of the other, in the block distribution.
//! - The matrix becomes its transpose, in the block distribution.

use std::cmp::Ordering;

use crate::error::Result;
use crate::scalar::Scalar;

/// How the ranks of a call exchange elements.
pub trait Transport<T> {
    fn rank(&self) -> usize;
    fn ranks(&self) -> usize;
    /// `out` has `to[r]` elements for each rank r, one after the other; `into` gets `from[r]` elements of
    /// each. All ranks call this.
    fn exchange(&self, out: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()>;
}

/// A block-cyclic distribution of n columns in tiles of `width`, which divides n / `ranks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cyclic {
    pub rows: usize,
    pub columns: usize,
    pub ranks: usize,
    pub width: usize,
}

/// The bytes that one step of a move stages, if a column of each tile is not more.
const STAGED: usize = 2 << 20;
/// The widest tile of a rank with few columns, and with many of a call that prefers wide ones.
const WIDEST: [usize; 2] = [64, 128];
const MANY: usize = 2048;
/// Columns that are transposed at a time.
const BLOCK: usize = 16;
/// Narrower tiles would cost more than a distribution by blocks does.
const NARROWEST: usize = 8;

impl Cyclic {
    /// The distribution of an m x n matrix: in the widest tiles up to a limit that divide a rank's
    /// columns, or by blocks, if there are none.
    pub fn of_columns((m, n): (usize, usize), ranks: usize, prefers_wide: bool) -> Cyclic {
        let local = n / ranks;
        let width = (NARROWEST..=WIDEST[usize::from(prefers_wide && local >= MANY)])
            .rev()
            .find(|&width| local.is_multiple_of(width));
        Cyclic { rows: m, columns: n, ranks, width: width.unwrap_or(local).max(1) }
    }

    /// Columns of a rank.
    pub fn local(&self) -> usize {
        self.columns / self.ranks
    }

    /// The number in the matrix of a rank's column.
    pub fn column(&self, rank: usize, local: usize) -> usize {
        (local / self.width * self.ranks + rank) * self.width + local % self.width
    }

    /// Tiles of a rank.
    pub fn tiles(&self) -> usize {
        self.local() / self.width
    }

    /// Whether it is the block distribution.
    fn is_block(&self) -> bool {
        self.tiles() <= 1 || self.ranks == 1
    }

    /// The rank of a tile in the block distribution and in this one, and its place there.
    fn places(&self, tile: usize) -> [(usize, usize); 2] {
        let tiles = self.tiles();
        [(tile / tiles, tile % tiles), (tile % self.ranks, tile / self.ranks)]
    }

    /// Columns of each tile that move at once.
    pub fn step<T>(&self) -> usize {
        let all = size_of::<T>() * self.rows * self.tiles();
        (STAGED / all.max(1)).clamp(1, self.width)
    }

    /// Elements of each of the two buffers that a move needs.
    pub fn staged<T>(&self) -> usize {
        if self.is_block() { 0 } else { self.rows * self.tiles() * self.step::<T>() }
    }

    /// Moves a rank's columns: `forward` from the block distribution to this one, otherwise back.
    pub fn move_columns<T: Scalar>(
        &self,
        ranks: &impl Transport<T>,
        a: &mut [T],
        [out, into]: &mut [Vec<T>; 2],
        forward: bool,
    ) -> Result<()> {
        if self.is_block() {
            return Ok(());
        }
        let (me, all, rows, width) = (ranks.rank(), self.ranks, self.rows, self.width);
        let ends = |tile| {
            let [block, cyclic] = self.places(tile);
            if forward { (block, cyclic) } else { (cyclic, block) }
        };
        let (mut sent, mut got) = (vec![Vec::new(); all], vec![Vec::new(); all]);
        for tile in 0..self.tiles() * all {
            let ((from, old), (to, new)) = ends(tile);
            if from == me {
                sent[to].push(old);
            }
            if to == me {
                got[from].push(new);
            }
        }
        for first in (0..width).step_by(self.step::<T>()) {
            let count = self.step::<T>().min(width - first) * rows;
            let part = |place: usize| {
                let start = (place * width + first) * rows;
                start..start + count
            };
            let counts = |places: &[Vec<usize>]| -> Vec<usize> {
                places.iter().map(|of_rank| of_rank.len() * count).collect()
            };
            for (&place, to) in sent.iter().flatten().zip(out.chunks_exact_mut(count)) {
                to.copy_from_slice(&a[part(place)]);
            }
            ranks.exchange(out, &counts(&sent), into, &counts(&got))?;
            for (&place, from) in got.iter().flatten().zip(into.chunks_exact(count)) {
                a[part(place)].copy_from_slice(from);
            }
        }
        Ok(())
    }
}

/// Elements of each of the two buffers that [`mirror`] and [`transpose`] need for a matrix of order n.
pub fn mirrored<T>(n: usize, ranks: usize) -> usize {
    if ranks == 1 { 0 } else { n * columns_at_once::<T>(n, n / ranks) }
}

fn columns_at_once<T>(n: usize, local: usize) -> usize {
    (STAGED / (size_of::<T>() * n).max(1)).clamp(1, local.max(1))
}

/// All positions (k, j) of `width` x `local`, some j at a time: whichever of the two counts lines of
/// memory, these stay in cache.
fn blocked(width: usize, local: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..local).step_by(BLOCK).flat_map(move |first| {
        (0..width).flat_map(move |k| (first..local.min(first + BLOCK)).map(move |j| (k, j)))
    })
}

/// Makes the other triangle the mirror image of the lower or the upper one, of a matrix of order n in
/// the block distribution. With `conjugate` the matrix becomes Hermitian, with a real diagonal.
pub fn mirror<T: Scalar>(
    ranks: &impl Transport<T>,
    n: usize,
    a: &mut [T],
    [out, into]: &mut [Vec<T>; 2],
    lower: bool,
    conjugate: bool,
) -> Result<()> {
    let (me, all) = (ranks.rank(), ranks.ranks());
    let local = n / all;
    let image = |x: T| if conjugate { T::conj_impl(&x) } else { x };
    let own = me * local;
    if conjugate {
        for j in 0..local {
            let entry = &mut a[j * n + own + j];
            *entry = T::of_parts(entry.parts().0, 0.0);
        }
    }
    for (j, i) in blocked(local, local).filter(|(j, i)| i > j) {
        let (below, above) = (j * n + own + i, i * n + own + j);
        let (from, to) = if lower { (below, above) } else { (above, below) };
        a[to] = image(a[from]);
    }
    // The triangle's blocks off the diagonal go to the ranks of their rows.
    let goes = |from: usize, to: usize| match from.cmp(&to) {
        Ordering::Equal => false,
        Ordering::Less => lower,
        Ordering::Greater => !lower,
    };
    let step = columns_at_once::<T>(n, local);
    for first in (0..local).step_by(step) {
        let width = step.min(local - first);
        let counts = |goes: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..all).map(|rank| if goes(rank) { local * width } else { 0 }).collect()
        };
        let (to, from) = (counts(&|rank| goes(me, rank)), counts(&|rank| goes(rank, me)));
        let mut parts = out.chunks_exact_mut(local * width);
        for rank in (0..all).filter(|&rank| goes(me, rank)) {
            let part = parts.next().expect("room for all ranks");
            for (j, column) in (first..first + width).zip(part.chunks_exact_mut(local)) {
                column.copy_from_slice(&a[j * n + rank * local..][..local]);
            }
        }
        ranks.exchange(out, &to, into, &from)?;
        let mut parts = into.chunks_exact(local * width);
        for rank in (0..all).filter(|&rank| goes(rank, me)) {
            let part = parts.next().expect("a part of each rank");
            for (k, j) in blocked(width, local) {
                a[j * n + rank * local + first + k] = image(part[k * local + j]);
            }
        }
    }
    Ok(())
}

/// Transposes a matrix of order n in the block distribution. Of two ranks the first one gives some of its
/// columns, and the other one the rows that take their place.
pub fn transpose<T: Scalar>(
    ranks: &impl Transport<T>,
    n: usize,
    a: &mut [T],
    [out, into]: &mut [Vec<T>; 2],
) -> Result<()> {
    let (me, all) = (ranks.rank(), ranks.ranks());
    let local = n / all;
    let own = me * local;
    for (j, i) in blocked(local, local).filter(|(j, i)| i > j) {
        a.swap(j * n + own + i, i * n + own + j);
    }
    let step = columns_at_once::<T>(n, local);
    for first in (0..local).step_by(step) {
        let width = step.min(local - first);
        let others = || (0..all).filter(|&rank| rank != me);
        // Element (k, j) of the part that is exchanged with a rank: k-th of its width, j-th of the rest.
        let place = |rank: usize, k: usize, j: usize| {
            if me < rank {
                (first + k) * n + rank * local + j
            } else {
                j * n + rank * local + first + k
            }
        };
        let counts: Vec<usize> =
            (0..all).map(|rank| if rank == me { 0 } else { local * width }).collect();
        for (rank, part) in others().zip(out.chunks_exact_mut(local * width)) {
            for (k, j) in blocked(width, local) {
                part[k * local + j] = a[place(rank, k, j)];
            }
        }
        ranks.exchange(out, &counts, into, &counts)?;
        for (rank, part) in others().zip(into.chunks_exact(local * width)) {
            for (k, j) in blocked(width, local) {
                a[place(rank, k, j)] = part[k * local + j];
            }
        }
    }
    Ok(())
}
