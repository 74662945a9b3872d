//! Panels of a reduction of a Hermitian matrix to a tridiagonal one, without a band between (Dongarra,
//! Sorensen and Hammarling, J. Comput. Appl. Math. 27, 1989):
//!
//! ```text
//! for columns j of a panel, with pairs V, W of those before:
//!     x = A_j - V W_j^H - W V_j^H,  H^H x = beta e_1 below the diagonal,  H = I - tau v v^H
//!     y = (A - V W^H - W V^H) v
//!     w = tau y - conj(tau) / 2 (v^H tau y) v
//! ```
//! Each worker multiplies some columns of A, and some pairs, by v. Then all meet, and add the parts of y. Each
//! does the rest for itself, so once in a column is enough. Half of the work is A v, which loads each element
//! for four operations (docs/design/adr/0030-small-hermitian-matrices-in-one-stage.md).

use pulp::{Simd, WithSimd};

use super::back::Place;
use super::back::factors::triangle;
use super::blas;
use super::chase::step::reflector;
use super::passes::{Block, GROUP, Wide, vectorized};
use crate::comm::Step;
use crate::device::{OneStagePanel, Op};
use crate::matrix::Cells;
use crate::scalar::Scalar;

/// The most workers, as all wait in each column. The number is not measured.
pub const WORKERS: usize = 4;

/// Elements of a worker's room for a panel of m rows and k columns.
pub fn room(m: usize, k: usize) -> usize {
    // x, the taus, V^H V and T.
    m + k + 2 * k * k
}

/// A worker's part. `meet` returns when all have called it.
///
/// # Safety
/// *Order* (see [`Cells`]): all workers do this with the same columns, and have met before. Nothing else
/// accesses these and the parts, or this worker's own memory.
pub unsafe fn reduce<T: Scalar>(
    panel: &OneStagePanel<T>,
    place: Place,
    mut meet: impl FnMut() -> Step,
) -> Step {
    for j in 0..panel.columns.len() {
        vectorized(Column { panel, place, j, have_met: false });
        meet()?;
        vectorized(Column { panel, place, j, have_met: true });
    }
    if let Some(kept) = panel.kept {
        // SAFETY: the caller's promise, and no worker reads these columns any more.
        unsafe { keep(panel, kept) };
    }
    Ok(())
}

/// V below the diagonal of `kept`, and T in the rest.
///
/// # Safety
/// Nothing else accesses it.
unsafe fn keep<T: Scalar>(panel: &OneStagePanel<T>, kept: Cells<T>) {
    let (m, k) = (panel.v.rows(), kept.cols());
    // SAFETY: this worker's own memory.
    let (v, room) = unsafe { (panel.v.read(), blas::column_mut(panel.room.write(), 0)) };
    let (taus, rest) = room[m..].split_at_mut(panel.columns.len());
    let (gram, rest) = rest.split_at_mut(k * k);
    let t = &mut rest[..k * k];
    gram.fill(T::ZERO);
    let transposed = faer::MatMut::from_row_major_slice_mut(gram, k, k);
    let v = v.submatrix(1, 0, m - 1, k);
    blas::gemm(transposed, T::ONE, v, Op::Adjoint, v);
    triangle(t, gram, &taus[..k]);
    // SAFETY: the caller's promise.
    let mut kept = unsafe { kept.write() };
    for (j, t) in t.chunks_exact(k).enumerate() {
        let column = blas::column_mut(kept.as_mut(), j);
        column[..=j].copy_from_slice(&t[..=j]);
        column[j + 1..].copy_from_slice(&blas::column(v, j)[j + 1..]);
    }
}

/// The work on a column before workers meet, or after that.
struct Column<'p, 'm, 'a, T> {
    panel: &'p OneStagePanel<'m, 'a, T>,
    place: Place,
    j: usize,
    have_met: bool,
}

impl<T: Scalar> WithSimd for Column<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: the promise of `reduce`'s caller.
        unsafe { if self.have_met { self.complete(Wide(simd)) } else { self.begin(Wide(simd)) } }
    }
}

/// All of it.
fn block<T>(cells: Cells<T>) -> Block<T> {
    assert!(cells.row_stride() == 1 || cells.rows() < 2, "contiguous columns");
    Block {
        first: cells.as_ptr(),
        rows: cells.rows(),
        cols: cells.cols(),
        stride: cells.col_stride(),
    }
}

/// So many elements at an address.
///
/// # Safety
/// They are there, and this thread's for the time.
#[inline(always)]
unsafe fn elements<'a, T>(at: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(at, count) }
}

impl<T: Scalar> Column<'_, '_, '_, T> {
    /// V and W.
    fn pairs(&self) -> [Block<T>; 2] {
        [block(self.panel.v), block(self.panel.w)]
    }

    /// A worker's part of y for this column. Those of the next column are elsewhere.
    fn part_of_y(&self, worker: usize) -> *mut T {
        self.panel.parts.at(0, self.j % 2 * self.place.workers + worker)
    }

    fn tau(&self) -> *mut T {
        self.panel.room.at(self.panel.v.rows() + self.j, 0)
    }

    /// x, the reflector, and this worker's part of y.
    ///
    /// # Safety
    /// The promise of `reduce`'s caller.
    #[inline(always)]
    unsafe fn begin<S: Simd>(&self, passes: Wide<S>) {
        let (panel, j) = (self.panel, self.j);
        let (global, rows) = (panel.columns.start + j, panel.v.rows() - j);
        let [v, w] = self.pairs();
        // SAFETY: this worker's own memory, a column that all read, and a number that the first one writes.
        unsafe {
            let x = elements(panel.room.as_ptr(), rows);
            // Others read it, too.
            let given = panel.a.column(global).at(global, 0);
            std::ptr::copy_nonoverlapping(given, x.as_mut_ptr(), rows);
            subtract(passes, x, j, [v, w]);
            subtract(passes, x, j, [w, v]);
            let has_band = self.place.worker == 0;
            if has_band {
                *panel.band.cells().at(0, global) = T::of_parts(x[0].parts().0, 0.0);
            }
            if rows == 1 {
                return;
            }
            elements(v.column(0, j), j + 1).fill(T::ZERO);
            let reflected = elements(v.column(j + 1, j), rows - 1);
            let tau = reflector(x[1..].as_mut_ptr(), reflected);
            *self.tau() = tau;
            if has_band {
                *panel.band.cells().at(1, global) = x[1];
            }
            if tau != T::ZERO {
                self.multiply(passes, reflected);
            }
        }
    }

    /// # Safety
    /// The promise of `reduce`'s caller.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&self, passes: Wide<S>, v: &[T]) {
        let (panel, j, Place { worker, workers }) = (self.panel, self.j, self.place);
        let first = panel.columns.start + j + 1;
        let mut start = first;
        // SAFETY: this worker's part, and columns that all read.
        unsafe {
            let y = elements(self.part_of_y(worker), v.len());
            y.fill(T::ZERO);
            for cells in panel.a.range(first, panel.order) {
                let (at, cols) = (start - first, cells.cols());
                let d = block(cells.sub(start, 0, panel.order - start, cols));
                let mut column = 0;
                while column < cols {
                    // Groups have the same columns each time, so that these stay in a worker's cache.
                    let group = (start + column) / GROUP;
                    let next = ((group + 1) * GROUP - start).min(cols);
                    if group % workers != worker {
                        column = next;
                    } else if next - column == GROUP {
                        passes.multiply::<T, GROUP>(&d, column, &v[at..], &mut y[at..]);
                        column = next;
                    } else {
                        passes.multiply::<T, 1>(&d, column, &v[at..], &mut y[at..]);
                        column += 1;
                    }
                }
                start += cols;
            }
            let [of_v, of_w] = self.pairs();
            let (mut l, end) = (j * worker / workers, j * (worker + 1) / workers);
            while l + GROUP <= end {
                subtract_pairs::<T, S, GROUP>(passes, [of_v, of_w], (j + 1, l), v, y);
                l += GROUP;
            }
            for l in l..end {
                subtract_pairs::<T, S, 1>(passes, [of_v, of_w], (j + 1, l), v, y);
            }
        }
    }

    /// w.
    ///
    /// # Safety
    /// The promise of `reduce`'s caller.
    #[inline(always)]
    unsafe fn complete<S: Simd>(&self, passes: Wide<S>) {
        let (j, below) = (self.j, self.panel.v.rows() - self.j - 1);
        if below == 0 {
            return;
        }
        let [v, w] = self.pairs();
        // SAFETY: this worker's own memory, and the parts of all.
        unsafe {
            let (v, w) = (v.column(j + 1, j), elements(w.column(j + 1, j), below));
            w.fill(T::ZERO);
            let tau = *self.tau();
            if tau == T::ZERO {
                return;
            }
            for worker in 0..self.place.workers {
                passes.sum::<T, 1>(w, [tau], [self.part_of_y(worker)]);
            }
            let [product] = passes.dots::<T, 1>([v], w);
            let along = -(T::of_parts(0.5, 0.0) * T::conj_impl(&tau) * product);
            passes.sum::<T, 1>(w, [along], [v]);
        }
    }
}

/// `x <- x - C S_j^H` with the first j columns of C, from row j on, and row j of S.
///
/// # Safety
/// They are there, and nothing writes them.
#[inline(always)]
unsafe fn subtract<T: Scalar, S: Simd>(
    passes: Wide<S>,
    x: &mut [T],
    j: usize,
    [c, s]: [Block<T>; 2],
) {
    let whole = j / GROUP * GROUP;
    // SAFETY: the caller's promise.
    unsafe {
        for l in (0..whole).step_by(GROUP) {
            let by = s.columns::<GROUP>(j, l).map(|s| -T::conj_impl(&*s));
            passes.sum::<T, GROUP>(x, by, c.columns(j, l));
        }
        for l in whole..j {
            passes.sum::<T, 1>(x, [-T::conj_impl(&*s.column(j, l))], c.columns(j, l));
        }
    }
}

/// `y <- y - V W^H v - W V^H v` with N columns of V and of W, from an element on.
///
/// # Safety
/// As above; columns are as long as v and y.
#[inline(always)]
unsafe fn subtract_pairs<T: Scalar, S: Simd, const N: usize>(
    passes: Wide<S>,
    pairs: [Block<T>; 2],
    (row, l): (usize, usize),
    v: &[T],
    y: &mut [T],
) {
    let [of_v, of_w] = pairs.map(|block| block.columns::<N>(row, l));
    // SAFETY: the caller's promise.
    unsafe {
        let by = passes.dots::<T, N>(of_w, v);
        let with = passes.dots::<T, N>(of_v, v);
        passes.sum::<T, N>(y, by.map(|s| -s), of_v);
        passes.sum::<T, N>(y, with.map(|s| -s), of_w);
    }
}
