//! cuSOLVER: factorisations of tiles and panels on a stream, by the interface whose sizes have 64 bits.

use std::collections::BTreeSet;

use super::*;
use crate::backend::cuda::load::functions;

type Handle = usize;

functions! {
    cusolverDnCreate(*mut Handle) -> c_int;
    cusolverDnDestroy(Handle) -> c_int;
    cusolverDnSetStream(Handle, usize) -> c_int;
    cusolverDnCreateParams(*mut Handle) -> c_int;
    cusolverDnDestroyParams(Handle) -> c_int;
    cusolverDnXpotrf_bufferSize(Handle, Handle, c_int, i64, c_int, Address, i64, c_int, *mut usize,
        *mut usize) -> c_int;
    cusolverDnXpotrf(Handle, Handle, c_int, i64, c_int, Address, i64, c_int, Address, usize,
        *mut c_void, usize, Address) -> c_int;
    cusolverDnXgetrf_bufferSize(Handle, Handle, i64, i64, c_int, Address, i64, c_int, *mut usize,
        *mut usize) -> c_int;
    cusolverDnXgetrf(Handle, Handle, i64, i64, c_int, Address, i64, Address, c_int, Address, usize,
        *mut c_void, usize, Address) -> c_int;
}

const ALLOC_FAILED: c_int = 2;

pub struct Solver {
    functions: Functions,
}

/// cusolverDnHandle_t and the parameters that go with it.
#[derive(Debug)]
pub struct SolverHandle {
    handle: Handle,
    parameters: Handle,
    /// What the library works in on the host.
    on_host: Vec<u8>,
}

/// Memory of the device that a factorisation works in, and the number that it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    pub at: Address,
    pub bytes: usize,
    /// Of `info`, an int32.
    pub info: Address,
}

impl Solver {
    pub(super) fn of(library: &Library) -> Result<Solver> {
        Ok(Solver { functions: Functions::of(library)? })
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => Err(failed("cuSOLVER", function, status, "", status == ALLOC_FAILED)),
        }
    }

    /// A handle of the current context.
    pub fn create(&self) -> Result<SolverHandle> {
        let (mut handle, mut parameters) = (0, 0);
        // SAFETY: valid places.
        unsafe {
            self.check("cusolverDnCreate", (self.functions.cusolverDnCreate)(&mut handle))?;
            let status = (self.functions.cusolverDnCreateParams)(&mut parameters);
            self.check("cusolverDnCreateParams", status)?;
        }
        Ok(SolverHandle { handle, parameters, on_host: Vec::new() })
    }

    pub fn destroy(&self, handle: SolverHandle) -> Result<()> {
        // SAFETY: handles that are not used any more.
        unsafe {
            let status = (self.functions.cusolverDnDestroyParams)(handle.parameters);
            self.check("cusolverDnDestroyParams", status)?;
            self.check("cusolverDnDestroy", (self.functions.cusolverDnDestroy)(handle.handle))
        }
    }

    /// What the handle is given from now on goes on the stream.
    pub fn work_on(&self, handle: &SolverHandle, stream: Stream) -> Result<()> {
        // SAFETY: a stream of the handle's context.
        let status = unsafe { (self.functions.cusolverDnSetStream)(handle.handle, stream.0) };
        self.check("cusolverDnSetStream", status)
    }

    /// Bytes of the device's memory that factorisations need of tiles (order, leading dimension) as L L^H and
    /// of panels (rows, columns, leading dimension) as L U; `a` is a matrix and not followed. Memory of
    /// the host is taken here.
    pub fn workspace<T: Scalar>(
        &self,
        handle: &mut SolverHandle,
        a: Address,
        tiles: &BTreeSet<(usize, usize)>,
        panels: &BTreeSet<(usize, usize, usize)>,
    ) -> Result<usize> {
        let kind = data_type(T::DTYPE);
        let (Functions { cusolverDnXpotrf_bufferSize, cusolverDnXgetrf_bufferSize, .. }, h, p) =
            (&self.functions, handle.handle, handle.parameters);
        let (mut most, mut host) = (0, handle.on_host.len());
        let (mut bytes, mut on_host) = (0, 0);
        for &(n, leading) in tiles {
            let (n, leading) = (n as i64, leading as i64);
            let (bytes, on_host) = (&mut bytes, &mut on_host);
            // SAFETY: valid places.
            let status = unsafe {
                cusolverDnXpotrf_bufferSize(h, p, 0, n, kind, a, leading, kind, bytes, on_host)
            };
            self.check("cusolverDnXpotrf_bufferSize", status)?;
            (most, host) = (most.max(*bytes), host.max(*on_host));
        }
        for &(m, n, leading) in panels {
            let (m, n, leading) = (m as i64, n as i64, leading as i64);
            let (bytes, on_host) = (&mut bytes, &mut on_host);
            // SAFETY: as above.
            let status = unsafe {
                cusolverDnXgetrf_bufferSize(h, p, m, n, kind, a, leading, kind, bytes, on_host)
            };
            self.check("cusolverDnXgetrf_bufferSize", status)?;
            (most, host) = (most.max(*bytes), host.max(*on_host));
        }
        handle.on_host.resize(host, 0);
        Ok(most)
    }

    /// `A = L L^H` in the lower triangle.
    ///
    /// # Safety
    /// A is a matrix of T of order n in the device's memory, and the workspace is large enough; both are
    /// nobody else's until the stream has done it, and the handle is used for nothing else.
    pub unsafe fn potrf<T: Scalar>(
        &self,
        handle: &mut SolverHandle,
        n: usize,
        a: Operand,
        workspace: Workspace,
    ) -> Result<()> {
        let (kind, SolverHandle { handle: h, parameters, on_host }) = (data_type(T::DTYPE), handle);
        // SAFETY: promised by the caller.
        let status = unsafe {
            (self.functions.cusolverDnXpotrf)(
                *h,
                *parameters,
                0,
                n as i64,
                kind,
                a.at,
                a.leading as i64,
                kind,
                workspace.at,
                workspace.bytes,
                on_host.as_mut_ptr().cast(),
                on_host.len(),
                workspace.info,
            )
        };
        self.check("cusolverDnXpotrf", status)
    }

    /// `P A = L U`; `pivots` are int64, rows of A from 1.
    ///
    /// # Safety
    /// As for [`Solver::potrf`], with A of m x n.
    pub unsafe fn getrf<T: Scalar>(
        &self,
        handle: &mut SolverHandle,
        [m, n]: [usize; 2],
        a: Operand,
        pivots: Address,
        workspace: Workspace,
    ) -> Result<()> {
        let (kind, SolverHandle { handle: h, parameters, on_host }) = (data_type(T::DTYPE), handle);
        // SAFETY: promised by the caller.
        let status = unsafe {
            (self.functions.cusolverDnXgetrf)(
                *h,
                *parameters,
                m as i64,
                n as i64,
                kind,
                a.at,
                a.leading as i64,
                pivots,
                kind,
                workspace.at,
                workspace.bytes,
                on_host.as_mut_ptr().cast(),
                on_host.len(),
                workspace.info,
            )
        };
        self.check("cusolverDnXgetrf", status)
    }
}
