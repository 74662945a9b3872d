//! cuSOLVER: factorisations of tiles and panels on a stream, by the interface whose sizes have 64 bits.

use std::collections::BTreeSet;

use super::*;
use cudarc::cusolver::sys;

const LOWER: sys::cublasFillMode_t = sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
const ALLOC_FAILED: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED as c_int;
const INVALID_VALUE: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_INVALID_VALUE as c_int;

functions! {
    cusolverDnCreate cusolverDnDestroy cusolverDnSetStream cusolverDnCreateParams
    cusolverDnDestroyParams cusolverDnXpotrf_bufferSize cusolverDnXpotrf cusolverDnXgetrf_bufferSize
    cusolverDnXgetrf
}

pub struct Solver {
    functions: Functions,
    newer: Option<Newer>,
}

/// What older libraries lack.
#[allow(non_snake_case)]
struct Newer {
    cusolverDnSetMathMode: Symbol,
}

/// cusolverDnHandle_t and the parameters that go with it.
#[derive(Debug)]
pub struct SolverHandle {
    handle: usize,
    parameters: usize,
    /// Bytes of the host that a factorisation works in, and a piece for each that may be at work.
    host_bytes: usize,
    on_host: Vec<Vec<u8>>,
    used: usize,
}

impl SolverHandle {
    /// What the factorisation that is given next works in on the host, until the stream has done it.
    fn host_piece(&mut self) -> *mut c_void {
        if self.used == self.on_host.len() {
            self.on_host.push(Vec::new());
        }
        let piece = &mut self.on_host[self.used];
        self.used += 1;
        piece.resize(self.host_bytes, 0);
        piece.as_mut_ptr().cast()
    }

    /// Bytes of the host that each factorisation works in.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }

    /// All that was given has been done.
    pub fn reset(&mut self) {
        self.used = 0;
    }
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
        let newer = library.newer("cusolverDnSetMathMode")?;
        let newer = newer.map(|found| Newer { cusolverDnSetMathMode: found });
        Ok(Solver { functions: Functions::of(library)?, newer })
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => Err(failed("cuSOLVER", function, status, "", status == ALLOC_FAILED)),
        }
    }

    /// A handle of the current context.
    pub fn create(&self) -> Result<SolverHandle> {
        let (f, mut handle, mut parameters) = (&self.functions, 0, 0);
        // SAFETY: valid places.
        unsafe {
            let status = call!(f, cusolverDnCreate((&raw mut handle).cast()));
            self.check("cusolverDnCreate", status)?;
            let status = call!(f, cusolverDnCreateParams((&raw mut parameters).cast()));
            self.check("cusolverDnCreateParams", status)?;
        }
        Ok(SolverHandle { handle, parameters, host_bytes: 0, on_host: Vec::new(), used: 0 })
    }

    pub fn destroy(&self, handle: SolverHandle) -> Result<()> {
        let (f, SolverHandle { handle, parameters, .. }) = (&self.functions, handle);
        // SAFETY: handles that are not used any more.
        unsafe {
            let status = call!(f, cusolverDnDestroyParams(raw(parameters)));
            self.check("cusolverDnDestroyParams", status)?;
            self.check("cusolverDnDestroy", call!(f, cusolverDnDestroy(raw(handle))))
        }
    }

    /// How the handle multiplies float64 from now on, as far as the library has a choice: it factors panels, which
    /// are few of a factorisation's products.
    pub fn multiply(&self, handle: &SolverHandle, float64: Float64) -> Result<()> {
        let mode = match float64 {
            Float64::Native => sys::cusolverMathMode_t::CUSOLVER_DEFAULT_MATH,
            Float64::Emulated => sys::cusolverMathMode_t::CUSOLVER_FP64_EMULATED_FIXEDPOINT_MATH,
        };
        let Some(newer) = &self.newer else { return Ok(()) };
        // SAFETY: a handle that is there.
        let status = unsafe { call!(newer, cusolverDnSetMathMode(raw(handle.handle), mode)) };
        match status {
            INVALID_VALUE if float64 == Float64::Emulated => Ok(()),
            status => self.check("cusolverDnSetMathMode", status),
        }
    }

    /// What the handle is given from now on goes on the stream.
    pub fn work_on(&self, handle: &SolverHandle, stream: Stream) -> Result<()> {
        // SAFETY: a stream of the handle's context.
        let status =
            unsafe { call!(self.functions, cusolverDnSetStream(raw(handle.handle), stream.raw())) };
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
        let (f, kind, a) = (&self.functions, data_type!(T), pointer(a));
        let (h, p) = (raw(handle.handle), raw(handle.parameters));
        let (mut most, mut host) = (0, handle.host_bytes);
        let (mut bytes, mut on_host) = (0, 0);
        for &(n, leading) in tiles {
            let (n, leading) = (n as i64, leading as i64);
            let (bytes, on_host) = (&mut bytes, &mut on_host);
            // SAFETY: valid places.
            let status = unsafe {
                call!(
                    f,
                    cusolverDnXpotrf_bufferSize(
                        h, p, LOWER, n, kind, a, leading, kind, bytes, on_host
                    )
                )
            };
            self.check("cusolverDnXpotrf_bufferSize", status)?;
            (most, host) = (most.max(*bytes), host.max(*on_host));
        }
        for &(m, n, leading) in panels {
            let (m, n, leading) = (m as i64, n as i64, leading as i64);
            let (bytes, on_host) = (&mut bytes, &mut on_host);
            // SAFETY: as above.
            let status = unsafe {
                call!(
                    f,
                    cusolverDnXgetrf_bufferSize(h, p, m, n, kind, a, leading, kind, bytes, on_host)
                )
            };
            self.check("cusolverDnXgetrf_bufferSize", status)?;
            (most, host) = (most.max(*bytes), host.max(*on_host));
        }
        handle.host_bytes = host;
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
        let (f, kind, host) = (&self.functions, data_type!(T), handle.host_piece());
        let SolverHandle { handle: h, parameters: p, host_bytes, .. } = *handle;
        let Workspace { at, bytes, info } = workspace;
        let (h, p, n, lda) = (raw(h), raw(p), n as i64, a.leading as i64);
        let (a, at, info) = (pointer(a.at), pointer(at), pointer(info));
        // SAFETY: promised by the caller.
        let status = unsafe {
            call!(
                f,
                cusolverDnXpotrf(
                    h, p, LOWER, n, kind, a, lda, kind, at, bytes, host, host_bytes, info
                )
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
        let (f, kind, host) = (&self.functions, data_type!(T), handle.host_piece());
        let SolverHandle { handle: h, parameters: p, host_bytes, .. } = *handle;
        let Workspace { at, bytes, info } = workspace;
        let (h, p, m, n, lda) = (raw(h), raw(p), m as i64, n as i64, a.leading as i64);
        let (a, pivots) = (pointer(a.at), pointer(pivots));
        let (at, info) = (pointer(at), pointer(info));
        // SAFETY: promised by the caller.
        let status = unsafe {
            call!(
                f,
                cusolverDnXgetrf(
                    h, p, m, n, kind, a, lda, pivots, kind, at, bytes, host, host_bytes, info
                )
            )
        };
        self.check("cusolverDnXgetrf", status)
    }
}
