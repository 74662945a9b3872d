//! A CUDA device in use: its context, its kernels, which are found once and kept, and work on a
//! stream.
//!
//! Functions allocate no memory and wait for no device, except where comments state it. Streams and
//! their contexts are the caller's: XLA, which uses the primary context of each device.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cudarc::driver::sys;

use super::context::{Context, Contexts, DeviceContext, Entered};
use super::driver::Driver;
use super::handle::{Address, Handle, Stream};
use super::load::{call, functions};
use super::nvrtc::Program;
use super::sources;
use super::vendor::nccl::{self, Cliques};
use super::vendor::{self, Libraries};
use crate::error::{Error, Kind, Result};
use crate::settings::{self, Float64};

pub mod queue;
pub mod tools;

use queue::{Lines, Queues};
use tools::Tools;

/// Threads of a block, as in `kernels/common.cuh`.
const THREADS: c_uint = 256;

/// The number of multiprocessors, and the compute capability.
const ATTRIBUTES: [sys::CUdevice_attribute; 3] = [
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
];

type Module = Handle<sys::CUmodule>;

functions! {
    cuDeviceGet cuDevicePrimaryCtxRetain cuDeviceGetAttribute cuStreamGetCtx cuCtxGetDevice
    cuModuleLoadData cuModuleGetFunction cuOccupancyMaxActiveBlocksPerMultiprocessor cuLaunchKernel
    cuMemsetD8Async cuMemcpyDtoDAsync_v2 cuStreamSynchronize cuCtxSynchronize
}

/// Makes a cubin of a kernel's source for an architecture ("sm_90").
pub type Compile = Box<dyn Fn(&Program, &str) -> Result<Vec<u8>> + Send + Sync>;

/// The state that all devices share.
struct Interface {
    contexts: Arc<Contexts>,
    functions: Functions,
    queues: Queues,
    compile: Compile,
    vendor: Vendor,
    /// NCCL communicators, where NCCL transfers panels.
    cliques: Option<Cliques>,
    float64: Math,
    /// By file and architecture.
    cubins: Mutex<HashMap<(&'static str, String), Arc<Cubin>>>,
}

/// How calls that begin now multiply float64.
pub type Math = Box<dyn Fn() -> Float64 + Send + Sync>;

/// A compiled cubin, or an empty one that the owner of the lock compiles.
type Cubin = Mutex<Option<Vec<u8>>>;

/// The vendor's libraries, loaded when they are first needed.
struct Vendor {
    find: vendor::Find,
    found: OnceLock<Result<Libraries>>,
}

/// The devices of a driver that have been used.
pub struct Devices {
    interface: Arc<Interface>,
    /// By context.
    known: Mutex<HashMap<Context, Arc<Device>>>,
}

/// A device through one of its contexts.
pub struct Device {
    interface: Arc<Interface>,
    context: DeviceContext,
    architecture: String,
    multiprocessors: c_uint,
    loaded: Mutex<Loaded>,
    /// Tools that calls have left for the next ones.
    tools: Mutex<Vec<Tools>>,
}

#[derive(Default)]
struct Loaded {
    /// By file.
    modules: HashMap<&'static str, Module>,
    /// By file and entry point.
    kernels: HashMap<(&'static str, String), Kernel>,
}

/// An entry point and the number of blocks of it that a device holds.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: String,
    function: Handle<sys::CUfunction>,
    pub blocks: u32,
}

impl Kernel {
    /// The kernel for a launch on so many blocks.
    pub fn on_blocks(self, blocks: u32) -> Kernel {
        Kernel { blocks, ..self }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Devices {
    /// Calls `compile` once for each file of kernels and architecture, `vendor` once.
    pub fn new(driver: Driver, compile: Compile, vendor: vendor::Find) -> Result<Devices> {
        // All else needs cuInit, which the count of devices calls; the count itself is harmless.
        driver.devices()?;
        let functions = Functions::of(driver.loaded())?;
        let queues = Queues::of(driver.loaded())?;
        let vendor = Vendor { find: vendor, found: OnceLock::new() };
        let interface = Interface {
            contexts: Arc::new(Contexts::new(driver)?),
            functions,
            queues,
            compile,
            vendor,
            cliques: None,
            float64: Box::new(settings::float64),
            cubins: Mutex::default(),
        };
        Ok(Devices { interface: Arc::new(interface), known: Mutex::default() })
    }

    /// The same with panels that NCCL transfers from device to device, where it can be used.
    pub fn with_nccl(mut self, find: nccl::Find) -> Devices {
        let interface = Arc::get_mut(&mut self.interface).expect("no device has been used");
        interface.cliques = Some(Cliques::new(find));
        self
    }

    /// The same with `math` instead of the process's setting of how float64 is multiplied.
    pub fn with_float64(mut self, math: Math) -> Devices {
        Arc::get_mut(&mut self.interface).expect("no device has been used").float64 = math;
        self
    }

    /// The driver's version of CUDA (major, minor).
    pub fn cuda_version(&self) -> (i32, i32) {
        self.interface.contexts.driver().version
    }

    /// The device to which a stream belongs.
    pub fn of_stream(&self, stream: Stream) -> Result<Arc<Device>> {
        let interface = &*self.interface;
        let mut context = null_mut();
        // SAFETY: the stream's maker promises that it exists. Its context is XLA's or of
        // `numbered`, and neither destroys contexts.
        let context = unsafe {
            let status = call!(interface.functions, cuStreamGetCtx(stream.raw(), &mut context));
            interface.contexts.check("a CUDA stream", "cuStreamGetCtx", status)?;
            Handle::new(context)
        };
        self.of_context(context)
    }

    /// The device with this number, through its primary context.
    pub fn numbered(&self, number: i32) -> Result<Arc<Device>> {
        let (interface, what) = (&*self.interface, format!("CUDA device {number}"));
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: writes local variables. This function never releases the context, so it stays as
        // long as the process lives.
        let context = unsafe {
            let status = call!(interface.functions, cuDeviceGet(&mut device, number));
            interface.contexts.check(&what, "cuDeviceGet", status)?;
            let status = call!(interface.functions, cuDevicePrimaryCtxRetain(&mut context, device));
            interface.contexts.check(&what, "cuDevicePrimaryCtxRetain", status)?;
            Handle::new(context)
        };
        self.of_context(context)
    }

    fn of_context(&self, context: Context) -> Result<Arc<Device>> {
        let mut known = locked(&self.known);
        if let Some(device) = known.get(&context) {
            return Ok(device.clone());
        }
        let device = Arc::new(Device::new(self.interface.clone(), context)?);
        known.insert(context, device.clone());
        Ok(device)
    }
}

impl Device {
    fn new(interface: Arc<Interface>, context: Context) -> Result<Device> {
        let (mut number, what) = (0, "a CUDA device");
        let mut values = [0; 3];
        {
            let _entered = interface.contexts.enter(what, context)?;
            let functions = &interface.functions;
            // SAFETY: writes local variables.
            unsafe {
                let status = call!(functions, cuCtxGetDevice(&mut number));
                interface.contexts.check(what, "cuCtxGetDevice", status)?;
                for (value, attribute) in values.iter_mut().zip(ATTRIBUTES) {
                    let status = call!(functions, cuDeviceGetAttribute(value, attribute, number));
                    interface.contexts.check(what, "cuDeviceGetAttribute", status)?;
                }
            }
        }
        let [multiprocessors, major, minor] = values;
        let (architecture, loaded) = (format!("sm_{major}{minor}"), Mutex::default());
        let multiprocessors = multiprocessors as c_uint;
        let tools = Mutex::default();
        let context = DeviceContext::new(interface.contexts.clone(), number, context);
        Ok(Device { interface, context, architecture, multiprocessors, loaded, tools })
    }

    pub fn driver(&self) -> &Driver {
        self.interface.contexts.driver()
    }

    pub fn context(&self) -> &DeviceContext {
        &self.context
    }

    /// cuBLAS and cuSOLVER.
    pub fn vendor(&self) -> Result<&Libraries> {
        let Vendor { find, found } = &self.interface.vendor;
        found.get_or_init(|| find(self.driver())).as_ref().map_err(Clone::clone)
    }

    pub fn cliques(&self) -> Option<&Cliques> {
        self.interface.cliques.as_ref()
    }

    /// How a call that begins now multiplies float64.
    pub fn float64(&self) -> Float64 {
        (self.interface.float64)()
    }

    /// A second stream, handles and events for one call; an earlier call may have left them.
    pub fn tools(self: &Arc<Self>) -> Result<Tools> {
        let left = locked(&self.tools).pop();
        left.map_or_else(|| Tools::new(self), Ok)
    }

    /// Number of kept sets of tools.
    pub fn kept(&self) -> usize {
        locked(&self.tools).len()
    }

    /// Keeps the tools for the next call. All work that used them must be done.
    pub fn keep(&self, tools: Tools) {
        locked(&self.tools).push(tools);
    }

    pub fn number(&self) -> c_int {
        self.context.number()
    }

    /// The device's name in messages.
    pub fn name(&self) -> String {
        self.context.name()
    }

    /// Such as "sm_90".
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// As [`DeviceContext::enter`].
    pub fn enter(&self) -> Result<Entered<'_>> {
        self.context.enter()
    }

    pub fn check(&self, what: &str, function: &str, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => self.interface.contexts.check(
                &format!("{what} on {}", self.name()),
                function,
                status,
            ),
        }
    }

    /// An entry point of `kernels/<file>.cu`. Compiles, loads and finds it at first use.
    pub fn kernel(&self, file: &'static str, entry: &str) -> Result<Kernel> {
        let program = sources::kernel(file).ok_or_else(|| {
            let message = format!(
                "meshsolve: there is no file {file}.cu of kernels; this is a defect of meshsolve"
            );
            Error::new(Kind::Internal, message)
        })?;
        self.kernel_of(program, file, entry)
    }

    /// The same for a program, in the table or not, by a name of its own.
    pub fn kernel_of(
        &self,
        program: &'static Program,
        name: &'static str,
        entry: &str,
    ) -> Result<Kernel> {
        let mut loaded = locked(&self.loaded);
        let key = (name, entry.to_owned());
        if let Some(kernel) = loaded.kernels.get(&key) {
            return Ok(kernel.clone());
        }
        let _entered = self.enter()?;
        let module = match loaded.modules.get(name) {
            Some(module) => *module,
            None => {
                let module = self.load(program, name)?;
                loaded.modules.insert(name, module);
                module
            }
        };
        let kernel = self.find(module, entry)?;
        loaded.kernels.insert(key, kernel.clone());
        Ok(kernel)
    }

    fn load(&self, program: &'static Program, name: &'static str) -> Result<Module> {
        // Equal devices that need it meanwhile wait, and compile nothing.
        let key = (name, self.architecture.clone());
        let cubin = locked(&self.interface.cubins).entry(key).or_default().clone();
        let mut cubin = locked(&cubin);
        let cubin = match &mut *cubin {
            Some(cubin) => cubin,
            none => none.insert((self.interface.compile)(program, &self.architecture)?),
        };
        let mut module = null_mut();
        // SAFETY: `compile` promises an ELF file, which contains its own length; the driver keeps a
        // copy. The library never unloads modules.
        unsafe {
            let cubin = cubin.as_ptr().cast();
            let status = call!(self.interface.functions, cuModuleLoadData(&mut module, cubin));
            self.check(program.name, "cuModuleLoadData", status)?;
            Ok(Handle::new(module))
        }
    }

    fn find(&self, module: Module, entry: &str) -> Result<Kernel> {
        let functions = &self.interface.functions;
        let name = CString::new(entry).map_err(|_| Error::invalid("a name with NUL"))?;
        let (mut function, mut blocks) = (null_mut(), 0);
        // SAFETY: `load` has loaded the module into this context. A function lives as long as its
        // module. The name is a C string; writes local variables.
        let function = unsafe {
            let (out, name) = (&mut function, name.as_ptr());
            let status = call!(functions, cuModuleGetFunction(out, module.raw(), name));
            self.check(entry, "cuModuleGetFunction", status)?;
            let (out, threads) = (&mut blocks, THREADS as c_int);
            let status = call!(
                functions,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads, 0)
            );
            self.check(entry, "cuOccupancyMaxActiveBlocksPerMultiprocessor", status)?;
            Handle::new(function)
        };
        let blocks = blocks.max(1) as u32 * self.multiprocessors;
        Ok(Kernel { name: entry.into(), function, blocks })
    }

    /// Launches a kernel on its blocks: as many as the device holds, or fewer by `on_blocks`. Every
    /// argument has 64 bits; a narrower parameter takes the lower ones.
    ///
    /// # Safety
    /// The arguments match the kernel's parameters in number and types. The memory that they point
    /// to belongs to this work until the stream has done it.
    pub unsafe fn launch(&self, kernel: &Kernel, arguments: &[u64], stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        let places = arguments.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast());
        let mut places: Vec<*mut c_void> = places.collect();
        // SAFETY: the caller promises the arguments, the stream's maker that it exists. The driver
        // reads the arguments before it returns.
        let status = unsafe {
            let (function, stream) = (kernel.function.raw(), stream.raw());
            let (blocks, arguments) = (kernel.blocks, places.as_mut_ptr());
            call!(
                self.interface.functions,
                cuLaunchKernel(
                    function,
                    blocks,
                    1,
                    1,
                    THREADS,
                    1,
                    1,
                    0,
                    stream,
                    arguments,
                    null_mut()
                )
            )
        };
        self.check(&kernel.name, "cuLaunchKernel", status)
    }

    /// Sets bytes to zero.
    ///
    /// # Safety
    /// The bytes are memory of the device that no other work uses until the stream has done this.
    pub unsafe fn clear(&self, at: Address, bytes: usize, stream: Stream) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let _entered = self.enter()?;
        // SAFETY: the caller promises the bytes, the stream's maker that it exists.
        let status =
            unsafe { call!(self.interface.functions, cuMemsetD8Async(at, 0, bytes, stream.raw())) };
        self.check("clearing memory", "cuMemsetD8Async", status)
    }

    /// Copies bytes within the device's memory.
    ///
    /// # Safety
    /// Both ranges have so many bytes and do not overlap. Otherwise as for [`Device::clear`].
    pub unsafe fn copy(
        &self,
        to: Address,
        from: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller promises both ranges, the stream's maker that it exists.
        let status = unsafe {
            call!(self.interface.functions, cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()))
        };
        self.check("copying", "cuMemcpyDtoDAsync", status)
    }

    /// Reads bytes of the device's memory, after waiting for all work of the stream.
    ///
    /// # Safety
    /// N bytes exist at `from`.
    pub unsafe fn read<const N: usize>(&self, from: Address, stream: Stream) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let line = Lines { at: from, pitch: N };
        // SAFETY: the caller promises N bytes; the array has room.
        unsafe { self.read_lines(line, N, 1, bytes.as_mut_ptr(), stream)? };
        Ok(bytes)
    }

    /// Waits until the device has done all its work, from every source.
    pub fn finish(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: no precondition.
        let status = unsafe { call!(self.interface.functions, cuCtxSynchronize()) };
        self.check("waiting", "cuCtxSynchronize", status)
    }

    /// Waits until a stream of the device has done all its work.
    pub fn wait(&self, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the stream's maker promises that it exists.
        let status = unsafe { call!(self.interface.functions, cuStreamSynchronize(stream.raw())) };
        self.check("waiting", "cuStreamSynchronize", status)
    }
}
