//! The border between the C++ shim and the library: XLA's call frame as plain data, nothing else.
//! Every entry from C++ catches panics, because a panic in an `extern "Rust"` function aborts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cxx::UniquePtr;

use crate::call::{Attributes, Buffer, Call};
use crate::error::{Error, Kind, Result};
use crate::rendezvous::{Arrival, CallSite};
use crate::scalar::DType;

#[cxx::bridge(namespace = "meshsolve")]
pub mod ffi {
    /// An XLA buffer.
    struct RawBuffer {
        address: usize,
        dtype: i32,
        dims: Vec<i64>,
    }

    /// 0, or the number of an XLA status code, with its message.
    struct Status {
        code: i32,
        message: String,
    }

    extern "Rust" {
        type Instance;
        fn new_instance(attributes: &AttributeReader) -> Box<Instance>;
        fn status(self: &Instance) -> Status;
        fn arrive(
            self: &Instance,
            run: i64,
            device: i32,
            args: Vec<RawBuffer>,
            rets: Vec<RawBuffer>,
            completion: UniquePtr<Completion>,
        );
    }

    unsafe extern "C++" {
        include!("meshsolve/ffi/handlers.h");

        type AttributeReader;
        fn get_int(self: &AttributeReader, name: &str, value: &mut i64) -> bool;
        fn get_text(self: &AttributeReader, name: &str, value: &mut String) -> bool;
        fn count(self: &AttributeReader) -> usize;

        /// The promise of one device. Dropped without an outcome it reports a defect.
        type Completion;
        fn complete(self: Pin<&mut Completion>, code: i32, message: &str);

        /// Address of a handler or type record by name; 0 if there is none of that name.
        fn symbol(name: &str) -> usize;
        fn ffi_api_version() -> i32;
    }
}

// SAFETY: a promise is a shared state with atomic completion; XLA completes futures from any thread.
unsafe impl Send for ffi::Completion {}

impl Attributes for ffi::AttributeReader {
    fn int(&self, name: &str) -> Option<i64> {
        let mut value = 0;
        self.get_int(name, &mut value).then_some(value)
    }
    fn text(&self, name: &str) -> Option<String> {
        let mut value = String::new();
        self.get_text(name, &mut value).then_some(value)
    }
    fn count(&self) -> usize {
        self.count()
    }
}

/// XLA's instance state of one call site.
pub struct Instance(Result<CallSite>);

fn new_instance(attributes: &ffi::AttributeReader) -> Box<Instance> {
    let site = catch_unwind(AssertUnwindSafe(|| CallSite::new(attributes)))
        .unwrap_or_else(|panic| Err(Error::from_panic("reading attributes", &*panic)));
    Box::new(Instance(site))
}

impl Instance {
    fn status(&self) -> ffi::Status {
        match &self.0 {
            Ok(_) => ffi::Status { code: 0, message: String::new() },
            Err(e) => ffi::Status { code: xla_code(e.kind), message: e.message.clone() },
        }
    }

    fn arrive(
        &self,
        run: i64,
        device: i32,
        args: Vec<ffi::RawBuffer>,
        rets: Vec<ffi::RawBuffer>,
        mut completion: UniquePtr<ffi::Completion>,
    ) {
        let taken = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
            let site = self.0.as_ref().map_err(Clone::clone)?;
            let (place, args) = args
                .split_first()
                .ok_or_else(|| Error::invalid("meshsolve: expected the operand `place` first"))?;
            let (rank, group) = read_place(&buffer(place)?)?;
            let args = args.iter().map(buffer).collect::<Result<_>>()?;
            let rets = rets.iter().map(buffer).collect::<Result<_>>()?;
            let call = Call { rank, device, args, rets };
            let mut completion = std::mem::replace(&mut completion, UniquePtr::null());
            let reply = Box::new(move |outcome: Result<()>| answer(&mut completion, outcome));
            site.arrive(run, group, Arrival { call, reply });
            Ok(())
        }));
        let failure = taken.unwrap_or_else(|p| Err(Error::from_panic("taking a call", &*p)));
        if failure.is_err() && !completion.is_null() {
            answer(&mut completion, failure);
        }
    }
}

fn answer(completion: &mut UniquePtr<ffi::Completion>, outcome: Result<()>) {
    if let Some(completion) = completion.as_mut() {
        match outcome {
            Ok(()) => completion.complete(0, ""),
            Err(e) => completion.complete(xla_code(e.kind), &e.message),
        }
    }
}

fn buffer(raw: &ffi::RawBuffer) -> Result<Buffer> {
    let dtype = DType::from_xla(raw.dtype).ok_or_else(|| {
        Error::invalid(format!(
            "meshsolve: an operand or result has XLA's element type {}; expected int32, int64, \
             uint32, uint64, float32, float64, complex64 or complex128",
            raw.dtype
        ))
    })?;
    let dims = raw.dims.iter().map(|&d| d as usize).collect();
    Ok(Buffer { ptr: raw.address as *mut u8, dtype, dims })
}

/// `place`: int32[2] with the rank along the mesh axis and the group of the call.
fn read_place(place: &Buffer) -> Result<(usize, i64)> {
    place.check("ffi_target", "operand `place`", DType::S32, &[2])?;
    // SAFETY: two int32 in host memory (checked), alive during the call.
    let [rank, group] = unsafe { place.ptr.cast::<[i32; 2]>().read_unaligned() };
    // A negative rank becomes one past every world and is refused by name there.
    Ok((rank as usize, group.into()))
}

fn xla_code(kind: Kind) -> i32 {
    match kind {
        Kind::Cancelled => 1,
        Kind::InvalidArgument => 3,
        Kind::DeadlineExceeded => 4,
        Kind::ResourceExhausted => 8,
        Kind::FailedPrecondition => 9,
        Kind::Internal => 13,
    }
}
