//! Batches of factors I - V T V^H, in the order in which they are applied.

use super::factors::{Piece, make_panel, make_step};
use super::strips::{Kernel, Right, Strips};
use super::{GROUP, Place};
use crate::device::cpu::product::DEEPEST;
use crate::device::{PanelReflectors, SweepReflectors};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// Where the reflectors of a factor come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Step k of `count` sweeps from `first` on.
    Step {
        first: usize,
        count: usize,
        k: usize,
    },
    Panel(usize),
}

/// A factor, cut by rows for the inner dimension of products.
#[derive(Debug)]
struct Factor {
    source: Source,
    /// Columns of V.
    count: usize,
    pieces: Vec<Piece>,
}

/// Factors that have room at the same time.
#[derive(Debug, Default)]
pub struct Batch {
    factors: Vec<Factor>,
    elements: usize,
}

/// All factors, in as few batches as their room allows: one at least.
pub fn batches<T: Scalar>(
    sweeps: &SweepReflectors<T>,
    panels: &[PanelReflectors<T>],
    kernel: Kernel,
    room: usize,
) -> Vec<Batch> {
    let mut all = vec![Batch::default()];
    let mut add = |source, count, first: usize, rows: usize| {
        let starts = (0..rows).step_by(DEEPEST);
        let mut elements = 0;
        let mut pieces: Vec<_> = starts
            .map(|row| {
                let rows = DEEPEST.min(rows - row);
                let piece = Piece { first: first + row, row, rows, at: elements };
                elements += piece.elements(kernel, count);
                piece
            })
            .collect();
        if all.last().is_none_or(|batch| batch.elements + elements > room) {
            all.push(Batch::default());
        }
        let batch = all.last_mut().expect("one at least");
        pieces.iter_mut().for_each(|piece| piece.at += batch.elements);
        batch.elements += elements;
        batch.factors.push(Factor { source, count, pieces });
    };
    let n = sweeps.order();
    // Whole units of columns.
    let group = GROUP / kernel.units.cols * kernel.units.cols;
    for first in (0..sweeps.sweeps()).step_by(group).rev() {
        let all = group.min(sweeps.sweeps() - first);
        for k in (0..).take_while(|&k| sweeps.first_row(first, k) < n) {
            let row = sweeps.first_row(first, k);
            let rows = (sweeps.width() + all - 1).min(n - row);
            // Later sweeps may not get so far.
            let count = all.min(rows);
            add(Source::Step { first, count, k }, count, row, rows);
        }
    }
    for (index, panel) in panels.iter().enumerate().rev() {
        add(Source::Panel(index), panel.v.cols(), panel.first, panel.v.rows());
    }
    all
}

impl Batch {
    /// The first row that it changes; n if there is none.
    pub fn top(&self, n: usize) -> usize {
        self.factors.iter().map(|factor| factor.pieces[0].first).min().unwrap_or(n)
    }

    /// A worker's part of V and V T.
    ///
    /// # Safety
    /// *Order* (see [`Cells`]): nothing writes a reflector, and only workers of other places access
    /// `shared`.
    pub unsafe fn make<T: Scalar>(
        &self,
        sweeps: &SweepReflectors<T>,
        panels: &[PanelReflectors<T>],
        kernel: Kernel,
        place: Place,
        shared: Cells<T>,
        room: &mut [T],
    ) {
        let all = self.factors.iter().flat_map(|f| f.pieces.iter().map(move |piece| (f, piece)));
        for (factor, piece) in all.skip(place.worker).step_by(place.workers) {
            let to = shared.sub(piece.at, 0, piece.elements(kernel, factor.count), 1);
            // SAFETY: the caller's promise: no other piece has these elements.
            unsafe {
                let to = super::blas::column_mut(to.write(), 0);
                match factor.source {
                    Source::Step { first, count, k } => {
                        make_step(sweeps, (first, count, k), kernel, piece, to, room);
                    }
                    Source::Panel(index) => make_panel(&panels[index], kernel, piece, to, room),
                }
            }
        }
    }

    /// Applies it to some eigenvectors, with all that workers have made.
    pub fn apply<T: Scalar>(&self, strips: &mut Strips<T>, made: &[T], products: &mut [T]) {
        let kernel = strips.kernel;
        for Factor { count, pieces, .. } in &self.factors {
            let size = kernel.units.rows * count;
            let right = |piece: &Piece| -> [Right<T>; 2] {
                let made = &made[piece.at..];
                let (v, vt) = made.split_at(kernel.right_elements(*count, piece.rows));
                [kernel.made(v, *count, piece.rows), kernel.made(vt, piece.rows, *count)]
            };
            if let [piece] = &pieces[..] {
                let ([v, vt], w) = (right(piece), &mut products[..size]);
                for c in strips.each(piece.first, piece.rows) {
                    w.fill(T::ZERO);
                    kernel.multiply(w, false, c, &v);
                    kernel.multiply(c, true, w, &vt);
                }
                continue;
            }
            let products = &mut products[..strips.height() * count];
            products.fill(T::ZERO);
            for piece in pieces {
                let [v, _] = right(piece);
                let strips = strips.each(piece.first, piece.rows);
                for (c, w) in strips.zip(products.chunks_exact_mut(size)) {
                    kernel.multiply(w, false, c, &v);
                }
            }
            for piece in pieces {
                let [_, vt] = right(piece);
                let strips = strips.each(piece.first, piece.rows);
                for (c, w) in strips.zip(products.chunks_exact(size)) {
                    kernel.multiply(c, true, w, &vt);
                }
            }
        }
    }
}
