//! The product with which factorisations update their tiles, on arrays that the caller gives. Other
//! libraries multiply the same arrays.

use std::sync::Barrier;
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::reborrow::ReborrowMut;
use faer::{Accum, MatMut, MatRef, Par};

use meshsolve::device::cpu::product::{DEEPEST, Packed, Units, multiply};
use meshsolve::scalar::Scalar;

use super::baselines::par;

/// What the updates pack or copy at a time: columns of the right factor, rows of the left one.
const COLUMN_BYTES: usize = 2 << 20;
const ROW_BYTES: usize = 512 << 10;
/// Bytes between copied columns, so that they do not map to the same cache sets.
const LINE: usize = 64;

#[derive(Clone, Copy)]
pub enum Method {
    /// Our kernel on packed factors. Each thread has a share of the columns.
    Kernel,
    /// faer's product of copied factors. Each thread has a share of the columns.
    Faer,
    /// faer's product on all threads.
    FaerAlone,
}

impl Method {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "meshsolve" => Method::Kernel,
            "faer" => Method::Faer,
            "faer alone" => Method::FaerAlone,
            _ => return None,
        })
    }
}

/// Seconds of `C <- C - A B`, packing or copies included. The threads have started and have their
/// scratch when the clock starts. `None` where our kernel does not do it.
pub fn seconds<T: Scalar>(
    mut c: MatMut<T>,
    a: MatRef<T>,
    b: MatRef<T>,
    method: Method,
    threads: usize,
) -> Option<f64> {
    let ((high, depth), width) = (a.shape(), c.ncols().div_ceil(threads).max(1));
    let units = match method {
        Method::FaerAlone => {
            let start = Instant::now();
            matmul(c.rb_mut(), Accum::Add, a, b, -T::ONE, par(threads));
            return Some(start.elapsed().as_secs_f64());
        }
        Method::Kernel if depth > DEEPEST => return None,
        Method::Kernel => Some(Units::of::<T>()?),
        Method::Faer => None,
    };
    let together = Barrier::new(threads);
    let work = |c: MatMut<T>, b: MatRef<T>| {
        let pieces = Pieces::new::<T>(depth, (high, c.ncols()), units);
        // Ones, because the system provides pages of zeros only when something writes there.
        let (mut left, mut right) = (vec![T::ONE; pieces.left], vec![T::ONE; pieces.right]);
        let memory = [&mut left[..], &mut right[..]];
        together.wait();
        let start = Instant::now();
        match units {
            Some(units) => by_kernel(c, a, b, pieces, units, memory),
            None => by_faer(c, a, b, pieces, memory),
        }
        together.wait();
        start.elapsed().as_secs_f64()
    };
    let mut rest = c;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for own in 0..threads {
            let at = (own * width).min(b.ncols());
            let cols = width.min(b.ncols() - at);
            let (share, others) = rest.split_at_col_mut(cols);
            rest = others;
            let (b, work) = (b.subcols(at, cols), &work);
            running.push(scope.spawn(move || work(share, b)));
        }
        let seconds = running.into_iter().map(|thread| thread.join().expect("no panic"));
        Some(seconds.fold(0.0, f64::max))
    })
}

/// Rows and columns that are packed or copied at a time, and the elements of their scratch.
#[derive(Clone, Copy)]
struct Pieces {
    rows: usize,
    cols: usize,
    left: usize,
    right: usize,
}

impl Pieces {
    fn new<T: Scalar>(depth: usize, (high, wide): (usize, usize), units: Option<Units>) -> Self {
        let (deep, size) = (depth.max(1), size_of::<T>());
        let (rows, unit) = match units {
            Some(units) => (units.rows_in_cache::<T>(deep), units.cols),
            None => ((ROW_BYTES / (deep * size) / 64 * 64).clamp(64, 1024), deep),
        };
        let cols = (COLUMN_BYTES / (deep * size) / unit).max(1) * unit;
        let (rows, cols) = (rows.min(high.max(1)), cols.min(wide.max(1)));
        let (left, right) = match units {
            Some(units) => {
                let elements = Packed::<T>::elements;
                (elements(units.rows, rows, deep), elements(units.cols, cols, deep))
            }
            None => ((rows + LINE / size) * deep, cols * deep),
        };
        Pieces { rows, cols, left, right }
    }
}

fn by_kernel<T: Scalar>(
    mut c: MatMut<T>,
    a: MatRef<T>,
    b: MatRef<T>,
    pieces: Pieces,
    units: Units,
    [left, right]: [&mut [T]; 2],
) {
    let (rows, wide) = c.shape();
    for col in (0..wide).step_by(pieces.cols) {
        let cols = pieces.cols.min(wide - col);
        let of_b = Packed::new(b.subcols(col, cols).transpose(), false, units.cols, right);
        for row in (0..rows).step_by(pieces.rows) {
            let part = a.subrows(row, pieces.rows.min(rows - row));
            let of_a = Packed::new(part, false, units.rows, left);
            let c = c.rb_mut().submatrix_mut(row, col, of_a.lines(), cols);
            multiply(c, true, &of_a, 0, &of_b);
        }
    }
}

/// As the updates of processors without a kernel. Tiles are as wide as the inner dimension.
fn by_faer<T: Scalar>(
    mut c: MatMut<T>,
    a: MatRef<T>,
    b: MatRef<T>,
    pieces: Pieces,
    [left, right]: [&mut [T]; 2],
) {
    let ((rows, wide), depth) = (c.shape(), a.ncols());
    for col in (0..wide).step_by(pieces.cols) {
        let cols = pieces.cols.min(wide - col);
        let of_b = copied(b.subcols(col, cols), depth, right);
        for row in (0..rows).step_by(pieces.rows) {
            let high = pieces.rows.min(rows - row);
            let of_a = copied(a.subrows(row, high), high + LINE / size_of::<T>(), left);
            for tile in (0..cols).step_by(depth.max(1)) {
                let width = depth.min(cols - tile);
                let c = c.rb_mut().submatrix_mut(row, col + tile, high, width);
                matmul(c, Accum::Add, of_a, of_b.subcols(tile, width), -T::ONE, Par::Seq);
            }
        }
    }
}

/// A copy in `memory`, with `leading` elements between columns.
fn copied<'a, T: Scalar>(from: MatRef<T>, leading: usize, memory: &'a mut [T]) -> MatRef<'a, T> {
    let (rows, cols) = from.shape();
    for (j, to) in memory.chunks_exact_mut(leading.max(1)).take(cols).enumerate() {
        let column = from.col(j).try_as_col_major().expect("contiguous columns");
        to[..rows].copy_from_slice(column.as_slice());
    }
    MatRef::from_column_major_slice_with_stride(memory, rows, cols, leading)
}
