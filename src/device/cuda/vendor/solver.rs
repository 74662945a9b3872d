//! cuSOLVER: factorisations of tiles and panels on a stream, by the interface with sizes of 64
//! bits.

use std::collections::BTreeSet;

use super::*;
use cudarc::cusolver::sys;

const LOWER: sys::cublasFillMode_t = sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
const ALLOC_FAILED: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED as c_int;
const INVALID_VALUE: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_INVALID_VALUE as c_int;

functions! {
    cusolverDnCreate cusolverDnDestroy cusolverDnSetStream cusolverDnCreateParams
    cusolverDnDestroyParams cusolverDnXpotrf_bufferSize cusolverDnXpotrf cusolverDnXgetrf_bufferSize
    cusolverDnXgetrf cusolverDnXgeqrf_bufferSize cusolverDnXgeqrf
}

/// L L^H of order n, L U or Q R.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Potrf,
    Getrf,
    Geqrf,
}

/// A factorisation of an m x n matrix with a leading dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factorisation {
    pub method: Method,
    pub m: usize,
    pub n: usize,
    pub leading: usize,
}

pub struct Solver {
    functions: Functions,
    newer: Option<Newer>,
}

/// Functions that older libraries lack.
#[allow(non_snake_case)]
struct Newer {
    cusolverDnSetMathMode: Symbol,
}

/// cusolverDnHandle_t and its parameters.
#[derive(Debug)]
pub struct SolverHandle {
    handle: Handle<sys::cusolverDnHandle_t>,
    parameters: Handle<sys::cusolverDnParams_t>,
    /// Bytes of host workspace for a factorisation, and a piece for each that may be in progress.
    host_bytes: usize,
    on_host: Vec<Vec<u8>>,
    used: usize,
}

impl SolverHandle {
    /// The host workspace of the next factorisation, in use until the stream has done it.
    fn host_piece(&mut self) -> *mut c_void {
        if self.used == self.on_host.len() {
            self.on_host.push(Vec::new());
        }
        let piece = &mut self.on_host[self.used];
        self.used += 1;
        piece.resize(self.host_bytes, 0);
        piece.as_mut_ptr().cast()
    }

    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }

    /// Frees all host workspace, after all work is done.
    pub fn reset(&mut self) {
        self.used = 0;
    }
}

/// Device workspace of a factorisation, and the address of its `info`.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    pub at: Address,
    pub bytes: usize,
    /// The address of `info`, an int32.
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
        let (f, mut handle, mut parameters) = (&self.functions, null_mut(), null_mut());
        // SAFETY: writes local variables. Both objects exist until `destroy` takes them by value.
        let (handle, parameters) = unsafe {
            self.check("cusolverDnCreate", call!(f, cusolverDnCreate(&mut handle)))?;
            let status = call!(f, cusolverDnCreateParams(&mut parameters));
            self.check("cusolverDnCreateParams", status)?;
            (Handle::new(handle), Handle::new(parameters))
        };
        Ok(SolverHandle { handle, parameters, host_bytes: 0, on_host: Vec::new(), used: 0 })
    }

    pub fn destroy(&self, handle: SolverHandle) -> Result<()> {
        let (f, SolverHandle { handle, parameters, .. }) = (&self.functions, handle);
        // SAFETY: `create` has made both. The caller gives them up.
        unsafe {
            let status = call!(f, cusolverDnDestroyParams(parameters.raw()));
            self.check("cusolverDnDestroyParams", status)?;
            self.check("cusolverDnDestroy", call!(f, cusolverDnDestroy(handle.raw())))
        }
    }

    /// Sets how the handle multiplies float64 from now on, if the library has a choice. It factors
    /// panels, which have few of a factorisation's products.
    pub fn multiply(&self, handle: &SolverHandle, float64: Float64) -> Result<()> {
        let mode = match float64 {
            Float64::Native => sys::cusolverMathMode_t::CUSOLVER_DEFAULT_MATH,
            Float64::Emulated => sys::cusolverMathMode_t::CUSOLVER_FP64_EMULATED_FIXEDPOINT_MATH,
        };
        let Some(newer) = &self.newer else { return Ok(()) };
        // SAFETY: the handle exists until `destroy`. Its owner promises that one thread uses it.
        let status = unsafe { call!(newer, cusolverDnSetMathMode(handle.handle.raw(), mode)) };
        match status {
            INVALID_VALUE if float64 == Float64::Emulated => Ok(()),
            status => self.check("cusolverDnSetMathMode", status),
        }
    }

    /// Later work of the handle runs on the stream.
    pub fn work_on(&self, handle: &SolverHandle, stream: Stream) -> Result<()> {
        let (handle, stream) = (handle.handle.raw(), stream.raw().cast());
        // SAFETY: the handle exists until `destroy`. Its owner promises that one thread uses it,
        // and a stream of its context.
        let status = unsafe { call!(self.functions, cusolverDnSetStream(handle, stream)) };
        self.check("cusolverDnSetStream", status)
    }

    /// Bytes of device workspace for factorisations of matrices like `a`, which is not read. This also
    /// updates the size of host workspace.
    pub fn workspace<T: Scalar>(
        &self,
        handle: &mut SolverHandle,
        a: Address,
        factorisations: &BTreeSet<Factorisation>,
    ) -> Result<usize> {
        let (f, kind, a) = (&self.functions, data_type!(T), pointer(a));
        let (h, p) = (handle.handle.raw(), handle.parameters.raw());
        let (mut most, mut host) = (0, handle.host_bytes);
        let (mut bytes, mut on_host) = (0, 0);
        for &Factorisation { method, m, n, leading } in factorisations {
            let (m, n, leading) = (m as i64, n as i64, leading as i64);
            let (bytes, on_host) = (&mut bytes, &mut on_host);
            // SAFETY: `handle` is this thread's alone. Writes local variables; the matrix is not
            // read.
            let (function, status) = unsafe {
                match method {
                    Method::Potrf => (
                        "cusolverDnXpotrf_bufferSize",
                        call!(
                            f,
                            cusolverDnXpotrf_bufferSize(
                                h, p, LOWER, n, kind, a, leading, kind, bytes, on_host
                            )
                        ),
                    ),
                    Method::Getrf => (
                        "cusolverDnXgetrf_bufferSize",
                        call!(
                            f,
                            cusolverDnXgetrf_bufferSize(
                                h, p, m, n, kind, a, leading, kind, bytes, on_host
                            )
                        ),
                    ),
                    Method::Geqrf => (
                        "cusolverDnXgeqrf_bufferSize",
                        call!(
                            f,
                            cusolverDnXgeqrf_bufferSize(
                                h, p, m, n, kind, a, leading, kind, a, kind, bytes, on_host
                            )
                        ),
                    ),
                }
            };
            self.check(function, status)?;
            (most, host) = (most.max(*bytes), host.max(*on_host));
        }
        handle.host_bytes = host;
        Ok(most)
    }

    /// `A = L L^H` in the lower triangle.
    ///
    /// # Safety
    /// A is a matrix of T of order n in the device's memory, and the workspace is large enough. No
    /// other work uses them until the stream has done this, and the handle has no other use.
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
        let (h, p, n, lda) = (h.raw(), p.raw(), n as i64, a.leading as i64);
        let (a, at, info) = (pointer(a.at), pointer(at), pointer(info));
        // SAFETY: the caller promises A and the workspace. `handle` is this thread's alone.
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
        let (h, p, m, n, lda) = (h.raw(), p.raw(), m as i64, n as i64, a.leading as i64);
        let (a, pivots) = (pointer(a.at), pointer(pivots));
        let (at, info) = (pointer(at), pointer(info));
        // SAFETY: the caller promises A, pivots and workspace. `handle` is this thread's alone.
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

    /// `A = Q R`; R takes the upper triangle. `coefficients` are n of T.
    ///
    /// # Safety
    /// As for [`Solver::potrf`], with A of m x n, and with the coefficients.
    pub unsafe fn geqrf<T: Scalar>(
        &self,
        handle: &mut SolverHandle,
        [m, n]: [usize; 2],
        a: Operand,
        coefficients: Address,
        workspace: Workspace,
    ) -> Result<()> {
        let (f, kind, host) = (&self.functions, data_type!(T), handle.host_piece());
        let SolverHandle { handle: h, parameters: p, host_bytes, .. } = *handle;
        let Workspace { at, bytes, info } = workspace;
        let (h, p, m, n, lda) = (h.raw(), p.raw(), m as i64, n as i64, a.leading as i64);
        let (a, tau) = (pointer(a.at), pointer(coefficients));
        let (at, info) = (pointer(at), pointer(info));
        // SAFETY: the caller promises A, coefficients and workspace. `handle` is this thread's alone.
        let status = unsafe {
            call!(
                f,
                cusolverDnXgeqrf(
                    h, p, m, n, kind, a, lda, kind, tau, kind, at, bytes, host, host_bytes, info
                )
            )
        };
        self.check("cusolverDnXgeqrf", status)
    }
}
