//! The measurement of transpositions and factorisations on a device, on the emulated driver. It
//! must check results and free all memory.

use crate::kernels::measure::panel;
use crate::kernels::measure::transpositions::{MeasuredDevice, Request};
use meshsolve::error::Kind;
use meshsolve::transpose::Algorithm;

use crate::kernels::emulator::small;
use crate::kernels::gpu::{ALONE, contexts, devices, fail, launches, overrun, pieces};
use crate::kernels::memory::Array;
use crate::transposition::{Random, SIZES, transposed};

fn request(rows: usize, cols: usize, element_size: usize) -> Request {
    let scratch_bytes = rows * cols * element_size * 9 / 8 + 64;
    Request { rows, cols, element_size, forced: None, scratch_bytes, repeats: 2 }
}

#[test]
fn transpositions_are_checked_and_measured() {
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    let measured = MeasuredDevice::new(&devices, 1).unwrap();
    assert_eq!(measured.describe().unwrap(), ("emulated".into(), 64 << 20));
    for (rows, cols) in [(1, 1), (40, 40), (61, 47), (5, 90), (128, 256)] {
        for size in SIZES {
            let forced = (rows * cols > 1000).then_some(Algorithm::C2r);
            for forced in [None, forced] {
                let request = Request { forced, ..request(rows, cols, size) };
                let found = measured.measure(request).unwrap();
                assert_eq!((found.copies.len(), found.transpositions.len()), (2, 2));
                assert!(found.copies.iter().all(|seconds| *seconds > 0.0));
                assert!(forced.is_none_or(|algorithm| found.plan.algorithm() == algorithm));
                assert!(found.scratch_bytes <= request.scratch_bytes, "{}", found.plan);
            }
        }
    }
    launches();
    measured.measure(request(61, 47, 8)).unwrap();
    // Before and after each of three.
    let launched = launches();
    for entry in ["number_8", "check_8"] {
        assert_eq!(launched.iter().filter(|name| *name == entry).count(), 3, "{entry}");
    }
    drop(measured);
    assert_eq!((pieces(), contexts()), (0, 0));
}

#[test]
fn factorisations_are_checked_and_measured() {
    use panel::Routine::{Getrf, Potrf};
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    let request = |routine, m, n| panel::Request { routine, m, n, repeats: 3 };
    let measure = |request| panel::measure(&devices, 1, request);
    for (routine, m, n) in
        [(Potrf, 1, 1), (Potrf, 40, 40), (Getrf, 1, 1), (Getrf, 70, 13), (Getrf, 41, 41)]
    {
        let found = measure(request(routine, m, n)).unwrap();
        assert!(0.0 < found.host_seconds && found.host_seconds <= found.seconds, "{found:?}");
        // The workspace that the emulated library requests.
        assert_eq!(found.host_bytes, 24);
        assert_eq!((pieces(), contexts()), (0, 0));
    }
    for wrong in [
        request(Getrf, 3, 4),
        request(Potrf, 5, 4),
        request(Getrf, 4, 0),
        panel::Request { repeats: 0, ..request(Getrf, 4, 4) },
    ] {
        let error = measure(wrong).unwrap_err();
        assert_eq!(error.kind, Kind::InvalidArgument, "{wrong:?}");
        assert!(error.message.contains("expected m >= n > 0, for potrf m = n"), "{error}");
    }
    for (function, skip, status, text) in [
        ("cuMemAlloc_v2", 3, 2, "expected cuMemAlloc to succeed, got 2"),
        ("cuLaunchKernel", 9, 2, "fill_8 on CUDA device 1: expected cuLaunchKernel to succeed"),
        ("cusolverDnXgetrf_bufferSize", 0, 7, "expected cusolverDnXgetrf_bufferSize to succeed"),
        ("cusolverDnXgetrf", 2, 7, "cuSOLVER: expected cusolverDnXgetrf to succeed, got 7"),
        ("cuStreamSynchronize", 1, 2, "waiting on CUDA device 1: expected cuStreamSynchronize"),
    ] {
        fail(function, skip, status);
        let error = measure(request(Getrf, 30, 7)).unwrap_err();
        assert!(error.message.contains(text), "{error}");
        assert_eq!((pieces(), contexts()), (0, 0), "{function}");
    }
}

#[test]
fn errors_give_memory_back() {
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    let measured = MeasuredDevice::new(&devices, 0).unwrap();
    let none = measured.measure(Request { scratch_bytes: 8, ..request(61, 47, 8) }).unwrap_err();
    let expected = "meshsolve: 61 x 47 of 8 bytes: expected more scratch than 8 bytes; 9/8 of the array's \
                    are always enough";
    assert_eq!((none.kind, &*none.message), (Kind::InvalidArgument, expected));
    let cases = [
        ("cuMemAlloc_v2", 0, "22936 bytes on CUDA device 0: expected cuMemAlloc to succeed, got 2"),
        ("cuMemAlloc_v2", 2, "bytes on CUDA device 0: expected cuMemAlloc to succeed, got 2"),
        ("cuLaunchKernel", 0, "fill_4 on CUDA device 0: expected cuLaunchKernel to succeed"),
        ("cuLaunchKernel", 6, "number_8 on CUDA device 0: expected cuLaunchKernel to succeed"),
        ("cuEventRecord", 1, "measuring on CUDA device 0: expected cuEventRecord to succeed"),
        ("cuStreamSynchronize", 1, "waiting on CUDA device 0: expected cuStreamSynchronize"),
    ];
    for (function, skip, text) in cases {
        fail(function, skip, 2);
        let error = measured.measure(request(61, 47, 8)).unwrap_err();
        assert!(error.message.contains(text) && error.kind == Kind::ResourceExhausted, "{error}");
        assert_eq!((pieces(), contexts()), (0, 0));
    }
}

#[test]
fn what_is_written_beside_an_array_is_noticed() {
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    let measured = MeasuredDevice::new(&devices, 2).unwrap();
    overrun();
    let error = measured.measure(request(40, 40, 4)).unwrap_err();
    let expected = "on CUDA device 2: something was written outside an array of 4 bytes; this is a defect of \
                    meshsolve, please report it";
    assert!(error.kind == Kind::Internal && error.message.ends_with(expected), "{error}");
    measured.measure(request(40, 40, 4)).unwrap();
    drop(measured);
    assert_eq!((pieces(), contexts()), (0, 0));
}

/// One wrong bit anywhere is found.
#[test]
fn what_is_wrong_is_noticed() {
    type Number = unsafe extern "C" fn(*mut u8, u64);
    type Check = unsafe extern "C" fn(*const u8, u64, u64, *mut u32);
    let (rows, cols, emulator, mut random) = (9, 7, small(), Random(4));
    for size in SIZES {
        // SAFETY: the parameters of the source, here and below.
        let number: Number = unsafe { emulator.kernel(&format!("number_{size}")) };
        // SAFETY: as above.
        let check: Check = unsafe { emulator.kernel(&format!("check_{size}")) };
        let mut array = Array::new(rows * cols * size, size);
        let data = array.pointer();
        // SAFETY: the array has as many elements.
        emulator.launch(2, 1, || unsafe { number(data, (rows * cols) as u64) });
        let right = transposed(array.content(), rows, cols, size);
        let wrong = |content: &[u8]| {
            let (mut array, mut wrong) = (Array::of(content, size), 0u32);
            let (data, place) = (array.pointer().cast_const(), &raw mut wrong);
            // SAFETY: the array has as many elements, and `place` is valid.
            emulator.launch(2, 1, || unsafe { check(data, rows as u64, cols as u64, place) });
            wrong
        };
        assert_eq!(wrong(&right), 0);
        assert_eq!(wrong(array.content()), 1, "not transposed");
        for _ in 0..20 {
            let mut other = right.clone();
            other[random.below(rows * cols * size)] ^= 1 << random.below(8);
            assert_eq!(wrong(&other), 1);
        }
    }
}
