//! Panels of a reduction in one stage, as wide as the matrix.

use std::sync::Barrier;

use faer::Mat;
use meshsolve::device::cpu::back::{Back, Place};
use meshsolve::device::cpu::chase::tridiagonal;
use meshsolve::device::cpu::one_stage::{reduce, room};
use meshsolve::device::{Band, OneStagePanel, PanelReflectors, SweepReflectors, Tridiagonal};
use meshsolve::matrix::{Cells, Columns};
use meshsolve::scalar::Scalar;

use super::back::{alone, errors, rows_of_vectors, unit};
use super::chase::numbers;
use meshsolve::device::cpu::back::strips::Kernel;

/// The tridiagonal matrix, and the memory of A with reflectors, where the columns are in tiles of a width.
fn reduced<T: Scalar>(a: &[T], n: usize, tile: usize, workers: usize) -> (Tridiagonal, Vec<T>) {
    let mut memory = a.to_vec();
    let all = Cells::of(&mut memory).by_columns(n, n, n);
    let starts = (0..n).step_by(tile);
    let columns = Columns::new(starts.map(|j| all.sub(0, j, n, tile.min(n - j))));
    let height = Band::<T>::rows(1);
    let (mut band, mut parts) = (vec![T::NAN; height * n], vec![T::NAN; 2 * workers * n]);
    let band = Band::new(Cells::of(&mut band).by_columns(height, n, height), 1);
    let parts = Cells::of(&mut parts).by_columns(n, 2 * workers, n);
    let barrier = Barrier::new(workers);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (columns, barrier) = (&columns, &barrier);
            scope.spawn(move || {
                let mut own = vec![T::NAN; 2 * n * n + room(n, n)];
                let own = Cells::of(&mut own);
                let strip = |at: usize| own.rows_from(at * n * n).by_columns(n, n, n);
                let panel = OneStagePanel {
                    a: columns,
                    order: n,
                    columns: 0..n,
                    band,
                    parts,
                    v: strip(0),
                    w: strip(1),
                    room: own.rows_from(2 * n * n),
                    kept: (worker == 0 && n > 1).then(|| all.sub(1, 0, n - 1, n - 1)),
                };
                let meet = || {
                    barrier.wait();
                    Ok(())
                };
                // SAFETY: *order*: all workers do this, and meet.
                unsafe { reduce(&panel, Place { worker, workers }, meet) }.unwrap();
            });
        }
    });
    // SAFETY: *order*: all threads have ended.
    let found = unsafe { tridiagonal(band) };
    (found, memory)
}

/// Eigenvectors of A, from those of the tridiagonal matrix and the reflectors.
fn in_one_stage<T: Scalar>(n: usize, tile: usize, workers: usize) {
    let mut given = numbers::<T>(n * n);
    // Only the lower half is read, without imaginary parts of the diagonal.
    let a = Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::conj_impl(&given[j + i * n]),
        std::cmp::Ordering::Equal => T::of_parts(given[i + j * n].parts().0, 0.0),
        std::cmp::Ordering::Greater => given[i + j * n],
    });
    for j in 0..n {
        given[j * n..][..j].fill(T::NAN);
        given[j + j * n] = a[(j, j)];
    }
    let (found, mut memory) = reduced(&given, n, tile, workers);
    let mut rows = rows_of_vectors::<T>(&found);
    let all = Cells::of(&mut memory).by_columns(n, n, n);
    let panels: &[_] = match n {
        1 => &[],
        _ => &[PanelReflectors { first: 1, v: all.sub(1, 0, n - 1, n - 1) }],
    };
    let sweeps = SweepReflectors::new(Columns::new([all]), n, 1);
    let phases = &found.phases;
    let back = Back { sweeps: &sweeps, panels, phases, conjugates: false, wanted: 0..n };
    alone(&back, Kernel::of::<T>(), &mut rows, n, 0);
    let (found, bar) = (errors(&a, &rows), 20.0 * n as f64 * unit::<T>());
    let what = format!("{} {n}, tiles {tile}, {workers}", T::DTYPE.name());
    assert!(found.iter().all(|error| *error <= bar), "{what}: {found:?}, not {bar}");
    let bits =
        |(tridiagonal, memory): &(Tridiagonal, Vec<T>)| format!("{tridiagonal:?} {memory:?}");
    let [one, other] = [0, 1].map(|_| bits(&reduced(&given, n, tile, workers)));
    assert!(one == other, "{what}: the same bits");
}

fn panels<T: Scalar>() {
    for (n, tile) in [(1, 1), (2, 2), (3, 1), (3, 2), (9, 4), (17, 5), (40, 16), (61, 61), (70, 7)]
    {
        for workers in 1..4 {
            in_one_stage::<T>(n, tile, workers);
        }
    }
}

#[test]
fn panels_become_tridiagonal() {
    crate::common::every_scalar!(panels);
}

/// Columns that are zero below the diagonal have no reflector.
#[test]
fn diagonal_matrices_stay() {
    let n = 12;
    let diagonal = |at: usize| if at.is_multiple_of(n + 1) { (at % 5) as f64 } else { 0.0 };
    let a: Vec<f64> = (0..n * n).map(diagonal).collect();
    let (found, _) = reduced(&a, n, 5, 2);
    assert_eq!(found.diagonal, (0..n).map(|i| a[i * (n + 1)]).collect::<Vec<_>>());
    assert_eq!(found.below, vec![0.0; n - 1]);
}
