//! Batches of factors I - V T V^H, in the order in which they are applied.

use super::factors::{Piece, make_panel, make_step, make_triangle, panel_columns, parts};
use super::strips::{Kernel, Strips};
use super::{GROUP, Place};
use crate::device::cpu::blas;
use crate::device::cpu::product::DEEPEST;
use crate::device::{PanelReflectors, SweepReflectors};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// Where the reflectors of a factor come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Step k of some sweeps from `first` on, through a band of this width.
    Step {
        first: usize,
        k: usize,
        width: usize,
    },
    Panel(usize),
}

/// A factor, cut by rows for the inner dimension of products.
#[derive(Debug)]
struct Factor {
    source: Source,
    /// Columns of V, of a step in all its parts.
    count: usize,
    /// A step has one. After the elements of the last one of a panel are those of T.
    pieces: Vec<Piece>,
}

impl Factor {
    /// Elements of a piece.
    fn elements_of(&self, kernel: Kernel, piece: &Piece) -> usize {
        match self.source {
            Source::Step { width, .. } => {
                let parts = parts(kernel, self.count, width, piece.rows);
                parts.map(|part| kernel.reflector_elements(part.count, part.rows)).sum()
            }
            Source::Panel(_) => kernel.right_elements(piece.rows, self.count),
        }
    }

    /// Where T begins, and its elements: none of a step.
    fn triangle(&self, kernel: Kernel) -> (usize, usize) {
        let last = self.pieces.last().expect("one at least");
        let elements = match self.source {
            Source::Step { .. } => 0,
            Source::Panel(_) => kernel.right_elements(self.count, self.count),
        };
        (last.at + self.elements_of(kernel, last), elements)
    }
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
        let mut factor = Factor { source, count, pieces: Vec::new() };
        let deepest = if matches!(source, Source::Panel(_)) { DEEPEST } else { rows };
        let mut at = 0;
        for row in (0..rows).step_by(deepest) {
            let piece = Piece { first: first + row, row, rows: deepest.min(rows - row), at };
            at += factor.elements_of(kernel, &piece);
            factor.pieces.push(piece);
        }
        let elements = at + factor.triangle(kernel).1;
        if all.last().is_none_or(|batch| batch.elements + elements > room) {
            all.push(Batch::default());
        }
        let batch = all.last_mut().expect("one at least");
        factor.pieces.iter_mut().for_each(|piece| piece.at += batch.elements);
        batch.elements += elements;
        batch.factors.push(factor);
    };
    let n = sweeps.order();
    let most = kernel.sweeps();
    let group = GROUP / most * most;
    for first in (0..sweeps.sweeps()).step_by(group).rev() {
        let (all, width) = (group.min(sweeps.sweeps() - first), sweeps.width());
        for k in (0..).take_while(|&k| sweeps.first_row(first, k) < n) {
            let row = sweeps.first_row(first, k);
            let rows = (width + all - 1).min(n - row);
            // Later sweeps may not get so far.
            add(Source::Step { first, k, width }, all.min(rows), row, rows);
        }
    }
    for (index, panel) in panels.iter().enumerate().rev() {
        let columns = panel_columns(kernel, panel.v.cols());
        add(Source::Panel(index), columns, panel.first, panel.v.rows());
    }
    all
}

impl Batch {
    /// The first row that it changes; n if there is none.
    pub fn top(&self, n: usize) -> usize {
        self.factors.iter().map(|factor| factor.pieces[0].first).min().unwrap_or(n)
    }

    /// A worker's part of what the factors are applied with.
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
            // SAFETY: the caller's promise: no other piece has these elements, nor T but the first one.
            let memory = |at, elements| unsafe {
                blas::column_mut(shared.sub(at, 0, elements, 1).write(), 0)
            };
            let to = memory(piece.at, factor.elements_of(kernel, piece));
            // SAFETY: the caller's promise.
            unsafe {
                match factor.source {
                    Source::Step { first, k, width } => {
                        for part in parts(kernel, factor.count, width, piece.rows) {
                            make_step(sweeps, (first, k), &part, kernel, to, room);
                        }
                    }
                    Source::Panel(index) => {
                        make_panel(&panels[index], kernel, piece, to, room);
                        if piece.row == 0 {
                            let (at, elements) = factor.triangle(kernel);
                            make_triangle(&panels[index], kernel, memory(at, elements), room);
                        }
                    }
                }
            }
        }
    }

    /// Applies it to some eigenvectors, with all that workers have made.
    pub fn apply<T: Scalar>(&self, strips: &mut Strips<T>, made: &[T], products: &mut [T]) {
        for factor in &self.factors {
            match factor.source {
                Source::Step { width, .. } => apply_step(factor, width, strips, made, products),
                Source::Panel(_) => apply_panel(factor, strips, made, products),
            }
        }
    }
}

/// The parts serve a strip one after another, as its rows stay in the first-level cache then.
fn apply_step<T: Scalar>(
    factor: &Factor,
    width: usize,
    strips: &mut Strips<T>,
    made: &[T],
    products: &mut [T],
) {
    let (kernel, height) = (strips.kernel, strips.kernel.units.rows);
    let [piece] = &factor.pieces[..] else { panic!("a step of sweeps is in one piece") };
    for c in strips.each(piece.first, piece.rows) {
        for part in parts(kernel, factor.count, width, piece.rows) {
            let c = &mut c[height * part.first..][..height * part.rows];
            kernel.reflect(c, &made[piece.at + part.at..], part.count, products);
        }
    }
}

/// A piece serves all strips, as it stays in a cache then.
fn apply_panel<T: Scalar>(factor: &Factor, strips: &mut Strips<T>, made: &[T], products: &mut [T]) {
    let (kernel, count) = (strips.kernel, factor.count);
    let size = kernel.units.rows * count;
    let (w, rest) = products.split_at_mut(strips.height() * count);
    w.fill(T::ZERO);
    let v = |piece: &Piece| kernel.made(&made[piece.at..], piece.rows, count);
    for piece in &factor.pieces {
        let v = v(piece);
        for (c, w) in strips.each(piece.first, piece.rows).zip(w.chunks_exact_mut(size)) {
            kernel.multiply_adjoint(w, c, &v);
        }
    }
    let t = kernel.made(&made[factor.triangle(kernel).0..], count, count);
    let product = &mut rest[..size];
    for w in w.chunks_exact_mut(size) {
        product.fill(T::ZERO);
        kernel.multiply(product, false, w, &t);
        w.copy_from_slice(product);
    }
    for piece in &factor.pieces {
        let v = v(piece);
        for (c, w) in strips.each(piece.first, piece.rows).zip(w.chunks_exact(size)) {
            kernel.multiply(c, true, w, &v);
        }
    }
}
