//! Panels by NCCL, an emulated one (`nccl.cc`): the solvers' cases, failures, and which calls have
//! communicators.

use meshsolve::call::Call;
use meshsolve::device::cuda::vendor::nccl::{Cliques, Member, Nccl};
use meshsolve::error::{Kind, Result};
use meshsolve::sites::CudaSite;

use crate::common::case::Place;
use crate::common::{Map, buffer, int_scalar};
use crate::kernels::emulator::full;
use crate::kernels::gpu::{devices_with_nccl, fail, stream};
use crate::kernels::memory::Array;
use crate::kernels::solve::{System, fail_on_one_rank, on_streams, run, run_after, streams};

fn on_three_devices(map: &Map, calls: Vec<Call>) {
    on_streams(&devices_with_nccl(), map, calls, |rank| rank as i32 % 3);
}

fn on_one_device(map: &Map, calls: Vec<Call>) {
    on_streams(&devices_with_nccl(), map, calls, |_| 1);
}

const THREE_DEVICES: Place = Some(on_three_devices);
const ONE_DEVICE: Place = Some(on_one_device);

macro_rules! factorisations {
    ($($name:ident $scalar:ty),*) => {$(
        mod $name {
            crate::routines::every_routine! { crate::kernels::panels::THREE_DEVICES, ::<$scalar>,
                cholesky::cholesky_in_every_storage lu::lu_in_every_storage
            }
        }
    )*};
}
f64_and_c64! { factorisations! { f64 f64, c64 faer::c32 } }
f32_and_c128! { factorisations! { f32 f32, c128 faer::c64 } }

f32_and_c128! {
    mod what_follows_a_factorisation {
        crate::routines::every_routine! { crate::kernels::panels::THREE_DEVICES, ::<faer::c64>,
            inverse::inverses_in_every_storage condition::conditions_in_every_storage
        }
    }
}

macro_rules! on_one_device {
    ($name:ident $scalar:ty) => {
        mod $name {
            crate::routines::every_routine! { crate::kernels::panels::ONE_DEVICE, ::<$scalar>,
                cholesky::cholesky_in_every_storage
            }
        }
    };
}
mod ranks_that_share_a_device {
    f64_and_c64! { on_one_device! { f64 f64 } }
    f32_and_c128! { on_one_device! { f32 f32 } }
}

/// Communicators of a rank on each of some devices, for one byte of memory.
fn take(cliques: &Cliques, numbers: &[i32], memory: &mut Array) -> Result<bool> {
    let devices = devices_with_nccl();
    let devices: Vec<_> = numbers.iter().map(|n| devices.numbered(*n).unwrap()).collect();
    let at = memory.pointer().addr() as u64;
    let members = devices.iter().zip(numbers);
    let members: Vec<_> = members
        .map(|(device, number)| Member { device: device.context(), stream: stream(*number), at })
        .collect();
    // SAFETY: the array's memory.
    Ok(unsafe { cliques.take(&members)? }.is_some())
}

#[test]
fn one_call_at_a_time_has_communicators() {
    let cliques = Cliques::new(Box::new(|| Nccl::at(full().path())));
    let memory = &mut Array::new(1, 64);
    assert_eq!(take(&cliques, &[0, 1, 2], memory), Ok(true));
    assert_eq!(take(&cliques, &[0, 1, 2], memory), Ok(false));
    assert_eq!(take(&cliques, &[0], memory), Ok(false));
    cliques.done();
    // Existing ones are reused, other devices get others, and ranks that share a device get none.
    for (numbers, has, kept) in [
        (vec![0, 1, 2], true, 1),
        (vec![2, 1], true, 2),
        (vec![1, 1], false, 2),
        (vec![1], true, 3),
    ] {
        assert_eq!(take(&cliques, &numbers, memory), Ok(has), "{numbers:?}");
        assert_eq!(cliques.kept(), kept, "{numbers:?}");
        cliques.done();
    }
}

#[test]
fn a_failure_on_one_rank_is_that_of_all() {
    let functions = [
        "ncclBroadcast",
        "cusolverDnXpotrf",
        "cublasDgemm_v2_64",
        "cublasDtrsm_v2_64",
        "cuMemcpy2DAsync_v2",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuStreamSynchronize",
        "cuLaunchKernel",
    ];
    let failed = fail_on_one_rank(devices_with_nccl, &functions);
    assert!(failed > 2 * functions.len(), "{failed} calls failed");
}

#[test]
fn communicators_that_cannot_be_made() {
    let refused = "meshsolve: NCCL 2.27.3: expected ";
    for function in ["ncclCommInitAll", "ncclGroupStart", "ncclGroupEnd"] {
        let (devices, site) = (devices_with_nccl(), CudaSite::new(&System::map("posv")).unwrap());
        let mut system = System::new(None);
        let before = |_| fail(function, 0, 5);
        for outcome in run_after(&site, &devices, &streams(), system.calls(), before) {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind, Kind::Internal);
            let expected = format!(
                "{refused}{function} to succeed, got 5 (invalid usage); run the program with \
                 NCCL_DEBUG=WARN, and NCCL says more; without MESHSOLVE_PANELS=nccl it is not used"
            );
            assert_eq!(error.message, expected);
        }
        for _ in 0..2 {
            let mut again = System::new(None);
            let outcomes = run(&site, &devices, &streams(), again.calls());
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
            assert!(again.is_solved(), "{function}");
            assert_eq!(devices.numbered(0).unwrap().cliques().unwrap().kept(), 1);
        }
    }
}

/// Four times the unit matrix of order 4, with tiles of two columns.
#[test]
fn a_rank_alone_sends_panels_to_itself() {
    for routine in ["posv", "gesv"] {
        let map = Map::routine(routine, 1).text("rhs", "replicated").int("tile", 2);
        let (devices, site) = (devices_with_nccl(), CudaSite::new(&map).unwrap());
        // The first broadcast is for the communicator, the second one for the panel.
        for (skip, works) in [(0, false), (1, false), (2, true)] {
            let mut a: Vec<f64> = (0..16).map(|e| if e % 5 == 0 { 4.0 } else { 0.0 }).collect();
            let (mut x, mut info) = (vec![1.0; 4], -1);
            let (a, b) = (buffer(&mut a, &[4, 4]), buffer(&mut x, &[4, 1]));
            let rets = vec![a.clone(), b.clone(), int_scalar(&mut info)];
            let call = Call::new(0, 0, vec![a, b], rets);
            let before = |_| fail("ncclBroadcast", skip, 2);
            let outcome = run_after(&site, &devices, &[stream(0)], vec![call], before).remove(0);
            assert_eq!(outcome.is_ok(), works, "{routine} {skip}: {outcome:?}");
            assert!(!works || x == [0.25; 4] && info == 0, "{routine}: {x:?}");
        }
    }
}
