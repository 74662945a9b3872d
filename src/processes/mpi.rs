//! MPI without its headers. Open MPI and the implementations with MPICH's binary interface (MPICH,
//! Intel MPI, Cray MPICH) differ in their handles: addresses of objects, or integers with fixed
//! values. Both pass as a word of an address' size.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use bytemuck::Pod;

use super::library::{self, functions};
use super::moves::Transport;
use crate::error::{Error, Kind, Result};
use crate::scalar::{DType, Scalar};

/// A communicator, a type or an operation.
type Handle = usize;

functions!(Functions {
    initialized = "Initialized"(*mut c_int);
    finalized = "Finalized"(*mut c_int);
    init_thread = "Init_thread"(*mut c_int, *mut c_void, c_int, *mut c_int);
    query_thread = "Query_thread"(*mut c_int);
    finalize = "Finalize"();
    abort = "Abort"(Handle, c_int);
    version = "Get_library_version"(*mut c_char, *mut c_int);
    rank = "Comm_rank"(Handle, *mut c_int);
    size = "Comm_size"(Handle, *mut c_int);
    split = "Comm_split"(Handle, c_int, c_int, *mut Handle);
    bcast = "Bcast"(*mut c_void, c_int, Handle, c_int, Handle);
    ibcast = "Ibcast"(*mut c_void, c_int, Handle, c_int, Handle, *mut Handle);
    test = "Test"(*mut Handle, *mut c_int, *mut c_void);
    wait = "Wait"(*mut Handle, *mut c_void);
    isend = "Isend"(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    request_free = "Request_free"(*mut Handle);
    iprobe = "Iprobe"(c_int, c_int, Handle, *mut c_int, *mut c_void);
    recv = "Recv"(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut c_void);
    allreduce = "Allreduce"(*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    allgather = "Allgather"(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    alltoallv = "Alltoallv"(
        *const c_void, *const c_int, *const c_int, Handle,
        *mut c_void, *const c_int, *const c_int, Handle, Handle,
    );
});

/// Thread levels of the standard. MPI is used by one thread at a time, which need not be the main one.
const SERIALIZED: c_int = 2;
const MULTIPLE: c_int = 3;
/// At least the size of any implementation's `MPI_Status`.
type Status = [u64; 8];
/// At least the length of any implementation's text.
const LONGEST_VERSION: usize = 8192;

/// The functions of the MPI that is loaded, and its handles.
#[derive(Clone, Copy)]
pub struct Mpi {
    of: Functions,
    world: Handle,
    byte: Handle,
    float: Handle,
    double: Handle,
    sum: Handle,
}

impl Mpi {
    /// The MPI whose names are global.
    pub fn find() -> Result<Mpi> {
        let of = Functions::load("MPI_")?;
        let address = |name: &str| library::expect(name).map(|at| at.as_ptr().addr());
        if library::find("ompi_mpi_comm_world").is_none() {
            // MPICH's fixed values.
            return Ok(Mpi {
                of,
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                float: 0x4c00_040a,
                double: 0x4c00_080b,
                sum: 0x5800_0003,
            });
        }
        Ok(Mpi {
            of,
            world: address("ompi_mpi_comm_world")?,
            byte: address("ompi_mpi_byte")?,
            float: address("ompi_mpi_float")?,
            double: address("ompi_mpi_double")?,
            sum: address("ompi_mpi_op_sum")?,
        })
    }

    /// Starts MPI unless the program has. Returns whether it did, and whether several threads may call
    /// MPI at once.
    pub fn begin(&self) -> Result<(bool, bool)> {
        if self.is_over()? {
            return Err(over());
        }
        let (mut has_begun, mut level) = (0, 0);
        // SAFETY: MPI's functions, with the places that they fill.
        let status = unsafe {
            (self.of.initialized)(&mut has_begun);
            match has_begun {
                0 => (self.of.init_thread)(null_mut(), null_mut(), MULTIPLE, &mut level),
                _ => (self.of.query_thread)(&mut level),
            }
        };
        expect_success(status, "MPI_Init_thread")?;
        if level < SERIALIZED {
            let text = format!(
                "meshsolve: expected an MPI that several threads may call in turn (MPI_THREAD_SERIALIZED), \
                 got level {level}; ask for MPI_THREAD_MULTIPLE where your program starts MPI"
            );
            return Err(Error::new(Kind::FailedPrecondition, text));
        }
        Ok((has_begun == 0, level >= MULTIPLE))
    }

    /// Whether MPI has ended.
    pub fn is_over(&self) -> Result<bool> {
        let mut is_over = 0;
        // SAFETY: MPI allows this call at any time.
        expect_success(unsafe { (self.of.finalized)(&mut is_over) }, "MPI_Finalized")?;
        Ok(is_over != 0)
    }

    /// Ends MPI. All processes call it.
    pub fn end(&self) -> Result<()> {
        // SAFETY: MPI has begun and has not ended.
        expect_success(unsafe { (self.of.finalize)() }, "MPI_Finalize")
    }

    /// Ends all processes.
    pub fn abort(&self) {
        // SAFETY: MPI has begun.
        unsafe { (self.of.abort)(self.world, 1) };
    }

    /// The first line of its name and version.
    pub fn version(&self) -> String {
        let (mut text, mut length) = (vec![0u8; LONGEST_VERSION], 0);
        // SAFETY: room for the longest text.
        unsafe { (self.of.version)(text.as_mut_ptr().cast(), &mut length) };
        text.truncate((length as usize).min(LONGEST_VERSION));
        let text = String::from_utf8_lossy(&text);
        text.trim_end_matches('\0').lines().next().unwrap_or_default().trim().to_owned()
    }

    /// MPI's type for elements, and how many of these each has.
    fn of_type<T: Scalar>(&self) -> (Handle, usize) {
        match T::DTYPE {
            DType::F32 => (self.float, 1),
            DType::F64 => (self.double, 1),
            DType::C64 => (self.float, 2),
            _ => (self.double, 2),
        }
    }

    /// A communicator of its own for all processes.
    pub fn everyone(&self) -> Result<Communicator> {
        let world = Communicator::new(*self, self.world)?;
        world.in_order(world.rank)
    }
}

pub fn over() -> Error {
    let text = "meshsolve: expected an MPI that runs, got one that has ended; call MPI_Finalize, or let \
                mpi4py call it, after the last call of meshsolve";
    Error::new(Kind::FailedPrecondition, text)
}

fn expect_success(status: c_int, name: &str) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(Error::new(Kind::Internal, format!("meshsolve: {name}: expected 0, got error {status}")))
}

/// All processes, in an order.
#[derive(Clone, Copy)]
pub struct Communicator {
    mpi: Mpi,
    handle: Handle,
    rank: usize,
    size: usize,
}

impl Communicator {
    fn new(mpi: Mpi, handle: Handle) -> Result<Communicator> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a communicator, and the places that the functions fill.
        let status = unsafe { (mpi.of.rank)(handle, &mut rank) | (mpi.of.size)(handle, &mut size) };
        expect_success(status, "MPI_Comm_rank")?;
        Ok(Communicator { mpi, handle, rank: rank as usize, size: size as usize })
    }

    /// The same processes with other ranks. All call this, each with its rank there.
    pub fn in_order(&self, rank: usize) -> Result<Communicator> {
        let mut handle = 0;
        // SAFETY: a communicator. All processes have one colour.
        let status = unsafe { (self.mpi.of.split)(self.handle, 0, rank as c_int, &mut handle) };
        expect_success(status, "MPI_Comm_split")?;
        Communicator::new(self.mpi, handle)
    }

    pub fn mpi(&self) -> &Mpi {
        &self.mpi
    }

    /// As C has it.
    pub fn handle(&self) -> usize {
        self.handle
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Everyone gets the elements of `root`.
    pub fn broadcast<V: Pod>(&self, values: &mut [V], root: usize) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        for part in bytes.chunks_mut(1 << 30) {
            let (at, count) = (part.as_mut_ptr().cast(), part.len() as c_int);
            // SAFETY: as many bytes on every process.
            let status = unsafe {
                (self.mpi.of.bcast)(at, count, self.mpi.byte, root as c_int, self.handle)
            };
            expect_success(status, "MPI_Bcast")?;
        }
        Ok(())
    }

    /// Begins to give everyone the elements of `root`. It goes on while this process calls MPI.
    ///
    /// # Safety
    /// The elements are there, and nothing else uses them, until the request is over.
    pub unsafe fn begin_broadcast<T: Scalar>(
        &self,
        elements: *mut T,
        count: usize,
        root: usize,
    ) -> Result<Request> {
        let (unit, per_element) = self.mpi.of_type::<T>();
        let count = c_int::try_from(count * per_element).map_err(|_| {
            let text = "meshsolve: a: expected less than 2^31 numbers in a panel, got more; use an order \
                        that more tiles divide (docs/processes.md)";
            Error::new(Kind::ResourceExhausted, text)
        })?;
        let mut request = Request { mpi: self.mpi, handle: 0 };
        let (at, root) = (elements.cast(), root as c_int);
        // SAFETY: as many elements on every process; the caller promises the rest.
        let status = unsafe {
            (self.mpi.of.ibcast)(at, count, unit, root, self.handle, &mut request.handle)
        };
        expect_success(status, "MPI_Ibcast").map(|()| request)
    }

    /// Leaves a number for a process, which need not ask for it.
    pub fn leave(&self, number: &'static u64, rank: usize) -> Result<()> {
        let Mpi { of, byte, .. } = self.mpi;
        let (at, count, mut request) = ((&raw const *number).cast(), size_of::<u64>(), 0);
        // SAFETY: bytes that stay. MPI frees the request itself when it is over.
        let status = unsafe {
            let status =
                (of.isend)(at, count as c_int, byte, rank as c_int, 0, self.handle, &mut request);
            expect_success(status, "MPI_Isend")?;
            (of.request_free)(&mut request)
        };
        expect_success(status, "MPI_Request_free")
    }

    /// A number that a process has left for this one, if it has come.
    pub fn take_left(&self, rank: usize) -> Result<Option<u64>> {
        let Mpi { of, byte, .. } = self.mpi;
        let (mut number, mut there, mut status) = (0u64, 0, Status::default());
        let (at, count) = ((&raw mut number).cast(), size_of::<u64>() as c_int);
        let (rank, status) = (rank as c_int, status.as_mut_ptr());
        // SAFETY: room for the number and for a status.
        unsafe {
            let outcome = (of.iprobe)(rank, 0, self.handle, &mut there, status.cast());
            expect_success(outcome, "MPI_Iprobe")?;
            if there == 0 {
                return Ok(None);
            }
            let outcome = (of.recv)(at, count, byte, rank, 0, self.handle, status.cast());
            expect_success(outcome, "MPI_Recv")?;
        }
        Ok(Some(number))
    }

    /// Replaces each number by the sum of all processes' numbers at its place.
    pub fn sum(&self, values: &mut [f64]) -> Result<()> {
        let given = values.to_vec();
        let (from, to) = (given.as_ptr().cast(), values.as_mut_ptr().cast());
        let Mpi { of, double, sum, .. } = self.mpi;
        // SAFETY: as many numbers on every process, in memory of its own.
        let status =
            unsafe { (of.allreduce)(from, to, values.len() as c_int, double, sum, self.handle) };
        expect_success(status, "MPI_Allreduce")
    }

    /// The numbers of all processes, by rank. Each gives as many.
    pub fn gather<const N: usize>(&self, values: [f64; N]) -> Result<Vec<[f64; N]>> {
        let mut all = vec![[0.0; N]; self.size];
        let (from, to) = (values.as_ptr().cast(), all.as_mut_ptr().cast());
        let Mpi { of, double, .. } = self.mpi;
        // SAFETY: N numbers from each process.
        let status = unsafe {
            (of.allgather)(from, N as c_int, double, to, N as c_int, double, self.handle)
        };
        expect_success(status, "MPI_Allgather")?;
        Ok(all)
    }
}

/// A broadcast that has begun.
pub struct Request {
    mpi: Mpi,
    handle: Handle,
}

impl Request {
    /// Lets it go on.
    pub fn poll(&mut self) -> Result<()> {
        let (mut over, mut status) = (0, Status::default());
        // SAFETY: a request of this process, or none if it is over, and room for its status.
        let outcome =
            unsafe { (self.mpi.of.test)(&mut self.handle, &mut over, status.as_mut_ptr().cast()) };
        expect_success(outcome, "MPI_Test")
    }

    /// Waits until it is over.
    pub fn wait(mut self) -> Result<()> {
        let mut status = Status::default();
        // SAFETY: as in `poll`.
        let outcome = unsafe { (self.mpi.of.wait)(&mut self.handle, status.as_mut_ptr().cast()) };
        expect_success(outcome, "MPI_Wait")
    }
}

impl<T: Scalar> Transport<T> for Communicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.size
    }

    fn exchange(&self, out: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()> {
        let (unit, per_element) = self.mpi.of_type::<T>();
        let laid_out = |counts: &[usize]| {
            let mut end = 0;
            let ends = counts.iter().map(|count| {
                end += count * per_element;
                end
            });
            let ends: Vec<usize> = ends.collect();
            let counts: Vec<c_int> = counts.iter().map(|c| (c * per_element) as c_int).collect();
            let starts = ends.iter().zip(&counts).map(|(end, &count)| end - count as usize);
            (starts.map(|start| start as c_int).collect::<Vec<_>>(), counts, end)
        };
        let ((sent_at, sent, all_sent), (got_at, got, all_got)) = (laid_out(to), laid_out(from));
        if all_sent.max(all_got) > c_int::MAX as usize {
            let text = "meshsolve: a: expected at most 2^31 numbers in an exchange between processes, got \
                        more; use more processes";
            return Err(Error::new(Kind::ResourceExhausted, text));
        }
        assert!(all_sent <= out.len() * per_element && all_got <= into.len() * per_element);
        // SAFETY: parts of `out` and `into`, whose sizes agree between each two processes.
        let status = unsafe {
            (self.mpi.of.alltoallv)(
                out.as_ptr().cast(),
                sent.as_ptr(),
                sent_at.as_ptr(),
                unit,
                into.as_mut_ptr().cast(),
                got.as_ptr(),
                got_at.as_ptr(),
                unit,
                self.handle,
            )
        };
        expect_success(status, "MPI_Alltoallv")
    }
}
