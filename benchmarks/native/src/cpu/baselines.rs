//! Baselines of speed, in the same process: faer's product, faer's own solvers by all threads on
//! one array, the product of our own updates, a copy of memory. (The processor's peak: `peak.rs`.)

use std::sync::Barrier;
use std::time::Instant;

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::lu::partial_pivoting as lu;
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par};

use meshsolve::comm::Communicator;
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::device::{Device, Update};
use meshsolve::layout::{Distribution, Mapping, TileColumn};
use meshsolve::matrix::{Cells, DistMatrix, Panel};
use meshsolve::scalar::Scalar;

pub(super) fn par(threads: usize) -> Par {
    if threads > 1 { Par::rayon(threads) } else { Par::Seq }
}

/// Seconds of one n x n x n product by faer on `threads` threads: the denominator of all speed
/// ratios.
pub fn gemm_seconds<T: Scalar>(n: usize, threads: usize) -> f64 {
    let entry = |i: usize, j: usize, p: usize, q: usize| {
        let value = ((i * p + j * q) % 101) as f64 / 101.0;
        T::from_f64_impl(value)
    };
    let a = Mat::<T>::from_fn(n, n, |i, j| entry(i, j, 7, 13));
    let b = Mat::<T>::from_fn(n, n, |i, j| entry(i, j, 11, 5));
    let mut c = Mat::<T>::zeros(n, n);
    let start = Instant::now();
    matmul(c.as_mut(), Accum::Replace, a.as_ref(), b.as_ref(), T::ONE, par(threads));
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(c.as_ref());
    seconds
}

/// Operations per second of the product with which `workers` workers update an n x n matrix after
/// its first panel of LU. Tiles have `width` columns. Each worker updates its share of the tile
/// columns, packing included. It is the median of five.
pub fn update_flops<T: Scalar>(n: usize, width: usize, workers: usize) -> f64 {
    const TIMES: usize = 5;
    let distribution = Distribution::whole_columns((n, n), 1, width, Mapping::Block);
    let columns = distribution.columns();
    let (tiles, widest) = (columns.count(), columns.widest());
    // The entries are small, because the panel is applied again and again.
    let mut memory: Vec<T> = (0..n * n).map(|i| T::from_f64_impl((i % 7) as f64 / 1e4)).collect();
    let matrix = DistMatrix::new(vec![Cells::of(&mut memory).by_columns(n, n, n)], &distribution);
    let first = TileColumn::new(0);
    let panel = Panel::new(&matrix, first, matrix.all_rows(), matrix.tile_column(first));
    let (comm, together) = (Communicator::new(workers), Barrier::new(workers));
    let work = |own: usize| {
        let mut pack = vec![T::ZERO; scratch_elements::<T>(widest, tiles)];
        // SAFETY: *order*: each worker updates columns of its own, and none writes the panel.
        let mut worker = unsafe { CpuWorker::new(&comm, own, widest, Cells::of(&mut pack)) };
        let mut seconds = [0.0; TIMES];
        for seconds in &mut seconds {
            together.wait();
            let start = Instant::now();
            let others = columns.each().skip(1 + own).step_by(workers);
            worker.update(&matrix, &panel, others, Update::Lu, matrix.all_rows());
            together.wait();
            *seconds = start.elapsed().as_secs_f64();
        }
        seconds
    };
    let mut seconds = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|own| scope.spawn(move || work(own))).collect();
        let seconds = work(0);
        others.into_iter().for_each(|other| drop(other.join()));
        seconds
    });
    seconds.sort_by(f64::total_cmp);
    let left = n - columns.tile(TileColumn::new(0)).width;
    let operations = if T::IS_COMPLEX { 8.0 } else { 2.0 };
    operations * (left * left * (n - left)) as f64 / seconds[TIMES / 2]
}

/// Seconds of a copy of `bytes` bytes, in one contiguous part per thread of `threads` threads.
pub fn copy_seconds(bytes: usize, threads: usize) -> f64 {
    let (from, mut to) = (vec![1u64; bytes / 8], vec![2u64; bytes / 8]);
    let part = from.len().div_ceil(threads).max(1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
            scope.spawn(|| to.copy_from_slice(from));
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(&to);
    seconds
}

/// Solves A X = B by faer on `threads` threads, in place: by Cholesky if A is `positive_definite`,
/// else by LU with partial pivoting. Seconds of the factorisation; `None` where it fails.
pub fn solve<T: Scalar>(
    mut a: MatMut<'_, T>,
    b: MatMut<'_, T>,
    positive_definite: bool,
    threads: usize,
) -> Option<f64> {
    let (n, k, par) = (a.nrows(), b.ncols(), par(threads));
    let scratch = match positive_definite {
        true => llt::factor::cholesky_in_place_scratch::<T>(n, par, Default::default()),
        false => lu::factor::lu_in_place_scratch::<usize, T>(n, n, par, Default::default())
            .or(lu::solve::solve_in_place_scratch::<usize, T>(n, k, par)),
    };
    let mut memory = MemBuffer::new(scratch);
    let (stack, other) = (MemStack::new(&mut memory), Default::default());
    let start = Instant::now();
    if positive_definite {
        llt::factor::cholesky_in_place(a.as_mut(), other, par, stack, Default::default()).ok()?;
        let factored = start.elapsed().as_secs_f64();
        llt::solve::solve_in_place_with_conj(a.as_ref(), Conj::No, b, par, stack);
        return Some(factored);
    }
    let (mut rows, mut back) = (vec![0usize; n], vec![0usize; n]);
    let (_, rows) =
        lu::factor::lu_in_place(a.as_mut(), &mut rows, &mut back, par, stack, Default::default());
    let factored = start.elapsed().as_secs_f64();
    lu::solve::solve_in_place_with_conj(a.as_ref(), a.as_ref(), rows, Conj::No, b, par, stack);
    Some(factored)
}

/// Factors A = Q R by faer on `threads` threads, in place: R and the reflectors. Its seconds.
pub fn factor_qr<T: Scalar>(a: MatMut<'_, T>, threads: usize) -> f64 {
    let (m, n, par) = (a.nrows(), a.ncols(), par(threads));
    let width = qr::recommended_block_size::<T>(m, n);
    let scratch = qr::qr_in_place_scratch::<T>(m, n, width, par, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let mut coefficients = Mat::<T>::zeros(width, m.min(n));
    let start = Instant::now();
    let stack = MemStack::new(&mut memory);
    qr::qr_in_place(a, coefficients.as_mut(), par, stack, Default::default());
    start.elapsed().as_secs_f64()
}

/// The eigenvalues of a Hermitian A by faer on `threads` threads, in ascending order, and the
/// eigenvectors if there is an array for them. Its seconds; `None` where it does not converge.
pub fn eigen<T: Scalar>(
    a: MatRef<'_, T>,
    values: &mut [T],
    vectors: Option<MatMut<'_, T>>,
    threads: usize,
) -> Option<f64> {
    let (n, par) = (a.nrows(), par(threads));
    let wanted = match vectors {
        Some(_) => ComputeEigenvectors::Yes,
        None => ComputeEigenvectors::No,
    };
    let scratch = evd::self_adjoint_evd_scratch::<T>(n, wanted, par, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let values = DiagMut::from_slice_mut(values).as_dyn_stride_mut();
    let start = Instant::now();
    let stack = MemStack::new(&mut memory);
    evd::self_adjoint_evd(a, values, vectors, par, stack, Default::default()).ok()?;
    Some(start.elapsed().as_secs_f64())
}
