//! The solvers' routines on the emulated devices: the cases of the CPU tests, by ranks on three
//! devices and by ranks that share one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use faer::Mat;
use meshsolve::call::{Allocate, Call};
use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::driver::Driver;
use meshsolve::device::cuda::handle::Stream;
use meshsolve::device::cuda::vendor::Libraries;
use meshsolve::error::{Kind, Result};
use meshsolve::routines::CudaArrival;
use meshsolve::scalar::DType;
use meshsolve::settings::Float64;
use meshsolve::sites::CudaSite;

use crate::common::Map;
use crate::common::case::Place;
use crate::common::{
    at, buffer, int_scalar, int_vector, positive_definite, posv_call, random, residual, row_shards,
};
use crate::kernels::gpu::{access, calls, capability, contexts, devices, fail, launches, stream};
use crate::kernels::memory::Array;

/// Scratch that holds garbage, between canaries.
#[derive(Default)]
struct Lender {
    lent: Vec<Array>,
    is_poor: bool,
}

impl Allocate for Lender {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let mut array = Array::new(bytes, 64);
        array.content_mut().fill(0xEE);
        let address = array.pointer().addr() as u64;
        self.lent.push(array);
        (!self.is_poor).then_some(address)
    }
}

impl Lender {
    fn check(&self) {
        self.lent.iter().for_each(|array| array.check("a call"));
    }
}

/// Runs all ranks, each on its own thread; outcomes by rank.
pub fn run(
    site: &CudaSite,
    devices: &Devices,
    streams: &[Stream],
    calls: Vec<Call>,
) -> Vec<Result<()>> {
    run_after(site, devices, streams, calls, |_| ())
}

/// The same; each thread calls `before` first.
pub fn run_after(
    site: &CudaSite,
    devices: &Devices,
    streams: &[Stream],
    calls: Vec<Call>,
    before: impl Fn(usize) + Sync,
) -> Vec<Result<()>> {
    run_with(site, devices, streams, calls, before, |_| false, |_| ())
}

/// The same; some ranks get no scratch, and each thread calls `after` last.
pub fn run_with(
    site: &CudaSite,
    devices: &Devices,
    streams: &[Stream],
    calls: Vec<Call>,
    before: impl Fn(usize) + Sync,
    poor: impl Fn(usize) -> bool + Sync,
    after: impl Fn(usize) + Sync,
) -> Vec<Result<()>> {
    static RUN: AtomicI64 = AtomicI64::new(0);
    let (run, outcomes) = (RUN.fetch_add(1, Relaxed), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (Call { rank, device, args, rets }, &stream) in calls.into_iter().zip(streams) {
            let (outcomes, before, poor, after) = (&outcomes, &before, &poor, &after);
            scope.spawn(move || {
                let mut lender = Lender { is_poor: poor(rank), ..Lender::default() };
                let mut place = [rank as i32, 0];
                let place = at(place.as_mut_ptr(), DType::S32, &[2]);
                let scratch = &mut lender;
                before(rank);
                let arrival = CudaArrival { run, device, stream, scratch, place, args, rets };
                let outcome = site.run(devices, arrival);
                lender.check();
                after(rank);
                assert_eq!(contexts(), 0);
                outcomes.lock().unwrap().push((rank, outcome));
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(rank, _)| *rank);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

pub fn on_streams(devices: &Devices, map: &Map, calls: Vec<Call>, device: fn(usize) -> i32) {
    let site = CudaSite::new(map).unwrap();
    let streams: Vec<_> = (0..calls.len()).map(|rank| stream(device(rank))).collect();
    for (rank, outcome) in run(&site, devices, &streams, calls).into_iter().enumerate() {
        outcome.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
    }
}

fn on_three_devices(map: &Map, calls: Vec<Call>) {
    on_streams(&devices().0, map, calls, |rank| rank as i32 % 3);
}

fn on_one_device(map: &Map, calls: Vec<Call>) {
    on_streams(&devices().0, map, calls, |_| 1);
}

const THREE_DEVICES: Place = Some(on_three_devices);
const ONE_DEVICE: Place = Some(on_one_device);

mod ranks_on_three_devices {
    f32_and_c128! { crate::routines::every_routine!(crate::kernels::solve::THREE_DEVICES; f32 f32); }
    f64_and_c64! {
        crate::routines::every_routine!(crate::kernels::solve::THREE_DEVICES; c64 faer::c32);
    }
    crate::routines::every_routine!(crate::kernels::solve::THREE_DEVICES; f64_only);
}

mod ranks_that_share_a_device {
    f64_and_c64! { crate::routines::every_routine!(crate::kernels::solve::ONE_DEVICE; f64 f64); }
    f32_and_c128! {
        crate::routines::every_routine!(crate::kernels::solve::ONE_DEVICE; c128 faer::c64);
    }
}

#[test]
fn other_eigenvectors_are_not_found() {
    crate::routines::eigenvectors::some_eigenvectors_alone::<f64>(THREE_DEVICES);
}

/// A system of order 12 on three ranks by rows: the operands of a rank's call.
pub struct System {
    a: Vec<Vec<f64>>,
    pub x: Vec<Vec<f64>>,
    pub info: Vec<i32>,
}

impl System {
    pub const RANKS: usize = 3;
    pub const N: usize = 12;

    /// A diagonally dominant matrix, with `diagonal` in one place of the diagonal.
    pub fn new(diagonal: Option<(usize, f64)>) -> Self {
        let entry = |i: usize, j: usize| match (i == j, diagonal) {
            (true, Some((place, value))) if place == i => value,
            (true, _) => 20.0,
            (false, _) => 1.0 / (1.0 + i.abs_diff(j) as f64),
        };
        let local = Self::N / Self::RANKS;
        let shard = |rank: usize| {
            (0..local * Self::N).map(|e| entry(rank * local + e / Self::N, e % Self::N)).collect()
        };
        System {
            a: (0..Self::RANKS).map(shard).collect(),
            x: vec![vec![1.0; Self::N]; Self::RANKS],
            info: vec![-1; Self::RANKS],
        }
    }

    pub fn map(routine: &str) -> Map {
        let map = Map::routine(routine, Self::RANKS).text("rhs", "replicated").int("tile", 2);
        map.int("lower", 1).only_own()
    }

    pub fn calls(&mut self) -> Vec<Call> {
        let shape = [Self::N / Self::RANKS, Self::N];
        let call = |rank: usize| {
            let (a, x) =
                (buffer(&mut self.a[rank], &shape), buffer(&mut self.x[rank], &[Self::N, 1]));
            let rets = vec![a.clone(), x.clone(), int_scalar(&mut self.info[rank])];
            Call::new(rank, rank as i32, vec![a, x], rets)
        };
        (0..Self::RANKS).map(call).collect()
    }

    pub fn is_solved(&self) -> bool {
        let System { a, x, .. } = System::new(None);
        let rows = a.concat();
        let row =
            |i: usize| (0..Self::N).map(|j| rows[i * Self::N + j] * self.x[0][j]).sum::<f64>();
        let right = (0..Self::N).all(|i| (row(i) - x[0][i]).abs() < 1e-13);
        right && self.x.iter().all(|x| *x == self.x[0])
    }
}

/// Every rank interchanges rows by its own copy of the pivots.
#[test]
fn pivots_that_ranks_do_not_have_alike_are_refused() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("getrs")).unwrap());
    let mut pivots = vec![(0..System::N as i32).collect::<Vec<_>>(); System::RANKS];
    let (mut infos, mut solutions) =
        ([0; System::RANKS], vec![vec![0.0; System::N]; System::RANKS]);
    let mut outcome = |pivots: &mut [Vec<i32>]| {
        let mut system = System::new(None);
        let own = pivots.iter_mut().zip(&mut infos).zip(&mut solutions);
        let calls = system.calls().into_iter().zip(own).map(|(call, ((pivots, info), x))| {
            let [a, b] = [0, 1].map(|arg| call.args[arg].clone());
            let args = vec![a, int_vector(pivots), int_scalar(info), b];
            Call::new(call.rank, call.device, args, vec![buffer(x, &[System::N, 1])])
        });
        let outcomes = run(&site, &devices, &streams(), calls.collect());
        assert!(outcomes.iter().all(|one| *one == outcomes[0]), "{outcomes:?}");
        outcomes[0].clone()
    };
    outcome(&mut pivots).unwrap();
    pivots[2][0] = 5;
    let expected = "meshsolve.getrs: pivots: expected the same on all devices, got others on rank 2; \
                    pass the pivots of the factorisation, replicated";
    assert_eq!(outcome(&mut pivots).unwrap_err().message, expected);
}

/// A replicated solution is one line, which may be longer than any pitch: here than 4 KiB.
#[test]
fn solutions_longer_than_the_largest_pitch() {
    let (n, ranks, rhs) = (12, 3, 100);
    let a = positive_definite::<f64>(n, 4);
    let b = random::<f64>(n, rhs, 5);
    for device in [|rank: usize| rank as i32, |_| 2] {
        let mut shards = row_shards(&a, ranks);
        let mut xs = vec![(0..n * rhs).map(|e| b[(e / rhs, e % rhs)]).collect::<Vec<_>>(); ranks];
        let mut infos = vec![-1; ranks];
        let parts = shards.iter_mut().zip(&mut xs).zip(&mut infos).enumerate();
        let calls = parts.map(|(r, ((a, x), info))| posv_call(r, a, x, info, n, ranks, rhs));
        on_streams(&devices().0, &System::map("posv"), calls.collect(), device);
        assert!(infos == [0; 3] && xs.iter().all(|x| *x == xs[0]));
        let x = Mat::from_fn(n, rhs, |i, j| xs[0][i * rhs + j]);
        assert!(residual(&a, &x, &b) < 3.0);
    }
}

pub fn streams() -> Vec<Stream> {
    (0..System::RANKS).map(|rank| stream(rank as i32)).collect()
}

/// Any function may fail on one device, at the first, a later or the last of its calls. All ranks
/// then get that error, and the next call works.
#[test]
fn a_failure_on_one_device_is_that_of_all() {
    let functions = [
        "cublasCreate_v2",
        "cublasSetStream_v2",
        "cublasSetWorkspace_v2",
        "cusolverDnCreate",
        "cusolverDnCreateParams",
        "cusolverDnXpotrf_bufferSize",
        "cusolverDnXpotrf",
        "cusolverDnSetStream",
        "cublasDgemm_v2_64",
        "cublasDtrsm_v2_64",
        "cublasDgeam_64",
        "cuStreamCreateWithPriority",
        "cuCtxGetStreamPriorityRange",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyPeerAsync",
        "cuMemcpy3DPeerAsync",
        "cuMemsetD2D8Async",
        "cuStreamSynchronize",
        "cuLaunchKernel",
    ];
    let failed = fail_on_one_rank(|| devices().0, &functions);
    assert!(failed > 2 * functions.len(), "{failed} calls failed");
}

/// The last thread to arrive writes `info` on all ranks.
#[test]
fn a_failure_of_the_last_one_is_that_of_all() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let counted = Mutex::new(vec![Vec::new(); System::RANKS]);
    let before = |_| drop(calls());
    let after = |rank: usize| counted.lock().unwrap()[rank] = calls();
    let mut system = System::new(None);
    let made = system.calls();
    for outcome in run_with(&site, &devices, &streams(), made, before, |_| false, after) {
        outcome.unwrap();
    }
    let counted = counted.into_inner().unwrap();
    let count = |rank: usize, name: &str| counted[rank].iter().filter(|n| *n == name).count();
    let written = |rank: usize| count(rank, "cuMemcpyHtoDAsync_v2");
    let least = (0..System::RANKS).map(written).min().unwrap();
    let is_last = |rank: usize| written(rank) == least + System::RANKS;
    assert_eq!((0..System::RANKS).filter(|rank| is_last(*rank)).count(), 1);
    // The number of calls by the last thread for all ranks.
    let shared = [("cuMemcpyHtoDAsync_v2", System::RANKS), ("cuStreamSynchronize", System::RANKS)];
    for (function, times) in shared {
        for skip in [0, times - 1] {
            let before = |rank: usize| {
                let own = count(rank, function) - if is_last(rank) { times } else { 0 };
                fail(function, (own + skip) as i32, 2);
            };
            let mut system = System::new(None);
            let outcomes = run_after(&site, &devices, &streams(), system.calls(), before);
            let error = outcomes[0].clone().unwrap_err();
            assert!(outcomes.iter().all(|o| o.as_ref() == Err(&error)), "{outcomes:?}");
            let name = function.trim_end_matches("_v2");
            let expected = format!("expected {name} to succeed, got 2");
            assert!(error.message.contains(&expected), "{error}");
            let mut again = System::new(None);
            for outcome in run(&site, &devices, &streams(), again.calls()) {
                outcome.unwrap();
            }
            assert!(again.is_solved() && again.info == [0; 3], "the next call");
        }
    }
}

/// Lets functions fail on one rank, at the first, a later or the last of their calls. Each failure
/// is the error of all ranks, and the next call works. Some rank calls each function. Returns the
/// number of failures.
pub fn fail_on_one_rank(devices: fn() -> Devices, functions: &[&str]) -> usize {
    let mut failed = 0;
    for (k, function) in functions.iter().enumerate() {
        let so_far = failed;
        for (skip, of) in [(0, 0), (0, 1), (0, 2), (1, 1), (2, 2), (5, 5)] {
            let (devices, site) = (devices(), CudaSite::new(&System::map("posv")).unwrap());
            let victim = (k + of) % System::RANKS;
            let mut system = System::new(None);
            let before = |rank: usize| {
                if rank == victim {
                    fail(function, skip, 2);
                }
            };
            let outcomes = run_after(&site, &devices, &streams(), system.calls(), before);
            let first = outcomes[0].clone();
            assert!(outcomes.iter().all(|o| *o == first), "{function} {skip}: {outcomes:?}");
            match first {
                // The function is not called as often.
                Ok(()) => assert!(system.is_solved(), "{function} {skip}"),
                Err(error) => {
                    failed += 1;
                    assert!(error.message.contains("to succeed, got 2"), "{function}: {error}");
                }
            }
            let mut again = System::new(None);
            for outcome in run(&site, &devices, &streams(), again.calls()) {
                outcome.unwrap();
            }
            assert!(again.is_solved() && again.info == [0; 3], "{function} {skip}: the next call");
        }
        assert!(failed > so_far, "no rank calls {function}");
    }
    failed
}

/// Kernels distribute columns, or copies where one device's kernels do not reach another's memory.
/// The device may lack peer access, or the memory may be mapped for its own device alone.
#[test]
fn columns_move_by_kernels_or_by_copies() {
    for (apart, unmapped, by_kernels) in
        [(false, false, vec![0, 1, 2]), (true, false, vec![]), (false, true, vec![1])]
    {
        let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
        let before = |_| {
            launches();
            if apart {
                fail("cuCtxEnablePeerAccess", 0, 217);
            }
        };
        let moved = Mutex::new(Vec::new());
        let after = |rank| {
            if launches().iter().any(|name| name.contains("_columns_")) {
                moved.lock().unwrap().push(rank);
            }
        };
        let mut system = System::new(None);
        let calls = system.calls();
        let shard = calls[1].args[0].as_ptr().addr() as u64;
        (0..3).for_each(|device| access(shard, device, !unmapped || device == 1));
        run_with(&site, &devices, &streams(), calls, before, |_| false, after)
            .into_iter()
            .for_each(|outcome| outcome.unwrap());
        (0..3).for_each(|device| access(shard, device, true));
        assert!(system.is_solved() && system.info == [0; 3]);
        let mut moved = moved.into_inner().unwrap();
        moved.sort();
        assert_eq!(moved, by_kernels);
    }
}

/// Runs a single rank on this thread; returns the bytes of its scratch.
pub fn run_alone(map: &Map, call: Call) -> usize {
    let (devices, site, mut lender) = (devices().0, CudaSite::new(map).unwrap(), Lender::default());
    let mut place = [0, 0];
    let place = at(place.as_mut_ptr(), DType::S32, &[2]);
    let Call { device, args, rets, .. } = call;
    let (run, stream, scratch) = (-1, stream(0), &mut lender);
    let arrival = CudaArrival { run, device, stream, scratch, place, args, rets };
    site.run(&devices, arrival).unwrap();
    lender.check();
    lender.lent.iter().map(|array| array.content().len()).sum()
}

/// Handles get a new mode when the setting changes; libraries that cannot emulate report an error.
#[test]
fn emulated_float64() {
    let emulated = Arc::new(AtomicBool::new(true));
    let asked = emulated.clone();
    let math = move || if asked.load(Relaxed) { Float64::Emulated } else { Float64::Native };
    let devices = devices().0.with_float64(Box::new(math));
    let site = CudaSite::new(&System::map("posv")).unwrap();
    let streams = streams();
    let reported = |expected: Option<&str>, before: fn(usize)| {
        let (mut system, modes) = (System::new(None), Mutex::new(Vec::new()));
        let before = |rank| {
            calls();
            before(rank);
        };
        let after = |_| {
            let of_mode = |name: &&String| name.ends_with("SetMathMode");
            let workspaces = |name: &&String| *name == "cublasSetWorkspace_v2";
            let called = calls();
            modes.lock().unwrap().push((
                called.iter().filter(of_mode).count(),
                called.iter().filter(workspaces).count(),
            ));
        };
        let made = system.calls();
        let outcomes = run_with(&site, &devices, &streams, made, before, |_| false, after);
        match expected {
            None => assert!(outcomes.iter().all(Result::is_ok) && system.is_solved()),
            Some(text) => {
                let error = outcomes[0].clone().unwrap_err();
                assert!(outcomes.iter().all(|o| o.as_ref() == Err(&error)), "{outcomes:?}");
                assert!(error.kind == Kind::FailedPrecondition && error.message.contains(text));
            }
        }
        modes.into_inner().unwrap()
    };
    // Two handles of cuBLAS, one of cuSOLVER; then the library's own memory.
    assert_eq!(reported(None, |_| ()), [(3, 0); 3]);
    assert_eq!(reported(None, |_| ()), [(0, 0); 3]);
    emulated.store(false, Relaxed);
    assert_eq!(reported(None, |_| ()), [(3, 2); 3]);
    emulated.store(true, Relaxed);
    let older = "cuBLAS: expected one that emulates float64, of CUDA 13.0 update 2 or newer, got an older one";
    reported(Some(older), |_| fail("cublasSetMathMode", 0, 7));
    // The status for an unknown mode: panels are factored as before.
    assert_eq!(reported(None, |_| fail("cusolverDnSetMathMode", 0, 3)), [(3, 0); 3]);
}

#[test]
fn handles_streams_and_events_are_used_again() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let streams = streams();
    let mut made = None;
    for turn in 0..4 {
        let mut system = System::new(None);
        run(&site, &devices, &streams, system.calls()).into_iter().for_each(|o| o.unwrap());
        let things = devices_tools(&devices);
        assert_eq!(things, [1; 3], "each device keeps what one call needs");
        assert!(turn == 0 || made == Some(things));
        made = Some(things);
    }
}

/// The number of sets of tools that each device keeps.
fn devices_tools(devices: &Devices) -> [usize; 3] {
    [0, 1, 2].map(|number| devices.numbered(number).unwrap().kept())
}

#[test]
fn scratch_that_there_is_not() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let mut system = System::new(None);
    let calls = system.calls();
    let outcomes = run_with(&site, &devices, &streams(), calls, |_| (), |rank| rank == 1, |_| ());
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, Kind::ResourceExhausted);
        assert!(error.message.starts_with("meshsolve.posv: CUDA device 1: expected "), "{error}");
    }
}

#[test]
fn no_solution_is_nan_and_info_or_an_error() {
    let (devices, streams) = (devices().0, streams());
    for (routine, place, value, info) in [
        ("posv", 11, -1.0, 12),
        ("posv", 4, f64::NAN, 5),
        ("posv", 0, 0.0, 1),
        ("posv", 6, f64::INFINITY, 7),
    ] {
        let site = CudaSite::new(&System::map(routine)).unwrap();
        let mut system = System::new(Some((place, value)));
        run(&site, &devices, &streams, system.calls()).into_iter().for_each(|o| o.unwrap());
        assert_eq!(system.info, [info; 3], "{routine} {place}");
        assert!(system.x.iter().flatten().all(|x| x.is_nan()), "{routine} {place}");
        let site = CudaSite::new(&System::map(routine).text("on_failure", "raise")).unwrap();
        let mut system = System::new(Some((place, value)));
        for outcome in run(&site, &devices, &streams, system.calls()) {
            let text = format!("leading minor of order {info} is not positive definite");
            assert!(outcome.unwrap_err().message.contains(&text));
        }
    }
}

#[test]
fn operands_that_differ_between_ranks() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let mut system = System::new(None);
    let mut calls = system.calls();
    let Call { args, rets, .. } = &mut calls[2];
    for buffer in [&mut args[1], &mut rets[1]] {
        *buffer = at(buffer.as_ptr(), buffer.dtype(), &[6, 2]);
    }
    for outcome in run(&site, &devices, &streams(), calls) {
        let message = outcome.unwrap_err().message;
        assert!(
            message.starts_with("meshsolve.posv: b of rank 2: expected float64[12,"),
            "{message}"
        );
    }
}

#[test]
fn devices_of_two_generations() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let mut system = System::new(None);
    let before = |rank| {
        if rank == 2 {
            capability(8);
        }
    };
    for outcome in run_after(&site, &devices, &streams(), system.calls(), before) {
        let error = outcome.unwrap_err();
        let expected = "meshsolve.posv: devices: expected GPUs of one compute capability, got sm_90 for CUDA \
                        device 0 and sm_80 for CUDA device 2; use a mesh of equal devices";
        assert_eq!((error.kind, &*error.message), (Kind::InvalidArgument, expected));
    }
}

#[test]
fn libraries_that_there_are_not() {
    let driver = Driver::at(crate::kernels::emulator::full().path()).unwrap();
    let error = Libraries::find(&[], &driver).err().expect("no cuBLAS among the tests' libraries");
    assert_eq!(error.kind, Kind::FailedPrecondition);
    let begins =
        "meshsolve: cuBLAS: expected libcublas.so.12, got none; tried what this process has loaded";
    assert!(error.message.starts_with(begins), "{error}");
    assert!(error.message.ends_with("pip install \"jax[cuda13]\" or \"jax[cuda12]\""), "{error}");
    let (nowhere, here) =
        (Path::new("/nowhere/libcublas.so.12"), crate::kernels::emulator::full().path());
    let error = Libraries::at(nowhere, here, here).err().unwrap();
    assert!(error.message.contains("expected a library that loads, got /nowhere/"), "{error}");
}
