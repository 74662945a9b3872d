//! cuSolverMg as the engine of the routines, emulated (`mg.cc`): the cases of the CPU tests, and
//! calls that it refuses.

use std::path::Path;

use meshsolve::call::{Attributes, Call};
use meshsolve::device::cuda::vendor::Libraries;
use meshsolve::error::Kind;
use meshsolve::sites::{CallSite, CudaSite};

use crate::common::case::Place;
use crate::common::{Map, at, launch};
use crate::kernels::gpu::{devices, fail};
use crate::kernels::solve::{System, on_streams, run, run_after, streams};

/// The same attributes, with a width that divides the columns of a rank.
fn engaged(map: &Map, calls: &[Call]) -> Map {
    let matrix = calls[0].args.iter().find(|b| b.dims().len() == 2);
    let n = matrix.and_then(|b| b.dims().iter().copied().max()).unwrap_or(1);
    let columns = (n / calls.len()).max(1);
    let width = if columns.is_multiple_of(2) { columns / 2 } else { columns };
    // With one rank both orders are the same.
    let order = if calls.len() == 1 { "natural" } else { "auto" };
    map.clone().text("engine", "cusolvermg").text("order", order).int("tile", width as i64)
}

fn by_the_engine(map: &Map, calls: Vec<Call>) {
    on_streams(&devices().0, &engaged(map, &calls), calls, |rank| rank as i32 % 3);
}

fn on_one_device(map: &Map, calls: Vec<Call>) {
    on_streams(&devices().0, &engaged(map, &calls), calls, |_| 2);
}

const ENGINE: Place = Some(by_the_engine);
const ONE_DEVICE: Place = Some(on_one_device);

f64_and_c64! {
    mod on_three_devices {
        crate::routines::every_routine!(crate::kernels::engine::ENGINE; f64 f64);
    }
}

/// The routines with steps that the engine takes.
macro_rules! of_other_types {
    ($($at:ident $name:ident $scalar:ty),*) => {$(
        mod $name {
            crate::routines::every_routine! { crate::kernels::engine::$at, ::<$scalar>,
                cholesky::cholesky_in_every_storage lu::lu_in_every_storage
                inverse::inverses_in_every_storage condition::conditions_in_every_storage
                eigen::eigenvalues_in_every_storage eigenvectors::eigenvectors_in_every_storage
            }
        }
    )*};
}
f64_and_c64! { of_other_types! { ONE_DEVICE c64 faer::c32 } }
f32_and_c128! { of_other_types! { ENGINE f32 f32, ONE_DEVICE c128 faer::c64 } }

#[test]
fn singular_matrices() {
    crate::routines::lu::singular_matrices_have_no_solution_but_a_factor_and_a_determinant(ENGINE);
    crate::routines::inverse::where_there_is_no_inverse_all_is_nan_and_info_says_why(ENGINE);
}

fn map(routine: &str) -> Map {
    System::map(routine).text("engine", "cusolvermg")
}

/// Calls of a routine that factors: A, and B unless it inverts.
fn calls_of(routine: &str, system: &mut System) -> Vec<Call> {
    let mut calls = system.calls();
    for Call { args, rets, .. } in &mut calls {
        if routine == "cholesky_inverse" {
            args.truncate(1);
            rets.remove(1);
        }
        if routine == "eigenvalues" {
            args.truncate(1);
            let n = args[0].dims().iter().copied().max().unwrap();
            rets[1] = at(rets[1].as_ptr(), rets[1].dtype(), &[n]);
        }
        // A is its own transpose, so that the same memory is column-major.
        for matrix in [&mut args[0], &mut rets[0]] {
            let dims: Vec<_> = matrix.dims().iter().rev().copied().collect();
            *matrix = at(matrix.as_ptr(), matrix.dtype(), &dims);
        }
    }
    calls
}

#[test]
fn a_failure_of_the_engine_is_that_of_all() {
    let functions = [
        ("posv", "cusolverMgCreate", 0),
        ("posv", "cusolverMgDeviceSelect", 0),
        ("posv", "cusolverMgCreateDeviceGrid", 0),
        ("posv", "cusolverMgCreateMatrixDesc", 0),
        ("posv", "cusolverMgCreateMatrixDesc", 1),
        ("posv", "cusolverMgPotrf_bufferSize", 0),
        ("posv", "cusolverMgPotrs_bufferSize", 0),
        ("posv", "cusolverMgPotrf", 0),
        ("posv", "cusolverMgPotrs", 0),
        ("posv", "cuCtxSynchronize", 0),
        ("posv", "cuCtxSynchronize", 4),
        ("posv", "cusolverMgDestroyMatrixDesc", 0),
        ("cholesky_inverse", "cusolverMgPotri_bufferSize", 0),
        ("cholesky_inverse", "cusolverMgPotri", 0),
        ("eigenvalues", "cusolverMgSyevd_bufferSize", 0),
        ("eigenvalues", "cusolverMgSyevd", 0),
        ("gesv", "cusolverMgGetrf_bufferSize", 0),
        ("gesv", "cusolverMgGetrs_bufferSize", 0),
        ("gesv", "cusolverMgGetrf", 0),
        ("gesv", "cusolverMgGetrs", 0),
    ];
    for (routine, function, skip) in functions {
        let map = map(routine).text("storage", "column-major");
        let (devices, site) = (devices().0, CudaSite::new(&map).unwrap());
        let mut system = System::new(None);
        // The last rank to arrive makes the engine; rank 0 calls it.
        let before = |_| fail(function, skip, 6);
        let calls = calls_of(routine, &mut system);
        let outcomes = run_after(&site, &devices, &streams(), calls, before);
        let error = outcomes[0].clone().expect_err(function);
        assert!(outcomes.iter().all(|o| o.as_ref() == Err(&error)), "{function}: {outcomes:?}");
        let text = format!("expected {function} to succeed, got 6");
        assert!(error.message.contains(&text), "{function}: {error}");
        let mut again = System::new(None);
        let calls = calls_of(routine, &mut again);
        run(&site, &devices, &streams(), calls).into_iter().for_each(|o| o.unwrap());
        let right = routine != "posv" && routine != "gesv" || again.is_solved();
        assert!(right && again.info == [0; 3], "{function}: the next call");
    }
}

#[test]
fn a_matrix_that_is_not_positive_definite() {
    let (devices, streams) = (devices().0, streams());
    let site = CudaSite::new(&map("posv")).unwrap();
    let check = |system: &System, info: i32| {
        assert_eq!(system.info, [info; 3]);
        assert!(system.x.iter().flatten().all(|x| x.is_nan()));
    };
    for (place, value, info) in [(4, -1.0, 5), (0, 0.0, 1), (4, f64::NAN, 5)] {
        let mut system = System::new(Some((place, value)));
        run(&site, &devices, &streams, system.calls()).into_iter().for_each(|o| o.unwrap());
        check(&system, info);
    }
    // The library may not report the minor: the last one is not positive in any case. For a matrix
    // that has a factor, the same status is an error.
    for (wrong, outcome) in [(Some((4, -1.0)), Ok(())), (None, Err("got 7"))] {
        let mut system = System::new(wrong);
        let before = |_| fail("cusolverMgPotrf", 0, 7);
        let outcomes = run_after(&site, &devices, &streams, system.calls(), before);
        for stated in outcomes {
            match outcome {
                Ok(()) => stated.unwrap(),
                Err(text) => assert!(stated.unwrap_err().message.contains(text)),
            }
        }
        if outcome.is_ok() {
            check(&system, 12);
        }
    }
}

#[test]
fn orders_that_it_does_not_take() {
    let (devices, streams) = (devices().0, streams());
    let message = |map: Map, columns: usize| {
        let mut system = System::new(None);
        let is_eigen = Attributes::text(&map, "routine").as_deref() == Some("eigenvalues");
        let mut calls = calls_of(if is_eigen { "eigenvalues" } else { "posv" }, &mut system);
        // The library does not look at their contents.
        for Call { args, rets, .. } in &mut calls {
            for buffers in [args, rets] {
                for (buffer, dims) in
                    buffers.iter_mut().zip([[columns, 3 * columns], [3 * columns, 1]])
                {
                    let dims = if buffer.dims().len() == 1 { &dims[..1] } else { &dims[..] };
                    *buffer = at(buffer.as_ptr(), buffer.dtype(), dims);
                }
            }
        }
        let site = CudaSite::new(&map).unwrap();
        let outcomes = run(&site, &devices, &streams, calls);
        let error = outcomes[0].clone().unwrap_err();
        assert!(outcomes.iter().all(|o| o.as_ref() == Err(&error)));
        assert_eq!(error.kind, Kind::InvalidArgument);
        error.message
    };
    let expected = "meshsolve.posv: a: engine \"cusolvermg\" expected one width of tile columns that divides \
                    5 columns of a device, got none for order 15 over 3 devices; leave `tile` out, or \
                    leave engine=None";
    assert_eq!(message(map("posv").int("tile", 3), 5), expected);
    let expected = "meshsolve.posv: a: engine \"cusolvermg\" expected one width of tile columns that divides \
                    1031 columns of a device, got none for order 3093 over 3 devices; pad A with an \
                    identity corner to order 3456, or leave engine=None";
    assert_eq!(message(map("posv").int("tile", 0), 1031), expected);
    let expected = "meshsolve.gesv: a: engine \"cusolvermg\" expected one width of tile columns that divides \
                    1009 columns of a device, got none for order 3027 over 3 devices; pad A with an \
                    identity corner to order 3072, or leave engine=None";
    assert_eq!(message(map("gesv").int("tile", 0), 1009), expected);
    // Of widths that are multiples of 16 the engine sees the same tiles as the work: 32 and 8 columns.
    let expected = "meshsolve.eigenvalues: a: engine \"cusolvermg\" expected one width of tile columns that \
                    divides 40 columns of a device, got none for order 120 over 3 devices; leave `tile` \
                    out, or leave engine=None";
    let map_of_eigenvalues = Map::routine("eigenvalues", 3).text("engine", "cusolvermg");
    assert_eq!(message(map_of_eigenvalues.int("tile", 32), 40), expected);
    let expected = "meshsolve.gesv: attribute `tile`: expected at most 512 with engine \"cusolvermg\", got \
                    640; leave it out";
    assert_eq!(message(map("gesv").int("tile", 640), 640), expected);
    let expected = "meshsolve.posv: attribute `order`: expected \"auto\" or \"cyclic\" with engine \
                    \"cusolvermg\", got \"natural\"; leave it out, or leave engine=None";
    assert_eq!(message(map("posv").text("order", "natural"), 4), expected);
    let expected = "meshsolve.posv: engine: expected \"meshsolve\" or \"cusolvermg\" on CUDA devices, got \
                    \"scalapack\"; put A on CPU devices, one of each process";
    assert_eq!(message(map("posv").text("engine", "scalapack"), 4), expected);
}

#[test]
fn the_host_has_no_such_engine() {
    let site = CallSite::new(&map("posv")).unwrap();
    let run = launch();
    let (to, from) = crate::common::outcomes();
    for call in System::new(None).calls() {
        crate::common::arrive(&site, run, call, &to);
    }
    for (_, outcome) in crate::common::collect(&from, System::RANKS) {
        let text = "meshsolve.posv: engine: expected \"meshsolve\" for arrays in the host's memory, got \
                    \"cusolvermg\"; leave engine=None where A is factored, or put A on CUDA devices";
        assert_eq!(outcome.unwrap_err().message, text);
    }
}

#[test]
fn engines_that_there_are_not() {
    let map = map("posv").text("engine", "magma");
    let error = CudaSite::new(&map).err().unwrap();
    let text = "attribute `engine`: expected \"meshsolve\", \"cusolvermg\" or \"scalapack\", got \"magma\"";
    assert!(error.message.contains(text), "{error}");
    let (nowhere, here) = (Path::new("/nowhere/libMg.so"), crate::kernels::emulator::full().path());
    let libraries = Libraries::at(here, here, nowhere).unwrap();
    let error = libraries.mg().err().unwrap();
    assert!(error.message.contains("expected a library that loads, got /nowhere/"), "{error}");
}
