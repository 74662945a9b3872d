//! The library's devices on the emulated driver (`driver.cc`).

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUstream;
use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::driver::Driver;
use meshsolve::device::cuda::handle::Stream;
use meshsolve::device::cuda::vendor::Libraries;
use meshsolve::device::cuda::vendor::nccl::Nccl;

use crate::kernels::emulator::full;

/// Allocations are counted for all threads: only one test at a time may allocate memory.
pub static ALONE: Mutex<()> = Mutex::new(());

/// Unused devices, and the number of compilations of a kernel for them.
pub fn devices() -> (Devices, Arc<AtomicUsize>) {
    let compiled = Arc::new(AtomicUsize::new(0));
    let count = compiled.clone();
    let devices = Devices::new(
        Driver::at(full().path()).expect("the emulated driver"),
        Box::new(move |program, arch| {
            assert_eq!(arch, "sm_90");
            count.fetch_add(1, Relaxed);
            // The emulated driver's form of a cubin.
            Ok(format!("{}\0", program.name.trim_end_matches(".cu")).into_bytes())
        }),
        Box::new(|_| Libraries::at(full().path(), full().path(), full().path())),
    );
    (devices.expect("the driver works"), compiled)
}

/// The same, with panels by the emulated NCCL.
pub fn devices_with_nccl() -> Devices {
    devices().0.with_nccl(Box::new(|| Nccl::at(full().path())))
}

pub fn stream(device: i32) -> Stream {
    // SAFETY: the type of the function in `driver.cc`, here and below.
    let make: unsafe extern "C" fn(i32) -> CUstream = unsafe { full().kernel("emulated_stream") };
    // SAFETY: the only precondition, here and below, is one of the three devices. The emulated
    // driver never destroys this stream.
    unsafe { Stream::new(make(device)) }
}

/// The stream's next work takes this long.
pub fn delay(stream: Stream, milliseconds: i32) {
    // SAFETY: as above.
    let delay: unsafe extern "C" fn(CUstream, i32) -> i32 =
        unsafe { full().kernel("emulated_delay") };
    // SAFETY: a stream of the emulated driver.
    assert_eq!(unsafe { delay(stream.raw(), milliseconds) }, 0);
}

/// Lets this thread's call of `function` after `skip` others fail.
pub fn fail(function: &str, skip: i32, status: i32) {
    type Fail = unsafe extern "C" fn(*const c_char, i32, i32);
    // SAFETY: as above.
    let fail: Fail = unsafe { full().kernel("emulated_failure") };
    let name = CString::new(function).expect("a name");
    // SAFETY: a C string, which the callee copies.
    unsafe { fail(name.as_ptr(), skip, status) };
}

/// Devices that this thread uses first have another compute capability.
pub fn capability(major: i32) {
    // SAFETY: as above.
    let set: unsafe extern "C" fn(i32) = unsafe { full().kernel("emulated_capability") };
    // SAFETY: no precondition.
    unsafe { set(major) };
}

/// This thread's next clearing of memory clears a byte too many.
pub fn overrun() {
    // SAFETY: as above.
    let set: unsafe extern "C" fn() = unsafe { full().kernel("emulated_overrun") };
    // SAFETY: no precondition.
    unsafe { set() };
}

/// The entry points that this thread has launched since the last query.
pub fn launches() -> Vec<String> {
    // SAFETY: as above.
    let list: unsafe extern "C" fn() -> *const c_char =
        unsafe { full().kernel("emulated_launches") };
    // SAFETY: a string that lives until this thread's next query.
    let lines = unsafe { CStr::from_ptr(list()) }.to_str().expect("names");
    lines.lines().map(str::to_owned).collect()
}

/// The functions that this thread has called since the last query; the first query starts the
/// record.
pub fn calls() -> Vec<String> {
    // SAFETY: as above.
    let list: unsafe extern "C" fn() -> *const c_char = unsafe { full().kernel("emulated_calls") };
    // SAFETY: a string that lives until this thread's next query.
    let lines = unsafe { CStr::from_ptr(list()) }.to_str().expect("names");
    lines.lines().map(str::to_owned).collect()
}

/// Sets whether kernels of a device may access this address, in memory that is mapped address by
/// address.
pub fn access(at: u64, device: i32, may: bool) {
    // SAFETY: as above.
    let set: unsafe extern "C" fn(u64, i32, i32) = unsafe { full().kernel("emulated_access") };
    // SAFETY: no precondition.
    unsafe { set(at, device, i32::from(may)) };
}

/// Allocations of the devices' memory that are not freed.
pub fn pieces() -> i32 {
    // SAFETY: as above.
    let count: unsafe extern "C" fn() -> i32 = unsafe { full().kernel("emulated_pieces") };
    // SAFETY: no precondition.
    unsafe { count() }
}

/// The number of contexts that this thread has entered and not left.
pub fn contexts() -> i32 {
    // SAFETY: as above.
    let count: unsafe extern "C" fn() -> i32 = unsafe { full().kernel("emulated_contexts") };
    // SAFETY: no precondition.
    unsafe { count() }
}
