//! Launches of kernels on the emulated driver: loading, arguments, streams, errors.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::driver::Driver;
use meshsolve::device::cuda::handle::Stream;
use meshsolve::device::cuda::transposition::{scratch_bytes, transpose};
use meshsolve::error::{Error, Kind, Result};
use meshsolve::transpose::{Algorithm, Plan};

use crate::kernels::gpu::{contexts, devices, fail, launches, stream};
use crate::kernels::memory::Array;
use crate::transposition::{Random, SIZES, transposed};

/// An array, scratch of exactly the promised size, and the expected result.
struct Case {
    plan: Plan,
    memory: Array,
    scratch: Array,
    before: Vec<u8>,
}

impl Case {
    fn new(plan: Plan) -> Self {
        let (rows, cols, size) = (plan.rows(), plan.cols(), plan.element_size());
        let mut memory =
            Array::random(rows * cols * size, size, &mut Random((rows * 99 + cols) as u64 + 1));
        let before = memory.content().to_vec();
        let scratch =
            Array::random(scratch_bytes(&plan, memory.pointer().addr() as u64), 16, &mut Random(7));
        Case { plan, memory, scratch, before }
    }

    fn start(&mut self, devices: &Devices, stream: Stream) -> Result<()> {
        let device = devices.of_stream(stream)?;
        let [data, scratch] =
            [&mut self.memory, &mut self.scratch].map(|array| array.pointer().addr() as u64);
        // SAFETY: memory of the plan's size, which lives until the stream has finished.
        unsafe { transpose(&device, &self.plan, data, scratch, stream) }
    }

    fn check(&self) {
        let (rows, cols, size) = (self.plan.rows(), self.plan.cols(), self.plan.element_size());
        let right = self.memory.content() == transposed(&self.before, rows, cols, size);
        assert!(right, "{}", self.plan);
        self.memory.check("transpose");
        self.scratch.check("transpose");
    }
}

fn plans() -> Vec<Plan> {
    let shapes = [
        (Algorithm::Trivial, 1, 9),
        (Algorithm::Square, 67, 67),
        (Algorithm::Blocks { side: 6 }, 12, 18),
        (Algorithm::Panel { height: 9 }, 29, 31),
        (Algorithm::Skinny { height: 8 }, 83, 5),
        (Algorithm::Skinny { height: 8 }, 5, 83),
        (Algorithm::C2r, 48, 36),
        (Algorithm::R2c, 48, 35),
    ];
    let plan = |size: usize| shapes.map(|(how, m, n)| Plan::forced(how, m, n, size));
    SIZES.into_iter().flat_map(plan).collect()
}

#[test]
fn plans_on_a_stream() {
    let (devices, _) = devices();
    for (k, plan) in plans().into_iter().enumerate() {
        let stream = stream(k as i32 % 3);
        let mut case = Case::new(plan);
        launches();
        case.start(&devices, stream).unwrap();
        let expected: Vec<_> = case.plan.launches(256).iter().map(|l| l.name).collect();
        let launched = launches();
        let same = launched.iter().zip(&expected).all(|(got, name)| got.starts_with(name));
        assert!(same && launched.len() == expected.len(), "{launched:?} for {expected:?}");
        assert!(case.memory.content() == case.before, "the stream works when it is waited for");
        devices.of_stream(stream).unwrap().wait(stream).unwrap();
        case.check();
        assert_eq!(contexts(), 0, "the thread has the context it had");
    }
}

/// One after the other on one stream, without a wait in between.
#[test]
fn two_plans_on_one_stream() {
    let (devices, stream) = (devices().0, stream(0));
    let mut case = Case::new(Plan::forced(Algorithm::Panel { height: 9 }, 29, 31, 8));
    case.start(&devices, stream).unwrap();
    case.plan = Plan::forced(Algorithm::Panel { height: 9 }, 31, 29, 8);
    case.start(&devices, stream).unwrap();
    devices.of_stream(stream).unwrap().wait(stream).unwrap();
    assert!(case.memory.content() == case.before, "twice is the identity");
}

/// Several devices need a file at the same time.
#[test]
fn one_thread_compiles_and_the_others_wait() {
    let (devices, compiled) = devices();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let devices = &devices;
            scope.spawn(move || {
                devices.numbered(number).unwrap().kernel("fill", "fill_4").unwrap();
            });
        }
    });
    assert_eq!(compiled.load(Relaxed), 1);
}

#[test]
fn files_are_compiled_once_for_each_architecture() {
    let (devices, compiled) = devices();
    for (device, size, expected) in [(0, 4, 1), (0, 8, 1), (0, 4, 1), (1, 8, 1), (1, 8, 1)] {
        let stream = stream(device);
        let mut case = Case::new(Plan::forced(Algorithm::Square, 5, 5, size));
        case.start(&devices, stream).unwrap();
        devices.of_stream(stream).unwrap().wait(stream).unwrap();
        case.check();
        assert_eq!(compiled.load(Relaxed), expected);
    }
    // The primary context identifies the device.
    assert_eq!(devices.numbered(1).unwrap().name(), "CUDA device 1");
    devices.numbered(1).unwrap().kernel("transpose_square", "transpose_square_8").unwrap();
    assert_eq!(compiled.load(Relaxed), 1);
    assert_eq!(devices.numbered(2).unwrap().architecture(), "sm_90");
}

#[test]
fn what_is_read_has_been_waited_for() {
    let (devices, stream) = (devices().0, stream(2));
    let device = devices.of_stream(stream).unwrap();
    let (mut x, mut y) = (Array::random(8, 8, &mut Random(5)), Array::new(8, 8));
    let [from, to] = [&mut x, &mut y].map(|array| array.pointer().addr() as u64);
    // SAFETY: eight bytes each.
    let read: [u8; 8] = unsafe {
        device.copy(to, from, 8, stream).unwrap();
        device.clear(from, 4, stream).unwrap();
        device.read(to, stream).unwrap()
    };
    assert_eq!(read, y.content());
    assert_eq!((&x.content()[..4], &x.content()[4..]), (&[0; 4][..], &read[4..]));
}

const AFTER: &str = "; an error of work that was given to the device before may show only here: run the \
    program with CUDA_LAUNCH_BLOCKING=1. If it is meshsolve's, please report it";

#[test]
fn errors_of_the_driver() {
    let invalid = "400 CUDA_ERROR_INVALID_HANDLE (invalid resource handle)";
    let cases = [
        ("cuStreamGetCtx", 0, 400, format!("a CUDA stream: expected cuStreamGetCtx to succeed, got {invalid}{AFTER}")),
        ("cuCtxPushCurrent_v2", 0, 201, format!("a CUDA device: expected cuCtxPushCurrent to succeed, got 201 CUDA_ERROR_INVALID_CONTEXT (invalid device context){AFTER}")),
        ("cuDeviceGetAttribute", 1, 400, format!("a CUDA device: expected cuDeviceGetAttribute to succeed, got {invalid}{AFTER}")),
        ("cuModuleLoadData", 0, 200, format!("transpose_blocks.cu on CUDA device 1: expected cuModuleLoadData to succeed, got 200 CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid){AFTER}")),
        ("cuModuleGetFunction", 1, 500, format!("move_segments_16 on CUDA device 1: expected cuModuleGetFunction to succeed, got 500 CUDA_ERROR_NOT_FOUND (named symbol not found){AFTER}")),
        ("cuMemsetD8Async", 0, 1, format!("clearing memory on CUDA device 1: expected cuMemsetD8Async to succeed, got 1 CUDA_ERROR_INVALID_VALUE (invalid argument){AFTER}")),
        ("cuLaunchKernel", 0, 999, format!("transpose_blocks_8 on CUDA device 1: expected cuLaunchKernel to succeed, got 999 unknown error (){AFTER}")),
        ("cuLaunchKernel", 1, 2, "move_segments_16 on CUDA device 1: expected cuLaunchKernel to succeed, got 2 CUDA_ERROR_OUT_OF_MEMORY (out of memory); free memory of the device: other processes' is in nvidia-smi, JAX's in device.memory_stats()".into()),
    ];
    for (function, skip, status, expected) in cases {
        let ((devices, _), stream) = (devices(), stream(1));
        let mut case = Case::new(Plan::forced(Algorithm::Blocks { side: 2 }, 4, 6, 8));
        case.memory = Array::of(&case.before, 16);
        launches();
        fail(function, skip, status);
        let error = case.start(&devices, stream).unwrap_err();
        assert_eq!(error.message, format!("meshsolve: {expected}"));
        let kind = if status == 2 { Kind::ResourceExhausted } else { Kind::Internal };
        assert_eq!(error.kind, kind);
        let done = if function == "cuLaunchKernel" { skip as usize } else { launches().len() };
        assert!(done <= 1, "nothing is launched after what failed");
        assert_eq!(contexts(), 0);
        // The next call works, with kernels loaded before or again.
        let mut case = Case::new(Plan::forced(Algorithm::Blocks { side: 2 }, 4, 6, 8));
        let again = crate::kernels::gpu::stream(1);
        case.start(&devices, again).unwrap();
        devices.of_stream(again).unwrap().wait(again).unwrap();
        case.check();
    }
}

#[test]
fn errors_of_work_come_when_it_is_waited_for() {
    let ((devices, _), stream) = (devices(), stream(0));
    let device = devices.of_stream(stream).unwrap();
    fail("cuStreamSynchronize", 0, 719);
    // SAFETY: it reads nothing.
    let error = unsafe { device.read::<0>(8, stream) }.unwrap_err();
    let expected = "meshsolve: waiting on CUDA device 0: expected cuStreamSynchronize to succeed, got 719 \
                    CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)";
    assert_eq!(error.message, format!("{expected}{AFTER}"));
}

#[test]
fn what_there_is_not() {
    let (devices, _) = devices();
    let message = |result: Result<()>| result.expect_err("refused").message;
    let none = message(devices.numbered(3).map(drop));
    let expected = "meshsolve: CUDA device 3: expected cuDeviceGet to succeed, got 101 \
                    CUDA_ERROR_INVALID_DEVICE (invalid device ordinal)";
    assert_eq!(none, format!("{expected}{AFTER}"));
    let device = devices.numbered(0).unwrap();
    let error = message(device.kernel("copy", "copy_5").map(drop));
    let expected = "copy_5 on CUDA device 0: expected cuModuleGetFunction to succeed, got 500";
    assert!(error.contains(expected), "{error}");
    let error = message(device.kernel("copies", "copy_4").map(drop));
    assert!(error.contains("there is no file copies.cu of kernels"), "{error}");
    // The stream of another device.
    let kernel = device.kernel("copy", "copy_4").unwrap();
    // SAFETY: three arguments; nothing is copied.
    let error = message(unsafe { device.launch(&kernel, &[0, 0, 0], stream(1)) });
    let expected = "copy_4 on CUDA device 0: expected cuLaunchKernel to succeed, got 400";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn errors_of_the_compiler_are_passed_on() {
    let driver = Driver::at(crate::kernels::emulator::full().path()).unwrap();
    let refuse = Error::new(Kind::FailedPrecondition, "no compiler");
    let expected = refuse.clone();
    let devices = Devices::new(
        driver,
        Box::new(move |_, _| Err(refuse.clone())),
        Box::new(|_| unreachable!()),
    )
    .unwrap();
    let error = devices.numbered(0).unwrap().kernel("copy", "copy_4").unwrap_err();
    assert_eq!(error, expected);
}

#[test]
fn drivers_that_do_not_work() {
    let error = Driver::at(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
    let expected = "meshsolve: NVIDIA driver: expected a library that loads, got /nowhere/libcuda.so.1: \
                    cannot open shared object file: No such file or directory; install the driver of the \
                    GPU; in a container, start it with the GPUs (for Docker --gpus all). Without a GPU \
                    nothing is missing: meshsolve works on CPU devices";
    assert_eq!((error.kind, &*error.message), (Kind::FailedPrecondition, expected));
    let driver = Driver::at(crate::kernels::emulator::full().path()).unwrap();
    fail("cuInit", 0, 3);
    let error = Devices::new(driver, Box::new(|_, _| unreachable!()), Box::new(|_| unreachable!()))
        .err()
        .unwrap();
    assert!(
        error.message.contains("expected cuInit to succeed, got 3 CUDA_ERROR_NOT_INITIALIZED"),
        "{error}"
    );
}
