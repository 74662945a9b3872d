//! Transpositions on a device against the library's own copy, measured with events of the device.
//! It is for benchmarks and tests, which give it its own memory.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

use cudarc::driver::sys;

use meshsolve::device::cuda::device::{Device, Devices};
use meshsolve::device::cuda::handle::{Address, Stream};
use meshsolve::device::cuda::transposition::{scratch_bytes, transpose};
use meshsolve::error::{Error, Kind, Result};
use meshsolve::transpose::{Algorithm, Plan};
use meshsolve::{call, functions};

functions! {
    cuDeviceGetName cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFree_v2 cuStreamCreate cuStreamDestroy_v2
    cuEventCreate cuEventRecord cuEventElapsedTime cuEventDestroy_v2
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub rows: usize,
    pub cols: usize,
    pub element_size: usize,
    /// C2R or R2C; `None`: the offered scratch decides.
    pub forced: Option<Algorithm>,
    pub scratch_bytes: usize,
    pub repeats: usize,
}

#[derive(Clone, Debug)]
pub struct Measured {
    pub plan: Plan,
    pub scratch_bytes: usize,
    /// Seconds of each transposition, and of each copy of one half of the array to the other.
    pub transpositions: Vec<f64>,
    pub copies: Vec<f64>,
}

pub struct MeasuredDevice {
    device: std::sync::Arc<Device>,
    functions: Functions,
    stream: Stream,
}

/// Bytes of canaries before and after the memory in use, and the words they consist of.
const MARGIN: usize = 4096;
const CANARY: u32 = 0x7FA5_A5A5;

/// Memory between canaries; dropping it frees it.
pub struct Guarded<'a> {
    of: &'a MeasuredDevice,
    /// The first allocated address.
    base: Address,
    pub at: Address,
    pub bytes: usize,
}

impl Guarded<'_> {
    /// The addresses of the canaries.
    fn margins(&self) -> [Address; 2] {
        [self.base, self.at + self.bytes as Address]
    }

    /// An error if a canary has changed after the operation `what`.
    pub fn check(&self, what: &str) -> Result<()> {
        let MeasuredDevice { device, stream, .. } = self.of;
        for margin in self.margins() {
            // SAFETY: `allocate` has allocated these bytes.
            let found: [u8; MARGIN] = unsafe { device.read(margin, *stream) }?;
            if found.chunks(4).any(|word| *word != CANARY.to_ne_bytes()) {
                let message = format!(
                    "meshsolve: {what} on {}: something was written outside an array of {} bytes; this is a \
                     defect of meshsolve, please report it",
                    device.name(),
                    self.bytes,
                );
                return Err(Error::new(Kind::Internal, message));
            }
        }
        Ok(())
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        let MeasuredDevice { device, functions, .. } = self.of;
        if let Ok(_entered) = device.enter() {
            // SAFETY: `allocate` has allocated it, and the stream has finished or has failed.
            unsafe { call!(functions, cuMemFree_v2(self.base)) };
        }
    }
}

impl Drop for MeasuredDevice {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: `new` has created it, and nothing uses it any more.
            unsafe { call!(self.functions, cuStreamDestroy_v2(self.stream.raw())) };
        }
    }
}

impl MeasuredDevice {
    pub fn new(devices: &Devices, number: i32) -> Result<MeasuredDevice> {
        let device = devices.numbered(number)?;
        let functions = Functions::of(device.driver().loaded())?;
        let mut stream = null_mut();
        let stream = {
            let _entered = device.enter()?;
            // SAFETY: a valid place for the stream; the flags are 0. Only `drop` destroys it.
            unsafe {
                let status = call!(functions, cuStreamCreate(&mut stream, 0));
                device.check("measuring", "cuStreamCreate", status)?;
                Stream::new(stream)
            }
        };
        Ok(MeasuredDevice { device, functions, stream })
    }

    /// The device's name, and the free bytes of its memory.
    pub fn describe(&self) -> Result<(String, usize)> {
        let _entered = self.device.enter()?;
        let mut name = [0 as c_char; 256];
        let (mut free, mut total) = (0, 0);
        // SAFETY: the places are valid, and `room` is the length of the name's.
        unsafe {
            let (out, room) = (name.as_mut_ptr(), name.len() as c_int);
            let status = call!(self.functions, cuDeviceGetName(out, room, self.device.number()));
            self.device.check("measuring", "cuDeviceGetName", status)?;
            let status = call!(self.functions, cuMemGetInfo_v2(&mut free, &mut total));
            self.device.check("measuring", "cuMemGetInfo", status)?;
            Ok((CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(), free))
        }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// Allocates memory of `bytes` bytes, a multiple of 4, between canaries.
    pub fn allocate(&self, bytes: usize) -> Result<Guarded<'_>> {
        let mut base = 0;
        {
            let _entered = self.device.enter()?;
            // SAFETY: a valid place for the address.
            let status =
                unsafe { call!(self.functions, cuMemAlloc_v2(&mut base, bytes + 2 * MARGIN)) };
            self.device.check(&format!("{bytes} bytes"), "cuMemAlloc", status)?;
        }
        let memory = Guarded { of: self, base, at: base + MARGIN as Address, bytes };
        let words = (MARGIN / 4) as u64;
        for margin in memory.margins() {
            self.launch("fill", "fill_4", &[margin, words, words, 1, CANARY.into()])?;
        }
        Ok(memory)
    }

    /// Seconds between two events around the work that `work` enqueues on the stream.
    fn seconds(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let mut events = [null_mut(); 2];
        let check = |function, status| self.device.check("measuring", function, status);
        let record = |event| {
            let _entered = self.device.enter()?;
            // SAFETY: the event and the stream exist.
            check("cuEventRecord", unsafe {
                call!(self.functions, cuEventRecord(event, self.stream.raw()))
            })
        };
        for event in &mut events {
            let _entered = self.device.enter()?;
            // SAFETY: a valid place for the event; with flags 0 the event records the time.
            check("cuEventCreate", unsafe { call!(self.functions, cuEventCreate(event, 0)) })?;
        }
        let timed = (|| {
            record(events[0])?;
            work()?;
            record(events[1])?;
            self.device.wait(self.stream)?;
            let mut milliseconds = 0.0;
            let _entered = self.device.enter()?;
            // SAFETY: a valid place for the time, and events that the stream has passed. The newer
            // function is not in every driver of CUDA 12.
            let status = unsafe {
                let (time, [from, to]) = (&mut milliseconds, events);
                call!(self.functions, cuEventElapsedTime as cuEventElapsedTime_v2(time, from, to))
            };
            check("cuEventElapsedTime", status)?;
            Ok(f64::from(milliseconds) / 1e3)
        })();
        let _entered = self.device.enter()?;
        for event in events {
            // SAFETY: it was created above, and is not used again.
            unsafe { call!(self.functions, cuEventDestroy_v2(event)) };
        }
        timed
    }

    pub fn launch(&self, file: &'static str, entry: &str, arguments: &[u64]) -> Result<()> {
        let kernel = self.device.kernel(file, entry)?;
        // SAFETY: all callers pass the kernel's arguments, within memory of this device.
        unsafe { self.device.launch(&kernel, arguments, self.stream) }
    }

    fn launch_check(&self, entry: &str, arguments: &[u64]) -> Result<()> {
        let kernel = self.device.kernel_of(&super::CHECK, "check", entry)?;
        // SAFETY: as for `launch`.
        unsafe { self.device.launch(&kernel, arguments, self.stream) }
    }

    /// Checks all transpositions and measures all but the first. It returns an error if an element
    /// is in a wrong place, or a canary next to the array or its scratch has changed.
    pub fn measure(&self, request: Request) -> Result<Measured> {
        let Request { rows, cols, element_size: size, repeats, .. } = request;
        let bytes = rows * cols * size;
        let plan = match request.forced {
            Some(algorithm) => Some(Plan::forced(algorithm, rows, cols, size)),
            None => Plan::on_device(rows, cols, size, request.scratch_bytes),
        };
        let plan = plan.ok_or_else(|| {
            let offered = request.scratch_bytes;
            Error::invalid(format!(
                "meshsolve: {rows} x {cols} of {size} bytes: expected more scratch than {offered} bytes; \
                 9/8 of the array's are always enough"
            ))
        })?;
        let (data, wrong) = (self.allocate(bytes)?, self.allocate(4)?);
        let scratch_bytes = scratch_bytes(&plan, data.at);
        let scratch = self.allocate(scratch_bytes)?;
        let [number, check] = ["number", "check"].map(|name| format!("{name}_{size}"));
        // Seconds of a transposition; a wrong element stays recorded until the end.
        let turn = || {
            self.launch_check(&number, &[data.at, (rows * cols) as u64])?;
            let seconds = self.seconds(|| {
                // SAFETY: memory of these sizes that only this call uses.
                unsafe { transpose(&self.device, &plan, data.at, scratch.at, self.stream) }
            })?;
            self.launch_check(&check, &[data.at, rows as u64, cols as u64, wrong.at])?;
            Ok(seconds)
        };
        let half = bytes / 2 / 16;
        let copy = || {
            let (to, from) = (data.at, data.at + 16 * half as Address);
            self.launch("copy", "copy_16", &[to, from, half as u64])
        };
        let (mut transpositions, mut copies) = (Vec::new(), Vec::new());
        // SAFETY: `wrong` has four bytes.
        unsafe { self.device.clear(wrong.at, 4, self.stream) }?;
        turn()?;
        copy()?;
        for _ in 0..repeats {
            copies.push(self.seconds(copy)?);
            transpositions.push(turn()?);
        }
        // SAFETY: as above.
        if unsafe { self.device.read::<4>(wrong.at, self.stream) }? != [0; 4] {
            let message = format!(
                "meshsolve: {plan} on {}: elements are not where they belong; this is a defect of \
                 meshsolve, please report it",
                self.device.name()
            );
            return Err(Error::new(Kind::Internal, message));
        }
        // The memory may be freed only when no work uses it.
        self.device.wait(self.stream)?;
        [data, scratch, wrong].iter().try_for_each(|m| m.check(&plan.to_string()))?;
        Ok(Measured { plan, scratch_bytes, transpositions, copies })
    }
}
