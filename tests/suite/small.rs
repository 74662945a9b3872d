//! Calls so small that an interpreter of Rust runs them (`make test-miri`). It sees accesses of two
//! workers that no order separates, and views that leave their memory.

use crate::common::workers::{each, element, matrix, on_workers, shards, shared};
use crate::common::{lu::rebuilt, positive_definite, random, ratio};
use faer::Mat;
use meshsolve::algorithms::eigen::{
    Extent, Leading, Scratch, eigenvalues, reduce_to_band, reduce_to_tridiagonal,
};
use meshsolve::algorithms::triangular::Triangular;
use meshsolve::algorithms::{cholesky, lu, norm};
use meshsolve::comm::{Comm, Communicator, Sharing};

use meshsolve::device::Worker;
use meshsolve::device::cpu::CpuWorker;
use meshsolve::layout::{Distribution, Mapping};
use meshsolve::matrix::{Cells, DistMatrix};

const N: usize = 6;

/// What two workers leave of a matrix in two shards.
fn after(a: &Mat<f64>, work: impl Fn(&mut CpuWorker<f64>, &DistMatrix<f64>) + Sync) -> Mat<f64> {
    let mut memory = shards(a, 2);
    let distribution = Distribution::whole_columns((N, N), 2, 2, Mapping::Block);
    let view = matrix(&mut memory, &distribution);
    let sharing = Sharing { workers: 2, rows: 1, barrier_cost: 0.0 };
    let comm = Communicator::new(2).with_sharing(sharing);
    on_workers::<f64>(&comm, 2, |worker| {
        assert_eq!(worker.sharers(N), 2, "panels of LU are shared");
        work(worker, &view);
    });
    Mat::from_fn(N, N, |i, j| element(&distribution, &memory, i, j))
}

#[test]
fn cholesky_with_solves() {
    let a = positive_definite::<f64>(N, 1);
    let (mut x, mut sums) = ([1.0; N], [0.0; 2 * N]);
    let (block, all) = (Cells::of(&mut x), Cells::of(&mut sums));
    let sums = [0, N].map(|first| all.sub(first, 0, N, 1));
    let factor = after(&a, |worker, a| {
        cholesky::factor(worker, a).unwrap();
        for (triangle, op) in cholesky::sweeps(false) {
            let (x, sums) = (shared(worker, block), each(worker, &sums));
            Triangular { a, triangle, op }.solve_shared(worker, &x, &sums).unwrap();
        }
    });
    let l = Mat::from_fn(N, N, |i, j| if i >= j { factor[(i, j)] } else { 0.0 });
    assert!(ratio(&(&l * l.transpose()), &a) < 3.0);
    let (x, ones) = (Mat::from_fn(N, 1, |i, _| x[i]), Mat::from_fn(N, 1, |_, _| 1.0));
    assert!(ratio(&(&a * x), &ones) < 30.0);
}

#[test]
fn lu_by_panels_that_workers_share() {
    let (a, mut pivots) = (random::<f64>(N, N, 1), [-1; N]);
    let rows = Cells::of(&mut pivots);
    let factor = after(&a, |worker, a| lu::factor(worker, a, &shared(worker, rows)).unwrap());
    assert!(ratio(&rebuilt(&factor, &pivots), &a) < 3.0);
}

#[test]
fn a_band_and_its_sweeps() {
    tridiagonal(false);
}

#[test]
fn a_tridiagonal_matrix_in_one_stage() {
    tridiagonal(true);
}

fn tridiagonal(one_stage: bool) {
    let a = positive_definite::<f64>(N, 1);
    let of = Extent { n: N, widest: 2, workers: 2, is_rank: false, kept: 0, one_stage };
    let [once, own] = of.elements();
    let (mut memory, mut each_memory) = (vec![0.0; once], vec![0.0; 2 * own]);
    let (block, all) = (Cells::of(&mut memory), Cells::of(&mut each_memory));
    let blocks = [0, own].map(|first| all.sub(first, 0, own, 1));
    let found = std::sync::Mutex::new(None);
    after(&a, |worker, a| {
        let scratch = Scratch::new(of, shared(worker, block), each(worker, &blocks));
        let leading = Leading::new(a, N);
        leading.complete_diagonal(worker);
        match one_stage {
            true => reduce_to_tridiagonal(worker, &leading, &scratch).unwrap(),
            false => reduce_to_band(worker, &leading, &scratch).unwrap(),
        }
        if let Some(tridiagonal) = worker.tridiagonal(scratch.band(N), None).unwrap() {
            *found.lock().unwrap() = Some(tridiagonal);
        }
    });
    let mut found = found.into_inner().unwrap().expect("the first worker has it");
    assert_eq!(eigenvalues(&mut found.diagonal, &mut found.below), 0);
    let sum = |power: i32| found.diagonal.iter().map(|x| x.powi(power)).sum::<f64>();
    let trace = (0..N).map(|i| a[(i, i)]).sum::<f64>();
    let squares = a.norm_l2().powi(2);
    assert!((sum(1) / trace - 1.0).abs() < 1e-14, "{} {trace}", sum(1));
    assert!((sum(2) / squares - 1.0).abs() < 1e-14, "{} {squares}", sum(2));
}

#[test]
fn inverses() {
    let mut panel = vec![0.0; 2 * (N + 1)];
    let panel = Cells::of(&mut panel).by_columns(N, 2, N + 1);
    let mut pivots = [-1; N];
    let rows = Cells::of(&mut pivots);
    let (general, definite) = (random::<f64>(N, N, 2), positive_definite::<f64>(N, 2));
    let of_general = after(&general, |worker, a| {
        lu::factor(worker, a, &shared(worker, rows)).unwrap();
        let panels = shared(worker, panel);
        lu::inverse(worker, a, rows, &panels, &panels).unwrap();
    });
    let of_definite = after(&definite, |worker, a| {
        cholesky::factor(worker, a).unwrap();
        cholesky::inverse(worker, a, &shared(worker, panel)).unwrap();
    });
    let identity = Mat::<f64>::identity(N, N);
    for (a, inverse) in [(general, of_general), (definite, of_definite)] {
        assert!(ratio(&(a * inverse), &identity) < 300.0);
    }
}

#[test]
fn a_transpose_across_shards_and_norms() {
    let a = random::<f64>(N, N, 3);
    let mut sums = [0.0; 2 * N];
    let all = Cells::of(&mut sums);
    let transposed = after(&a, |worker, a| {
        let own = all.sub(worker.worker() * N, 0, N, 1);
        norm::sums(worker, a, (N, N), true, own);
        worker.barrier().unwrap();
        worker.transpose_square(a).unwrap();
    });
    assert_eq!(transposed, a.transpose().to_owned());
    let column: f64 = (0..N).map(|i| a[(i, 1)].abs()).sum();
    assert!((sums[1] + sums[N + 1] - column).abs() < 1e-14);
}
