//! A Hermitian band matrix becomes tridiagonal by unitary similarity, in the memory of the band
//! (Lang, SIAM J. Sci. Comput. 14, 1993).
//!
//! Sweep s makes column s tridiagonal by a Householder reflector. That fills a triangle below the
//! band. The first column of it is eliminated by the next reflector, a band width further down, and
//! so on to the last row. The rest of the triangle is where the next sweep begins its own. So sweep
//! s may follow sweep s - 1 two steps behind, and workers take sweeps in turn (Haidar, Ltaief and
//! Dongarra, SC 2011). The order of operations on an element does not depend on the workers.

pub mod step;

use self::step::reflector;
use super::blas;
use super::passes::Block;
use crate::comm::Step;
use crate::device::{Band, SweepReflectors, Tridiagonal};
use crate::scalar::Scalar;

/// How far a sweep is behind the one before it when it works on the block below a diagonal block:
/// that one has done the next diagonal block but one.
const BEHIND: usize = 3;

/// Which sweeps a worker makes: every `workers`-th from `worker` on.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub worker: usize,
    pub workers: usize,
}

impl Turn {
    /// All of them.
    pub const ALONE: Turn = Turn { worker: 0, workers: 1 };

    /// Counts of a worker's progress: as many for each of its sweeps.
    fn each<T>(band: &Band<T>) -> usize {
        band.order() / band.width().max(1) + 1 + BEHIND
    }

    /// The worker of a sweep, and its count once that has made so many steps.
    pub fn count<T>(self, band: &Band<T>, sweep: usize, steps: usize) -> (usize, usize) {
        (sweep % self.workers, sweep / self.workers * Self::each(band) + steps)
    }

    /// The worker's count once a sweep has ended.
    pub fn end<T>(self, band: &Band<T>, sweep: usize) -> usize {
        (sweep / self.workers + 1) * Self::each(band)
    }
}

/// Elements of a worker's room.
pub fn room(width: usize) -> usize {
    3 * width
}

/// A worker's sweeps, whose reflectors go to `kept`. `wait` is for a sweep that has made so many
/// steps, and `tell` says how many this worker's sweep has made, none if it has ended.
///
/// # Safety
/// *Order* (see [`Cells`](crate::matrix::Cells)): workers of all turns make their sweeps of this band, nothing else accesses
/// it or `kept`, and `wait` returns after the steps.
pub unsafe fn sweep<T: Scalar>(
    band: Band<T>,
    turn: Turn,
    kept: Option<&SweepReflectors<T>>,
    room: &mut [T],
    mut wait: impl FnMut(usize, usize) -> Step,
    mut tell: impl FnMut(usize, Option<usize>),
) -> Step {
    let (n, b, cells) = (band.order(), band.width(), band.cells());
    if b < 2 {
        return Ok(());
    }
    let stride = cells.col_stride() - 1;
    assert!(cells.row_stride() == 1 && stride > 2 * b, "columns of the band");
    let block = |row: usize, col: usize, rows: usize, cols: usize| Block {
        first: cells.as_ptr().wrapping_add(row + col * stride),
        rows,
        cols,
        stride,
    };
    let (one, rest) = room.split_at_mut(b);
    let (other, rest) = rest.split_at_mut(b);
    let mut vectors = [one, other];
    let rest = &mut rest[..b];
    for s in (turn.worker..n.saturating_sub(2)).step_by(turn.workers) {
        let (mut first, mut rows) = (s + 1, b.min(n - s - 1));
        wait(s, BEHIND - 1)?;
        let [mut current, mut next] = vectors.each_mut();
        // SAFETY: *memory* of column s of the band, and *order*, which the caller promises.
        let mut tau = unsafe { reflector(block(first, s, rows, 1).first, &mut current[..rows]) };
        for k in 0.. {
            if let Some(place) = kept.and_then(|kept| kept.reflector(s, k)) {
                // SAFETY: *order*: this sweep's own column, of which the caller promises it.
                let place = blas::column_mut(unsafe { place.write() }, 0);
                place.copy_from_slice(&current[..rows]);
                place[0] = tau;
            }
            let below = first + rows;
            let next_rows = b.min(n - below);
            if next_rows > 0 {
                wait(s, k + BEHIND)?;
            }
            let step = step::Step {
                diagonal: block(first, first, rows, rows),
                below: block(below, first, next_rows, rows),
                v: &current[..rows],
                tau,
                next: &mut next[..next_rows],
                room: rest,
            };
            // SAFETY: *memory* of these blocks: those of a bulge are below the band, where columns
            // have room. *Order*: the sweep before has left them, and the caller promises the rest.
            tau = unsafe { step.run() };
            if next_rows == 0 {
                break;
            }
            std::mem::swap(&mut current, &mut next);
            (first, rows) = (below, next_rows);
            tell(s, Some(k + 1));
        }
        tell(s, None);
    }
    Ok(())
}

/// The tridiagonal matrix in a band that has been reduced.
///
/// # Safety
/// *Order*: nothing writes the band meanwhile.
pub unsafe fn tridiagonal<T: Scalar>(band: Band<T>) -> Tridiagonal {
    // SAFETY: the caller's promise.
    let cells = unsafe { band.cells().read() };
    let entries = (0..band.order().saturating_sub(1)).map(|j| cells[(1, j)]);
    let (mut re, mut im) = (1.0, 0.0);
    let turned = entries.clone().map(|entry| {
        let ((x, y), size) = (entry.parts(), entry.modulus());
        if size > 0.0 {
            let (x, y) = (x / size, y / size);
            (re, im) = (re * x - im * y, re * y + im * x);
            // So many products would change the modulus.
            let size = (re * re + im * im).sqrt();
            (re, im) = (re / size, im / size);
        }
        (re, im)
    });
    Tridiagonal {
        phases: std::iter::once((1.0, 0.0)).chain(turned).take(band.order()).collect(),
        diagonal: (0..band.order()).map(|j| cells[(0, j)].parts().0).collect(),
        below: entries.map(|entry| entry.modulus()).collect(),
    }
}
