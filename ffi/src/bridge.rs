//! The border between the C++ shim and the library: XLA's call frame as plain data. Every entry
//! from C++ catches panics, because a panic in an `extern "Rust"` function aborts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use cxx::UniquePtr;

use meshsolve::embedding::{
    Allocate, Arrival, Attributes, Buffer, Call, CallSite, CudaArrival, CudaSite, DType, Error,
    Kind, Result, Stream, process,
};

#[cxx::bridge(namespace = "meshsolve")]
pub mod ffi {
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

        type CudaInstance;
        fn new_cuda_instance(attributes: &AttributeReader) -> Box<CudaInstance>;
        fn status(self: &CudaInstance) -> Status;
        fn run(
            self: &CudaInstance,
            run: i64,
            device: i32,
            stream: usize,
            scratch: Pin<&mut Scratch>,
            args: Vec<RawBuffer>,
            rets: Vec<RawBuffer>,
        ) -> Status;
    }

    unsafe extern "C++" {
        include!("meshsolve-ffi/handlers.h");

        type AttributeReader;
        fn get_int(self: &AttributeReader, name: &str, value: &mut i64) -> bool;
        fn get_text(self: &AttributeReader, name: &str, value: &mut String) -> bool;
        fn count(self: &AttributeReader) -> usize;

        /// The promise of one device. Dropped without an outcome, it reports a defect.
        type Completion;
        fn complete(self: Pin<&mut Completion>, code: i32, message: &str);

        /// A device's memory for scratch, valid until the handler returns; 0 if the memory is too
        /// small.
        type Scratch;
        fn allocate(self: Pin<&mut Scratch>, bytes: usize, alignment: usize) -> usize;

        /// Address of a handler or type record by name; 0 for an unknown name.
        fn symbol(name: &str) -> usize;
        fn ffi_api_version() -> i32;
    }
}

// SAFETY: a promise is a shared state with atomic completion. XLA completes futures from any
// thread.
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

/// The result of `work`. A panic in it becomes an error, since it must not reach C++.
fn caught<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::from_panic(what, &*panic)))
}

/// XLA's instance state of one call site.
pub struct Instance(Result<CallSite>);

fn new_instance(attributes: &ffi::AttributeReader) -> Box<Instance> {
    Box::new(Instance(caught("reading attributes", || CallSite::new(attributes))))
}

impl Instance {
    fn status(&self) -> ffi::Status {
        status(self.0.as_ref())
    }

    fn arrive(
        &self,
        run: i64,
        device: i32,
        args: Vec<ffi::RawBuffer>,
        rets: Vec<ffi::RawBuffer>,
        mut completion: UniquePtr<ffi::Completion>,
    ) {
        let taken = caught("taking a call", || {
            let site = self.0.as_ref().map_err(Clone::clone)?;
            let (place, args, rets) = buffers(&args, &rets)?;
            let (rank, group, ticket) = read_place(&place)?;
            let call = Call::new(rank, device, args, rets);
            let mut completion = std::mem::replace(&mut completion, UniquePtr::null());
            let reply = Box::new(move |outcome: Result<()>| answer(&mut completion, outcome));
            site.arrive(run, group, ticket, Arrival { call, reply });
            Ok(())
        });
        if taken.is_err() && !completion.is_null() {
            answer(&mut completion, taken);
        }
    }
}

/// XLA's instance state of one call site on CUDA devices.
pub struct CudaInstance(Result<CudaSite>);

fn new_cuda_instance(attributes: &ffi::AttributeReader) -> Box<CudaInstance> {
    Box::new(CudaInstance(caught("reading attributes", || CudaSite::new(attributes))))
}

impl CudaInstance {
    fn status(&self) -> ffi::Status {
        status(self.0.as_ref())
    }

    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        run: i64,
        device: i32,
        stream: usize,
        mut scratch: Pin<&mut ffi::Scratch>,
        args: Vec<ffi::RawBuffer>,
        rets: Vec<ffi::RawBuffer>,
    ) -> ffi::Status {
        let done = caught("taking a call", || {
            let site = self.0.as_ref().map_err(Clone::clone)?;
            let (place, args, rets) = buffers(&args, &rets)?;
            let stream = std::ptr::without_provenance_mut(stream);
            // SAFETY: XLA's stream of this call, which it keeps as long as work on it may run.
            let (stream, scratch) = (unsafe { Stream::new(stream) }, &mut scratch);
            let arrival = CudaArrival { run, device, stream, scratch, place, args, rets };
            site.run(process::devices()?, arrival)
        });
        let done = match (done, &self.0) {
            (Err(error), Ok(site)) => Err(site.fail(run, error)),
            (done, _) => done,
        };
        status(done.as_ref())
    }
}

/// XLA's alignment of scratch.
const SCRATCH_ALIGNMENT: usize = 16;

impl Allocate for Pin<&mut ffi::Scratch> {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        match ffi::Scratch::allocate(self.as_mut(), bytes, SCRATCH_ALIGNMENT) {
            0 => None,
            address => Some(address as u64),
        }
    }
}

fn status<T>(result: std::result::Result<T, &Error>) -> ffi::Status {
    match result {
        Ok(_) => ffi::Status { code: 0, message: String::new() },
        Err(e) => ffi::Status { code: xla_code(e.kind), message: e.message.clone() },
    }
}

/// Splits into `place`, the other operands, the results.
fn buffers(
    args: &[ffi::RawBuffer],
    rets: &[ffi::RawBuffer],
) -> Result<(Buffer, Vec<Buffer>, Vec<Buffer>)> {
    let (place, args) = args
        .split_first()
        .ok_or_else(|| Error::invalid("meshsolve: expected the operand `place` first"))?;
    let all = |list: &[ffi::RawBuffer]| list.iter().map(buffer).collect::<Result<Vec<_>>>();
    Ok((buffer(place)?, all(args)?, all(rets)?))
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
    // SAFETY: *memory*, promised by XLA: an operand or result of the call, until its reply.
    Ok(unsafe { Buffer::new(raw.address as *mut u8, dtype, dims) })
}

/// `place`: int32[2] with the rank along the mesh axis and the group of the call; over processes also
/// its ticket, in int32[3].
fn read_place(place: &Buffer) -> Result<(usize, i64, Option<i32>)> {
    let has_ticket = place.dims() == [3];
    place.check(
        "ffi_target",
        "operand `place`",
        DType::S32,
        if has_ticket { &[3] } else { &[2] },
    )?;
    // SAFETY: so many int32 in host memory (checked). XLA keeps them alive during the call.
    let [rank, group] = unsafe { place.as_ptr().cast::<[i32; 2]>().read_unaligned() };
    let third = place.as_ptr().cast::<i32>().wrapping_add(2);
    // SAFETY: the same.
    let ticket = has_ticket.then(|| unsafe { third.read_unaligned() });
    // A negative rank becomes one beyond every world. The rendezvous refuses it by name.
    Ok((rank as usize, group.into(), ticket))
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
