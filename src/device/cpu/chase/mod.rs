//! A Hermitian band matrix becomes tridiagonal by unitary similarity, in the memory of the band
//! (Lang, SIAM J. Sci. Comput. 14, 1993).
//!
//! Sweep s makes column s tridiagonal by a Householder reflector. That fills a triangle below the
//! band. The first column of it is eliminated by the next reflector, a band width further down, and
//! so on to the last row. The rest of the triangle is where the next sweep begins its own. So sweep
//! s may follow sweep s - 1 two steps behind, and workers take groups of sweeps in turn (Haidar, Ltaief and
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

/// The most sweeps that a worker makes at a time. Each is STAGGER steps behind the one before.
const GROUP: usize = 8;
const STAGGER: usize = BEHIND - 1;
/// Between two sweeps' visits to a block each sweep of the group makes STAGGER steps. The blocks of all these steps
/// have at most so many bytes, if those of two sweeps have: then they stay in the second-level cache.
const CACHE: usize = 512 << 10;

/// Which sweeps a worker makes: groups of neighbours, of which every `workers`-th from `worker` on.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub worker: usize,
    pub workers: usize,
}

impl Turn {
    /// All of them.
    pub const ALONE: Turn = Turn { worker: 0, workers: 1 };

    /// Sweeps of a group: no more than leave steps to all workers, at first.
    fn group<T>(self, band: &Band<T>) -> usize {
        let (n, b) = (band.order(), band.width().max(1));
        let bytes = STAGGER * 3 * b * b / 2 * size_of::<T>();
        let fit = (CACHE / bytes).clamp(2, GROUP);
        fit.min(n / b / (2 * STAGGER * self.workers)).max(1)
    }

    /// Counts of a worker's progress: as many for each of its groups.
    fn each<T>(band: &Band<T>) -> usize {
        band.order() / band.width().max(1) + 1 + BEHIND
    }

    /// The worker of a sweep, and its count once that has made so many steps. Only the last sweep of a group
    /// counts.
    pub fn count<T>(self, band: &Band<T>, sweep: usize, steps: usize) -> (usize, usize) {
        let group = sweep / self.group(band);
        (group % self.workers, group / self.workers * Self::each(band) + steps)
    }

    /// The worker's count once the last sweep of a group has ended.
    pub fn end<T>(self, band: &Band<T>, sweep: usize) -> usize {
        (sweep / self.group(band) / self.workers + 1) * Self::each(band)
    }
}

/// Elements of a worker's room.
pub fn room(width: usize) -> usize {
    (2 * GROUP + 1) * width
}

/// A sweep between two steps.
struct Sweep<'m, T> {
    /// Its column.
    at: usize,
    /// Steps that it has made.
    steps: usize,
    /// The rows of the next one's reflector, none after the last step, and the reflector.
    rows: usize,
    v: &'m mut [T],
    tau: T,
    /// For the reflector after that.
    next: &'m mut [T],
}

/// A worker's sweeps, whose reflectors go to `kept`. `wait`, of the first sweep of a group, is until the sweep
/// before has made so many steps. `tell` says how many the last one of a group has made, none if it has ended.
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
    let (n, b) = (band.order(), band.width());
    if b < 2 {
        return Ok(());
    }
    let (group, all) = (turn.group(&band), n.saturating_sub(2));
    let (rest, vectors) = room[..(2 * group + 1) * b].split_at_mut(b);
    for first in (turn.worker * group..all).step_by(turn.workers * group) {
        let last = (first + group).min(all) - 1;
        let room = vectors.chunks_exact_mut(2 * b).zip(first..=last);
        let mut sweeps: Vec<_> = room.map(|(room, at)| Sweep::new(at, room)).collect();
        for time in 0.. {
            for one in &mut sweeps {
                if time < (one.at - first) * STAGGER || one.is_done() {
                    continue;
                }
                if one.at == first {
                    wait(first, one.steps + BEHIND)?;
                }
                // SAFETY: *order*: the sweep before has made its steps, in this loop or by the wait.
                unsafe { one.step(&band, kept, rest) };
                if one.at == last {
                    tell(last, (!one.is_done()).then_some(one.steps));
                }
            }
            if sweeps.iter().all(Sweep::is_done) {
                break;
            }
        }
    }
    Ok(())
}

impl<'m, T: Scalar> Sweep<'m, T> {
    /// One that has made no step, with room for two reflectors.
    fn new(at: usize, room: &'m mut [T]) -> Self {
        let (v, next) = room.split_at_mut(room.len() / 2);
        Sweep { at, steps: 0, rows: 0, v, tau: T::ZERO, next }
    }

    fn is_done(&self) -> bool {
        self.steps > 0 && self.rows == 0
    }

    /// The next step. The first one makes the first reflector, too.
    ///
    /// # Safety
    /// *Order*: the sweep before has made BEHIND steps more or has ended, and nobody else accesses the blocks.
    unsafe fn step(&mut self, band: &Band<T>, kept: Option<&SweepReflectors<T>>, room: &mut [T]) {
        let (n, b, cells) = (band.order(), band.width(), band.cells());
        let stride = cells.col_stride() - 1;
        assert!(cells.row_stride() == 1 && stride > 2 * b, "columns of the band");
        let block = |row: usize, col: usize, rows: usize, cols: usize| Block {
            first: cells.as_ptr().wrapping_add(row + col * stride),
            rows,
            cols,
            stride,
        };
        let first = self.at + 1 + self.steps * b;
        if self.steps == 0 {
            self.rows = b.min(n - first);
            let column = block(first, self.at, self.rows, 1).first;
            // SAFETY: *memory* of the column, and *order*, which the caller promises.
            self.tau = unsafe { reflector(column, &mut self.v[..self.rows]) };
        }
        let rows = self.rows;
        if let Some(place) = kept.and_then(|kept| kept.reflector(self.at, self.steps)) {
            // SAFETY: *order*: this sweep's own column, of which the caller promises it.
            let place = blas::column_mut(unsafe { place.write() }, 0);
            place.copy_from_slice(&self.v[..rows]);
            place[0] = self.tau;
        }
        let below = first + rows;
        let next_rows = b.min(n - below);
        let step = step::Step {
            diagonal: block(first, first, rows, rows),
            below: block(below, first, next_rows, rows),
            v: &self.v[..rows],
            tau: self.tau,
            next: &mut self.next[..next_rows],
            room: &mut room[..b],
        };
        // SAFETY: *memory* of these blocks: those of a bulge are below the band, where columns
        // have room. *Order*: the sweep before has left them, and the caller promises the rest.
        self.tau = unsafe { step.run() };
        std::mem::swap(&mut self.v, &mut self.next);
        self.rows = next_rows;
        self.steps += 1;
    }
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
