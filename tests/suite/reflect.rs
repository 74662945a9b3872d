//! Reflectors applied to some matrices, with the product kernel and by faer, against sums by
//! definition.

use crate::common::for_all_scalars;

use faer::Mat;
use meshsolve::comm::Communicator;
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::device::{Device, Filled, Op, Reflectors, Target};
use meshsolve::matrix::Cells;
use meshsolve::scalar::Scalar;

/// Small whole numbers, so that sums are exact in every order.
fn whole<T: Scalar>(rows: usize, cols: usize, seed: usize) -> Mat<T> {
    let part = |i: usize, j: usize, part: u64| {
        let place = ((seed * 512 + i) * 512 + j) as u64 * 2 + part;
        ((place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 3
    };
    let part = |i, j, of| part(i, j, of) as f64 - 1.0;
    Mat::from_fn(rows, cols, |i, j| T::of_parts(part(i, j, 0), part(i, j, 1)))
}

fn product<T: Scalar>(a: &Mat<T>, b: &Mat<T>) -> Mat<T> {
    let sum =
        |i: usize, j: usize| (0..a.ncols()).fold(T::ZERO, |sum, p| sum + a[(i, p)] * b[(p, j)]);
    Mat::from_fn(a.nrows(), b.ncols(), sum)
}

fn adjoint<T: Scalar>(a: &Mat<T>) -> Mat<T> {
    Mat::from_fn(a.ncols(), a.nrows(), |i, j| T::conj_impl(&a[(j, i)]))
}

fn memory<T: Scalar>(a: &Mat<T>) -> Vec<T> {
    (0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)])).collect()
}

/// `k` reflectors of `rows` rows, and a matrix for each way in which it may be filled. Rows that
/// are named zero are not, and must not count in V^H C.
fn check<T: Scalar>((rows, k, cols): (usize, usize, usize), op: Op, kernel: bool) {
    let v: Mat<T> = whole(rows, k, 1);
    let t: Mat<T> = whole(k, k, 2);
    let t = Mat::from_fn(k, k, |i, j| if i <= j { t[(i, j)] } else { T::ZERO });
    let all = [Filled::All, Filled::Top, Filled::Below];
    let before = all.map(|filled| whole::<T>(rows, cols, filled as usize));
    let [mut of_v, mut of_t] = [memory(&v), memory(&t)];
    let mut targets = before.clone().map(|c| memory(&c));
    let mut scratch = vec![T::NAN; scratch_elements::<T>(cols, 2)];
    let (mut top, mut room) =
        (memory(&Mat::from_fn(k, k, |i, j| v[(i, j)])), vec![T::NAN; 2 * k * cols]);
    let comm = Communicator::new(1);
    // SAFETY: *order*: the only worker.
    let worker = unsafe { CpuWorker::new(&comm, 0, cols, Cells::of(&mut scratch)) };
    let mut worker = if kernel { worker } else { worker.without_kernel() };
    let by = Reflectors {
        top: Cells::of(&mut top).by_columns(k, k, k),
        below: Cells::of(&mut of_v).by_columns(rows, k, rows).rows_from(k),
        t: Cells::of(&mut of_t).by_columns(k, k, k),
    };
    let cells = targets.each_mut().map(|c| Cells::of(c).by_columns(rows, cols, rows));
    let given: Vec<_> =
        cells.iter().zip(all).map(|(&cells, filled)| Target { cells, filled }).collect();
    worker.reflect(by, op, &given, Cells::of(&mut room));
    let t = if op == Op::Adjoint { adjoint(&t) } else { t };
    for ((filled, before), after) in all.into_iter().zip(&before).zip(&targets) {
        let counts = |i: usize| match filled {
            Filled::All => true,
            Filled::Top => i < k,
            Filled::Below => i >= k,
        };
        let c = Mat::from_fn(rows, cols, |i, j| if counts(i) { before[(i, j)] } else { T::ZERO });
        let change_by = |c: &Mat<T>| product(&v, &product(&t, &product(&adjoint(&v), c)));
        let change = change_by(&c);
        assert!(filled == Filled::All || change != change_by(before), "other rows would count");
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            let wanted = before[(i, j)] + -change[(i, j)];
            let case = format!(
                "{filled:?} {op:?} {rows} x {k}, {cols} columns, kernel={kernel}, ({i}, {j})"
            );
            assert_eq!(after[j * rows + i], wanted, "{:?} {case}", T::DTYPE);
        }
    }
}

fn rows_that_are_zero_are_left_out<T: Scalar>() {
    // Narrower than packing pays, a whole unit of the kernel and one that is not.
    for sizes in [(11, 3, 2), (40, 8, 8), (70, 24, 24), (300, 17, 29)] {
        for (op, kernel) in [(Op::None, true), (Op::Adjoint, true), (Op::Adjoint, false)] {
            check::<T>(sizes, op, kernel);
        }
    }
}

for_all_scalars!(rows_that_are_zero_are_left_out);
