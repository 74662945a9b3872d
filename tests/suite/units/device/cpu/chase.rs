//! Sweeps through bands, by several workers and kinds of vectors.

use faer::{Mat, Side};
use meshsolve::comm::{Communicator, Phase, Signal, Step};
use meshsolve::device::cpu::chase::step::{Step as Chase, Vectors, reflector};
use meshsolve::device::cpu::chase::{Turn, room, sweep, tridiagonal};
use meshsolve::device::cpu::passes::Block;
use meshsolve::device::{Band, Tridiagonal};
use meshsolve::matrix::Cells;
use meshsolve::scalar::{DType, Scalar};
use pulp::{Scalar256b, WithSimd};

pub fn numbers<T: Scalar>(count: usize) -> Vec<T> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..count).map(|_| T::of_parts(next(), next())).collect()
}

/// The memory of a random band matrix of order n.
fn band_of<T: Scalar>(n: usize, b: usize) -> Vec<T> {
    let rows = Band::<T>::rows(b);
    let mut all = numbers::<T>(rows * n);
    for (at, x) in all.iter_mut().enumerate() {
        let (d, j) = (at % rows, at / rows);
        if d > b || j + d >= n {
            *x = T::ZERO;
        }
    }
    all
}

fn view<T>(memory: &mut [T], n: usize, b: usize) -> Band<'_, T> {
    let rows = Band::<T>::rows(b);
    Band::new(Cells::of(memory).by_columns(rows, n, rows), b)
}

/// By several threads.
fn reduced<T: Scalar>(memory: &[T], n: usize, b: usize, workers: usize) -> Tridiagonal {
    let mut memory = memory.to_vec();
    let (band, comm) = (view(&mut memory, n, b), Communicator::new(workers));
    let phases: Vec<Phase> = (0..workers).map(|_| comm.phases().enter(0, Signal::Sweeps)).collect();
    std::thread::scope(|scope| {
        for (worker, phase) in phases.iter().enumerate() {
            scope.spawn(move || {
                let (turn, mut room) = (Turn { worker, workers }, vec![T::NAN; room(b)]);
                let wait = |s: usize, steps| -> Step {
                    if s == 0 {
                        return Ok(());
                    }
                    let (worker, count) = turn.count(&band, s - 1, steps);
                    phase.wait(worker, count)
                };
                let tell = |s: usize, steps: Option<usize>| {
                    let end = || turn.end(&band, s);
                    let count = steps.map_or_else(end, |steps| turn.count(&band, s, steps).1);
                    phase.announce(worker, count);
                };
                // SAFETY: *order*: all turns sweep, and waits are those of phases.
                unsafe { sweep(band, turn, None, &mut room, wait, tell) }.unwrap();
            });
        }
    });
    // SAFETY: *order*: all threads have ended.
    unsafe { tridiagonal(band) }
}

fn bands<T: Scalar>() {
    let unit = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    for (n, b) in
        [(0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (3, 5), (9, 2), (17, 3), (40, 8), (61, 16)]
            .into_iter()
            .chain([(50, 49), (50, 50), (70, 23)])
            // Groups of up to eight sweeps, and of fewer for more workers.
            .chain([(90, 2), (100, 3), (130, 8)])
    {
        let mut memory = band_of::<T>(n, b);
        let cells = view(&mut memory, n, b).cells();
        let entry = |i: usize, j: usize| {
            let (row, column) = (i.max(j), i.min(j));
            if row - column > b {
                return T::ZERO;
            }
            // SAFETY: an element of memory that nothing else accesses.
            let x = unsafe { *cells.at(row - column, column) };
            match i.cmp(&j) {
                std::cmp::Ordering::Equal => T::of_parts(x.parts().0, 0.0),
                std::cmp::Ordering::Less => T::conj_impl(&x),
                std::cmp::Ordering::Greater => x,
            }
        };
        let dense = Mat::<T>::from_fn(n, n, entry);
        let expected = dense.self_adjoint_eigenvalues(Side::Lower).unwrap();
        let found = reduced(&memory, n, b, 1);
        let entry = |i: usize, j: usize| match i.abs_diff(j) {
            0 => found.diagonal[i],
            1 => found.below[i.min(j)],
            _ => 0.0,
        };
        let values = Mat::from_fn(n, n, entry).self_adjoint_eigenvalues(Side::Lower).unwrap();
        for (x, y) in expected.into_iter().zip(&values) {
            let x = T::from_real_impl(&x).parts().0;
            let bar = 10.0 * n as f64 * unit;
            assert!((x - y).abs() <= bar, "{} {n} {b}: {x} {y}", T::DTYPE.name());
        }
        for workers in [2, 3] {
            let shared = reduced(&memory, n, b, workers);
            assert_eq!(format!("{shared:?}"), format!("{found:?}"), "{n} {b} {workers}");
        }
    }
}

#[test]
fn bands_become_tridiagonal_with_the_same_eigenvalues() {
    crate::common::every_scalar!(bands);
}

/// What a step makes of blocks of order k, and of so many rows below, with the processor's vectors or
/// others.
fn stepped<T: Scalar>(k: usize, rows: usize, is_portable: bool) -> Vec<T> {
    let (mut x, mut v) = (numbers::<T>(k), vec![T::ZERO; k]);
    let (mut room, mut next) = (vec![T::NAN; k.max(rows)], vec![T::NAN; rows]);
    let mut blocks = [numbers::<T>(k * k), numbers::<T>(rows * k)];
    let [diagonal, below] = &mut blocks;
    // SAFETY: arrays of these shapes, which nothing else accesses.
    let tau = unsafe {
        let tau = reflector(x.as_mut_ptr(), &mut v);
        let step = Chase {
            diagonal: Block { first: diagonal.as_mut_ptr(), rows: k, cols: k, stride: k },
            below: Block { first: below.as_mut_ptr(), rows, cols: k, stride: rows.max(1) },
            v: &v,
            tau,
            next: &mut next,
            room: &mut room,
        };
        if is_portable { Vectors(step).with_simd(Scalar256b) } else { step.run() }
    };
    blocks.concat().into_iter().chain(next).chain([tau]).collect()
}

fn portable<T: Scalar>() {
    let unit = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    for (k, rows) in [(1, 1), (1, 0), (5, 3), (8, 8), (13, 9), (6, 14)] {
        let (found, expected) = (stepped::<T>(k, rows, true), stepped::<T>(k, rows, false));
        assert_eq!(numbers::<T>(k * k)[0] == found[0], k == 1, "it does something");
        for (at, (x, y)) in found.into_iter().zip(expected).enumerate() {
            let apart = (x + -y).modulus();
            assert!(apart <= 100.0 * unit, "{} {k} {rows}: {at}: {apart}", T::DTYPE.name());
        }
    }
}

#[test]
fn portable_vectors_do_the_same() {
    crate::common::every_scalar!(portable);
}
