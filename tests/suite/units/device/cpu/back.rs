//! Products of eigenvectors with reflectors, against whole matrices.

use std::sync::Barrier;

use faer::{Mat, Side};
use meshsolve::comm::Queue;
use meshsolve::device::cpu::back::strips::{self, Kernel, Strips};
use meshsolve::device::cpu::back::{Back, Place, Room, WIDEST, batch, factors};
use meshsolve::device::cpu::blas;
use meshsolve::device::cpu::chase::{self, Turn};
use meshsolve::device::{Band, PanelReflectors, SweepReflectors, Tridiagonal};
use meshsolve::matrix::{Cells, Columns};
use meshsolve::scalar::{DType, Scalar};

use super::chase::numbers;

/// As on processors without a product kernel.
const PLAIN: Kernel = Kernel { units: strips::PLAIN, is_plain: true };

pub fn unit<T: Scalar>() -> f64 {
    if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON }
}

/// Eigenvectors of the real tridiagonal matrix, as rows by columns of memory.
pub fn rows_of_vectors<T: Scalar>(t: &Tridiagonal) -> Vec<T> {
    let n = t.diagonal.len();
    let dense = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => t.diagonal[i],
        1 => t.below[i.min(j)],
        _ => 0.0,
    });
    let found = dense.self_adjoint_eigen(Side::Lower).unwrap();
    let z = found.U();
    let at = |k: usize| T::of_parts(z[(k / n, k % n)], 0.0);
    (0..n * n).map(at).collect()
}

/// |A V - V diag(V^H A V)| and |V^H V - I|, for V^T in `rows`.
pub fn errors<T: Scalar>(a: &Mat<T>, rows: &[T]) -> [f64; 2] {
    let n = a.nrows();
    let v = Mat::from_fn(n, n, |i, j| rows[i * n + j]);
    let (av, gram) = (a * &v, v.adjoint() * &v);
    let values = v.adjoint() * &av;
    let mut worst = [0.0f64; 2];
    for j in 0..n {
        for i in 0..n {
            let residual = av[(i, j)] + -(v[(i, j)] * values[(j, j)]);
            let product = gram[(i, j)] + if i == j { -T::ONE } else { T::ZERO };
            worst = [worst[0].max(residual.modulus()), worst[1].max(product.modulus())];
        }
    }
    worst
}

/// By several threads.
fn by_workers<T: Scalar>(back: &Back<T>, rows: &mut [T], n: usize, workers: usize) {
    let columns = Columns::new([Cells::of(rows).by_columns(n, n, n)]);
    let width = back.sweeps.width();
    let sizes = Room::of::<T>(n, width);
    let mut shared = vec![T::NAN; sizes.shared];
    let (shared, barrier) = (Cells::of(&mut shared), Barrier::new(workers));
    let queue = Queue::default();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (columns, barrier, queue) = (&columns, &barrier, &queue);
            scope.spawn(move || {
                let (place, mut own) = (Place { worker, workers }, vec![T::NAN; sizes.own]);
                let meet = || {
                    barrier.wait();
                    Ok(())
                };
                // SAFETY: *order*: all workers do this, and meet.
                unsafe { back.apply(columns, (place, queue), shared, &mut own, meet, &|| false) }
                    .unwrap();
            });
        }
    });
}

/// By one thread, with this kernel and so much room for a batch.
pub fn alone<T: Scalar>(back: &Back<T>, kernel: Kernel, rows: &mut [T], n: usize, room: usize) {
    let columns = Columns::new([Cells::of(rows).by_columns(n, n, n)]);
    let widths = back.panels.iter().map(|panel| panel.v.cols());
    let width = widths.chain([back.sweeps.width()]).max().unwrap();
    let mut shared = vec![T::NAN; factors::most_elements(kernel, n, width)];
    let shared = Cells::of(&mut shared);
    let mut scratch = vec![T::NAN; factors::room(kernel, width)];
    let mut memory = vec![T::NAN; Strips::<T>::elements(kernel, n, n)];
    let mut strips = Strips::new(kernel, 0..n, n, &mut memory);
    let count = factors::panel_columns(kernel, width.max(32));
    let mut products = vec![T::NAN; (strips.height() + kernel.units.rows) * count];
    let place = Place { worker: 0, workers: 1 };
    // SAFETY: *order*: this thread alone has the memory.
    unsafe {
        strips.load(&columns, 0, Some(back.phases));
        for batch in batch::batches(back.sweeps, back.panels, kernel, room) {
            batch.make(back.sweeps, back.panels, kernel, place, shared, &mut scratch);
            let made = shared.read();
            batch.apply(&mut strips, blas::column(made, 0), &mut products);
        }
        strips.store(&columns, 0, back.conjugates);
    }
}

fn of_band<T: Scalar>(n: usize, b: usize) {
    let height = Band::<T>::rows(b);
    let mut memory = numbers::<T>(height * n);
    for (at, x) in memory.iter_mut().enumerate() {
        let (d, j) = (at % height, at / height);
        match d {
            0 => *x = T::of_parts(x.parts().0, 0.0),
            _ if d > b || j + d >= n => *x = T::ZERO,
            _ => {}
        }
    }
    let entry = |i: usize, j: usize| memory[j * height + i - j];
    let a = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
        distance if distance > b => T::ZERO,
        _ if i >= j => entry(i, j),
        _ => T::conj_impl(&entry(j, i)),
    });
    let mut kept = vec![T::NAN; n * n];
    let kept = Columns::new([Cells::of(&mut kept).by_columns(n, n, n)]);
    let kept = SweepReflectors::new(kept, n, b);
    let band = Band::new(Cells::of(&mut memory).by_columns(height, n, height), b);
    let mut scratch = vec![T::NAN; chase::room(b)];
    // SAFETY: *order*: this thread alone has the memory.
    let tridiagonal = unsafe {
        chase::sweep(band, Turn::ALONE, Some(&kept), &mut scratch, |_, _| Ok(()), |_, _| {})
            .unwrap();
        chase::tridiagonal(band)
    };
    let rows = rows_of_vectors::<T>(&tridiagonal);
    let back = Back {
        sweeps: &kept,
        panels: &[],
        phases: &tridiagonal.phases,
        conjugates: false,
        wanted: 0..n,
    };
    let mut found = rows.clone();
    by_workers(&back, &mut found, n, 2);
    let errors_found = errors(&a, &found);
    let bar = 20.0 * n as f64 * unit::<T>();
    assert!(errors_found.iter().all(|x| *x <= bar), "{n} {b}: {errors_found:?}, not {bar}");
    // Some eigenvectors, also by workers that have none.
    let wanted = n / 3..n.div_ceil(2);
    let mut some = rows.clone();
    by_workers(&Back { wanted: wanted.clone(), ..back }, &mut some, n, 3);
    for (at, x) in some.iter().enumerate() {
        let expected = if wanted.contains(&(at % n)) { found[at] } else { rows[at] };
        // Products of faer have other bits for other shapes.
        let most = if Kernel::of::<T>().is_plain { bar } else { 0.0 };
        let off = (*x + -expected).modulus();
        assert!(off <= most, "{n} {b} {wanted:?}, at {at}: {x:?} {expected:?}");
    }
    // A call that has been stopped changes nothing.
    let mut same = rows.clone();
    let columns = Columns::new([Cells::of(&mut same).by_columns(n, n, n)]);
    let sizes = Room::of::<T>(n, b);
    let (mut shared, mut own) = (vec![T::NAN; sizes.shared], vec![T::NAN; sizes.own]);
    let (place, shared) = (Place { worker: 0, workers: 1 }, Cells::of(&mut shared));
    let by = (place, &Queue::default());
    // SAFETY: *order*: this thread alone has the memory.
    unsafe { back.apply(&columns, by, shared, &mut own, || Ok(()), &|| true) }.unwrap();
    assert!(same == rows, "{n} {b}: stopped");
    // As on processors without a kernel, in small batches.
    let mut other = rows;
    alone(&back, PLAIN, &mut other, n, 0);
    for (x, y) in other.iter().zip(&found) {
        assert!((*x + -*y).modulus() <= bar, "{n} {b}: {x:?} {y:?}");
    }
}

fn bands<T: Scalar>() {
    for (n, b) in [(1, 1), (2, 1), (3, 1), (3, 2), (9, 2), (17, 3), (40, 8), (61, 16), (150, 40)] {
        of_band::<T>(n, b);
    }
    of_band::<T>(50, 49);
    of_band::<T>(50, 50);
    // The sweeps are made in groups. Steps have more rows than the pieces of a panel.
    of_band::<T>(100, 3);
    of_band::<T>(300, WIDEST);
}

#[test]
fn bands_in_every_dtype() {
    crate::common::every_scalar!(bands);
}

/// (I - V T V^H) C, by strips and by products of whole matrices.
fn of_panels<T: Scalar>(n: usize, k: usize, first: usize, kernel: Kernel) {
    let m = n - first;
    let all = numbers::<T>(m * k + n * n);
    // V below the diagonal, and T from there on.
    let mut v = all[..m * k].to_vec();
    let c = Mat::from_fn(n, n, |i, j| all[m * k + i * n + j]);
    let whole_v = Mat::from_fn(m, k, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => v[i + j * m],
    });
    let whole_t = Mat::from_fn(k, k, |i, j| if i <= j { v[i + j * m] } else { T::ZERO });
    let mut expected = c.clone();
    let below = c.subrows(first, m);
    let change = &whole_v * (&whole_t * (whole_v.adjoint() * below));
    for j in 0..n {
        for i in 0..m {
            expected[(first + i, j)] += -change[(i, j)];
        }
    }
    let panel = PanelReflectors { first, v: Cells::of(&mut v).by_columns(m, k, m) };
    let mut rows: Vec<T> = (0..n * n).map(|at| c[(at / n, at % n)]).collect();
    let mut none = [T::NAN];
    let sweeps = Columns::new([Cells::of(&mut none)]);
    // Of a band of width 1 there are none.
    let sweeps = SweepReflectors::new(sweeps, n, 1);
    let phases = vec![(1.0, 0.0); n];
    let back = Back {
        sweeps: &sweeps,
        panels: &[panel],
        phases: &phases,
        conjugates: false,
        wanted: 0..n,
    };
    alone(&back, kernel, &mut rows, n, 0);
    for (at, x) in rows.iter().enumerate() {
        let y = expected[(at / n, at % n)];
        let bar = 20.0 * (n * k * k) as f64 * unit::<T>();
        assert!((*x + -y).modulus() <= bar, "{n} {k} {first}: {x:?} {y:?}");
    }
}

/// Panels of a whole matrix have little more than half of its elements: V once, and T. Their 24 columns are
/// whole units of every kernel.
#[test]
fn a_batch_has_v_of_panels_once() {
    let (n, k) = (300, 24);
    let mut memory = vec![0.0f64; n * n];
    let all = Cells::of(&mut memory).by_columns(n, n, n);
    let panel =
        |j| PanelReflectors { first: j + 1, v: all.sub(j + 1, j, n - 1 - j, k.min(n - 1 - j)) };
    let panels: Vec<_> = (0..n - 1).step_by(k).map(panel).collect();
    let sweeps = SweepReflectors::new(Columns::new([all]), n, 1);
    for kernel in [PLAIN, Kernel::of::<f64>()] {
        let batches = |room| batch::batches(&sweeps, &panels, kernel, room).len();
        assert_eq!(batches(n * n * 2 / 3), 1);
        assert_eq!(batches(n * n / 3), 2);
    }
}

fn panels<T: Scalar>() {
    for (n, k, first) in [(5, 2, 1), (20, 8, 3), (20, 5, 15), (300, 16, 11)] {
        for kernel in [PLAIN, Kernel::of::<T>()] {
            of_panels::<T>(n, k, first, kernel);
        }
    }
}

#[test]
fn panels_in_every_dtype() {
    crate::common::every_scalar!(panels);
}
