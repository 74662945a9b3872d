//! Sizes of tiles and of scratch.

use meshsolve::device::cpu::worker_count;
use meshsolve::layout::{Grid, Mapping, Storage};
use meshsolve::routines::solver::forecast::plain;
use meshsolve::routines::solver::operands::Problem;
use meshsolve::routines::solver::options::{Norm, Options, Rhs};
use meshsolve::routines::solver::sizes::{Machine, Sizes, has_one_stage};
use meshsolve::routines::solver::{SolverRoutine, solvers};
use meshsolve::scalar::DType;
use meshsolve::settings;

/// A square matrix by whole columns.
fn square(n: usize, ranks: usize, rhs: usize, dtype: DType) -> Problem {
    Problem { m: n, n, grid: Grid::new(1, ranks), rhs, dtype }
}

fn routine(name: &str) -> &'static SolverRoutine {
    solvers().find(|routine| routine.name == name).expect("a routine")
}

#[test]
fn sums_of_moduli_are_scratch_too_and_doubles() {
    let problem = square(256, 2, 1, DType::F32);
    let options = plain(routine("lange"), Storage::Rows, true, Rhs::Replicated);
    let sizes = Sizes::new(&options, &problem, &Machine::host::<f32>(&options, &problem));
    let expected = 4 * sizes.scratch() + sizes.workers * 256 * 8;
    assert_eq!(sizes.scratch_bytes::<f32>(), expected);
}

/// The orders are in docs/settings.md.
#[test]
fn little_work_has_one_worker() {
    let workers = |name: &str, n: usize| {
        let (options, problem) = (
            plain(routine(name), Storage::Rows, true, Rhs::Replicated),
            square(n, 2, 1, DType::F64),
        );
        Machine::host::<f64>(&options, &problem).workers
    };
    let all = worker_count(2, settings::threads());
    for (name, most) in [("getrf", 512), ("eigenvalues", 203), ("eigenvectors", 128)] {
        assert_eq!([workers(name, most), workers(name, most + 1)], [1, all], "{name}");
    }
}

fn by_two_workers(name: &str, problem: &Problem) -> Sizes {
    let options = plain(routine(name), Storage::Rows, true, Rhs::Replicated);
    let machine = Machine { workers: 2, ..Machine::host::<f64>(&options, problem) };
    Sizes::new(&options, problem, &machine)
}

/// The scratch of eigenvectors: that for packing is a part of it, and T is in A.
#[test]
fn eigenvectors_take_little_more_than_themselves() {
    for (n, share) in [(4096, 0.15), (8192, 0.115)] {
        let sizes = by_two_workers("eigenvectors", &square(n, 2, 1, DType::F64));
        let found = sizes.scratch() as f64 / (n * n) as f64;
        assert!((0.8 * share..share).contains(&found), "{n}: {found}");
    }
}

/// Small matrices need no band, unless you choose its width.
#[test]
fn small_matrices_become_tridiagonal_in_one_stage() {
    for name in ["eigenvalues", "eigenvectors", "hermitian_function"] {
        let plain = plain(routine(name), Storage::Rows, true, Rhs::Replicated);
        let is = |tile: Option<usize>, n: usize, dtype: DType, workers: usize| {
            let problem = square(n, 2, 1, dtype);
            has_one_stage(&Options { tile, ..plain }, &problem, workers)
        };
        let orders = if name == "eigenvalues" { [2048, 1448] } else { [3547, 2508] };
        for (dtype, most) in [DType::F64, DType::C128].into_iter().zip(orders) {
            assert!(is(None, most, dtype, 2) && !is(None, most + 1, dtype, 2), "{name}");
            assert!(is(None, most + 1, dtype, 1) && !is(None, most, dtype, 3), "{name}");
            assert!(!is(Some(32), most, dtype, 2), "{name}");
        }
        // More workers take part in larger matrices by a band, and in smaller ones four do.
        assert!(is(None, 512, DType::F64, 8) && !is(None, 513, DType::F64, 8), "{name}");
        let workers = |one_stage: bool| {
            let problem = square(512, 8, 1, DType::F64);
            let machine = Machine::host::<f64>(&plain, &problem);
            Sizes::new(&plain, &problem, &Machine { workers: 8, one_stage, ..machine }).workers
        };
        assert_eq!([true, false].map(workers), [4, 8], "{name}");
    }
    let solve = plain(routine("getrf"), Storage::Rows, true, Rhs::Replicated);
    assert!(!has_one_stage(&solve, &square(64, 2, 1, DType::F64), 2));
}

/// Reports of progress weigh stages by what they do. In one stage nothing is left to do for a band, and
/// the way back has half of the products.
#[test]
fn progress_weighs_the_stages_of_the_call() {
    let parts = |one_stage: bool, vectors: usize| {
        let tasks = routine("eigenvectors").tasks([1000, 1000, 0, vectors], one_stage);
        let parts: Vec<_> = tasks.map(|(_, task)| (task.stage, task.before, task.part)).collect();
        let [.., (last, before, part)] = parts[..] else { panic!("stages") };
        assert!(last == "restore" && (before + part - 1.0).abs() < 1e-12);
        ["band", "tridiagonal", "divide", "back"]
            .map(|name| parts.iter().find(|(stage, ..)| *stage == name).expect("a stage").2)
    };
    let ([band, sweeps, divide, back], [one, none, ..]) = (parts(false, 1000), parts(true, 1000));
    assert!(back > band && back > divide && sweeps > 0.0);
    assert!(none == 0.0 && one > 2.0 * band);
    let [_, _, _, few] = parts(true, 10);
    assert!(few < back / 40.0);
}

/// Workers share a triangle where there are rows and blocks enough.
#[test]
fn workers_of_least_squares() {
    let workers = |m: usize, n: usize, dtype: DType| {
        // By rows the solver has A^T.
        let problem = Problem { m: n, n: m, grid: Grid::new(1, 2), rhs: 1, dtype };
        by_two_workers("gels", &problem).workers
    };
    let shapes = [(1536, 512), (2048, 1024), (8192, 4096), (1154, 577), (400, 100)];
    assert_eq!(shapes.map(|(m, n)| workers(m, n, DType::F64)), [2; 5]);
    // Too few rows, too few blocks of a triangle, and rows of float32, of which more are in work.
    assert_eq!([(1024, 512), (300, 100)].map(|(m, n)| workers(m, n, DType::F64)), [1; 2]);
    assert_eq!([(2048, 1024), (2560, 1024)].map(|(m, n)| workers(m, n, DType::F32)), [1, 2]);
    // As each of several processes has it at the end.
    assert_eq!([(4096, 4096), (8190, 4096)].map(|(m, n)| workers(m, n, DType::F64)), [1; 2]);
}

#[test]
fn a_block_cyclic_factor_has_the_same_tiles_for_all_routines() {
    // With 128 threads, every worker has enough columns for wide tiles.
    let problem = square(1 << 19, 2, 1, DType::F64);
    let width = |name: &str, mapping: Option<Mapping>| {
        let routine = routine(name);
        let options = Options { mapping, ..plain(routine, Storage::Rows, true, Rhs::Replicated) };
        Machine::host::<f64>(&options, &problem).tile
    };
    let routines = ["getrf", "getrs", "getri", "gecon", "potrf", "potrs", "potri"];
    assert!(routines.iter().all(|name| width(name, Some(Mapping::BlockCyclic)) == 128));
    assert_eq!((width("getrf", None), width("getri", None)), (256, 128));
}

/// Sums of a rectangle are those of its columns or of its rows, whatever the grid.
#[test]
fn workspace_of_rectangles_on_grids() {
    let (m, n) = (24, 40);
    for grid in [Grid::new(1, 4), Grid::new(4, 1), Grid::new(2, 2)] {
        let problem = Problem { m, n, grid, rhs: 0, dtype: DType::F64 };
        let sums = |storage, norm| {
            let plain = plain(routine("lange"), storage, true, Rhs::Replicated);
            let options = Options { norm, ..plain };
            let sizes = Sizes::new(&options, &problem, &Machine::host::<f64>(&options, &problem));
            assert_eq!(sizes.distribution.shard(), (m / grid.rows(), n / grid.columns()));
            sizes.sums
        };
        for storage in [Storage::Columns, Storage::ColumnMajor] {
            let norms = [Norm::One, Norm::Infinity, Norm::Frobenius];
            assert_eq!(norms.map(|norm| sums(storage, norm)), [n, m, 0]);
        }
        assert_eq!([Norm::One, Norm::Infinity].map(|norm| sums(Storage::Rows, norm)), [m, n]);
    }
}

/// The scratch of a redistribution holds its lines, of columns and of rows.
#[test]
fn lines_of_both_axes_fit_in_the_scratch() {
    let problem = Problem { m: 24, n: 80, grid: Grid::new(2, 2), rhs: 0, dtype: DType::F64 };
    let plain = plain(routine("potrf"), Storage::ColumnMajor, true, Rhs::Replicated);
    let options = Options { mapping: Some(Mapping::BlockCyclic), tile: Some(3), ..plain };
    let sizes = Sizes::new(&options, &problem, &Machine::host::<f64>(&options, &problem));
    let (columns, rows) = (sizes.arrange.columns.unwrap(), sizes.arrange.rows.unwrap());
    let expected = (columns.staging_lines() * 12).max(rows.staging_lines() * 40);
    assert!(expected > 0 && sizes.shared >= expected);
}
