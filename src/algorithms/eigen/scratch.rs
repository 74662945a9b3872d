//! The scratch of a reduction to a band, and its panels.

use super::Leading;
use crate::device::cpu::one_stage;
use crate::device::{Band, OneStagePanel, PanelReflectors, Reflectors};
use crate::layout::TileColumn;
use crate::matrix::{Blocks, Cells, Columns};
use crate::scalar::Scalar;

/// Elements between columns of V, X and P, so that they are no power of two apart.
const MORE: usize = 16;
/// Squares of a worker's own scratch: its part of V^H P T, the sum of all, its product, and three to
/// factor a panel.
const SQUARES: usize = 6;

/// Sizes that decide how much scratch it needs.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The order of A with its padding.
    pub n: usize,
    /// The widest tile column.
    pub widest: usize,
    pub workers: usize,
    pub is_rank: bool,
    /// How many tile columns there are if the reflectors are used later, otherwise 0.
    pub kept: usize,
    /// Whether A becomes tridiagonal without a band between. The width of that counts as 1.
    pub one_stage: bool,
}

impl Extent {
    /// V, X and sums P: one for each worker. Where workers share memory, the second one's is where X
    /// will be. A rank has its own, and that of all.
    fn strips(&self) -> usize {
        if self.is_rank { 4 } else { 1 + self.workers.max(2) }
    }

    /// Where a worker has its P, counted in strips. The first one's is where that of all will be.
    fn strip_of(&self, worker: usize) -> usize {
        match worker {
            _ if self.is_rank => SUM + 1,
            0 => SUM,
            1 => X,
            other => other + 1,
        }
    }

    /// The width of the band.
    pub fn band(&self) -> usize {
        if self.one_stage { 1 } else { self.widest }
    }

    fn square(&self) -> usize {
        self.widest * self.widest
    }

    /// How many triangles T there are: those of a panel and of the next, or all. In one stage they are
    /// in A.
    fn triangles(&self) -> usize {
        if self.one_stage { 0 } else { self.kept.max(2) }
    }

    /// Elements of the triangles T, which are the first ones.
    fn of_triangles(&self) -> usize {
        self.triangles() * self.square()
    }

    /// Elements of the band, of all columns of the matrix.
    fn of_band(&self) -> usize {
        Band::<()>::rows(self.band()) * self.n
    }

    /// Elements of a worker's coefficients and squares.
    fn of_squares(&self) -> usize {
        self.widest + SQUARES * self.square()
    }

    /// Elements once in a memory, and for each worker there. After the triangles are the strips, and
    /// later the band. In one stage the workers' parts are after the band, and V and W after the squares.
    pub fn elements(&self) -> [usize; 2] {
        let column = self.n + MORE;
        if self.one_stage {
            let own = 2 * column * self.widest + one_stage::room(self.n, self.widest);
            return [self.of_band() + 2 * self.workers * column, self.of_squares() + own];
        }
        let strips = column * self.widest * self.strips();
        [self.of_triangles() + strips.max(self.of_band()), self.of_squares()]
    }
}

/// Strips.
pub(super) const V: usize = 0;
pub(super) const X: usize = 1;
pub(super) const SUM: usize = 2;

/// The scratch of a reduction.
pub struct Scratch<'a, T> {
    pub of: Extent,
    shared: Blocks<'a, T>,
    own: Blocks<'a, T>,
}

impl<'a, T: Scalar> Scratch<'a, T> {
    /// `shared` and `own` have the elements for the extent.
    pub fn new(of: Extent, shared: Blocks<'a, T>, own: Blocks<'a, T>) -> Self {
        Scratch { of, shared, own }
    }

    /// A strip of m rows and k columns, as all workers have it.
    fn strip(&self, at: usize, m: usize, k: usize) -> Blocks<'a, T> {
        let (columns, leading) = (self.of.strips() * self.of.widest, self.of.n + MORE);
        let first = self.of.of_triangles();
        let all =
            move |all: Cells<'a, T>| all.rows_from(first).by_columns(self.of.n, columns, leading);
        self.shared.part(|shared| all(shared).sub(0, at * k, m, k))
    }

    /// T of a panel with k reflectors. The next panel has another place.
    fn triangle(&self, panel: TileColumn, k: usize) -> Blocks<'a, T> {
        let at = panel.get() % self.of.triangles() * self.of.square();
        self.shared.part(|shared| shared.sub(at, 0, k * k, 1).by_columns(k, k, k))
    }

    /// One of a worker's squares.
    pub(super) fn square(&self, at: usize, k: usize) -> Blocks<'a, T> {
        let first = self.of.widest + at * self.of.square();
        self.own.part(|own| own.sub(first, 0, k * k, 1).by_columns(k, k, k))
    }

    /// Coefficients of reflectors, and the room to factor a panel.
    pub(super) fn of_panel(&self, k: usize) -> (Cells<'a, T>, Cells<'a, T>) {
        let own = self.own.own();
        (own.sub(0, 0, k, 1), own.rows_from(self.of.widest + (SQUARES - 3) * self.of.square()))
    }

    /// The first row and column of the trailing matrix for a panel.
    pub(super) fn top(&self, leading: &Leading<T>, panel: TileColumn) -> usize {
        leading.rows(panel).start + self.of.band()
    }

    /// The panels of a reduction.
    pub(super) fn panels<'s>(&'s self, leading: &Leading<T>) -> Vec<Panel<'s, 'a, T>> {
        let is_reduced = |&t: &TileColumn| self.top(leading, t) < leading.order();
        leading.tiles().take_while(is_reduced).map(|t| Panel::new(leading, t, self)).collect()
    }

    /// The reflectors of all panels, if they are kept and this worker reaches them. The reduction has put
    /// T in the place of R, which has become a part of the band.
    pub fn reflectors<'m>(&self, leading: &Leading<'_, 'm, T>) -> Vec<PanelReflectors<'m, T>> {
        let of = |panel: Panel<'_, 'a, T>| PanelReflectors {
            first: panel.top,
            v: panel.columns(leading),
        };
        self.panels(leading).into_iter().map(of).collect()
    }

    /// The panel of a tile column, in one stage. `a` has the leading part of the matrix.
    pub(super) fn one_stage_panel<'m>(
        &self,
        leading: &Leading<'_, 'm, T>,
        a: &'m Columns<'m, T>,
        panel: TileColumn,
        is_kept: bool,
    ) -> OneStagePanel<'m, 'a, T> {
        let (columns, order, column) = (leading.rows(panel), leading.order(), self.of.n + MORE);
        let (m, k) = (order - columns.start, columns.len());
        let parts = self.shared.own().rows_from(self.of.of_band());
        let own = self.own.own().rows_from(self.of.of_squares());
        let strip = |at: usize| own.rows_from(at * k * column).by_columns(m, k, column);
        let kept = Panel::new(leading, panel, self);
        OneStagePanel {
            a,
            order,
            columns,
            band: self.band(order),
            parts: parts.by_columns(self.of.n, 2 * self.of.workers, column),
            v: strip(0),
            w: strip(1),
            room: own.rows_from(2 * k * column),
            kept: (is_kept && kept.count > 0).then(|| kept.columns(leading)),
        }
    }

    /// A worker's tile.
    pub fn tile(&self) -> Cells<'a, T> {
        self.square(0, self.of.widest).own()
    }

    /// The band of the leading part of order n.
    pub fn band(&self, n: usize) -> Band<'a, T> {
        let all = self.bands().own();
        Band::new(all.sub(0, 0, all.rows(), n), self.of.band())
    }

    /// The band, with all columns of the matrix.
    pub(super) fn bands(&self) -> Blocks<'a, T> {
        let (rows, n) = (Band::<T>::rows(self.of.band()), self.of.n);
        let first = self.of.of_triangles();
        self.shared.part(|shared| shared.sub(first, 0, rows * n, 1).by_columns(rows, n, rows))
    }
}

/// A panel in work, with as many reflectors as `count`.
pub(super) struct Panel<'s, 'a, T> {
    pub(super) tile: TileColumn,
    /// The first row and column of the trailing matrix, and its order.
    pub(super) top: usize,
    pub(super) m: usize,
    pub(super) count: usize,
    pub(super) scratch: &'s Scratch<'a, T>,
}

impl<'s, 'a, T: Scalar> Panel<'s, 'a, T> {
    pub(super) fn new(leading: &Leading<T>, tile: TileColumn, scratch: &'s Scratch<'a, T>) -> Self {
        let (top, width) = (scratch.top(leading, tile), leading.rows(tile).len());
        let m = leading.order() - top;
        Panel { tile, top, m, count: m.min(width), scratch }
    }

    pub(super) fn strip(&self, at: usize) -> Blocks<'a, T> {
        self.scratch.strip(at, self.m, self.count)
    }

    /// A worker's part of A V, as all workers have it.
    pub(super) fn part(&self, worker: usize) -> Blocks<'a, T> {
        self.strip(self.scratch.of.strip_of(worker))
    }

    pub(super) fn v(&self) -> Cells<'a, T> {
        self.strip(V).own()
    }

    pub(super) fn x(&self) -> Cells<'a, T> {
        self.strip(X).own()
    }

    /// Those of A that it leaves V and R in. Of T in the place of R see [`Scratch::reflectors`].
    pub(super) fn columns<'m>(&self, leading: &Leading<'_, 'm, T>) -> Cells<'m, T> {
        leading.column(self.tile, self.top).sub(0, 0, self.m, self.count)
    }

    pub(super) fn t(&self) -> Blocks<'a, T> {
        self.scratch.triangle(self.tile, self.count)
    }

    pub(super) fn reflectors(&self) -> Reflectors<'a, T> {
        let (v, k) = (self.v(), self.count);
        Reflectors { top: v.row_range(0..k), below: v.rows_from(k), t: self.t().own() }
    }
}
