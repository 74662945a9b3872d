//! cuBLAS: products and triangular solves on a stream.

use super::*;
use cudarc::cublas::sys;
use sys::cublasOperation_t::{CUBLAS_OP_C, CUBLAS_OP_N, CUBLAS_OP_T};

functions! {
    cublasCreate_v2 cublasDestroy_v2 cublasSetStream_v2 cublasSetWorkspace_v2 cublasGetStatusString
    cublasSetMathMode
    cublasSgemm_v2_64 cublasDgemm_v2_64 cublasCgemm_v2_64 cublasZgemm_v2_64
    cublasStrsm_v2_64 cublasDtrsm_v2_64 cublasCtrsm_v2_64 cublasZtrsm_v2_64
    cublasStrmm_v2_64 cublasDtrmm_v2_64 cublasCtrmm_v2_64 cublasZtrmm_v2_64
    cublasSgeam_64 cublasDgeam_64 cublasCgeam_64 cublasZgeam_64
}

/// Calls the function for one of the four types of numbers.
macro_rules! call_for {
    ($T:ty, $table:expr, $s:ident $d:ident $c:ident $z:ident $arguments:tt) => {
        match <$T>::DTYPE {
            DType::F32 => call!($table, $s $arguments),
            DType::C64 => call!($table, $c $arguments),
            DType::C128 => call!($table, $z $arguments),
            _ => call!($table, $d $arguments),
        }
    };
}

pub struct Blas {
    functions: Functions,
}

const ALLOC_FAILED: c_int = sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED as c_int;
const INVALID_VALUE: c_int = sys::cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE as c_int;

impl Blas {
    pub(super) fn of(library: &Library) -> Result<Blas> {
        Ok(Blas { functions: Functions::of(library)? })
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a C string of static storage, or null.
        let text = unsafe {
            self.functions.cublasGetStatusString.text(|| sys::cublasGetStatusString, status)
        };
        let text = format!(" {}", text.unwrap_or_default());
        Err(failed("cuBLAS", function, status, &text, status == ALLOC_FAILED))
    }

    /// A handle of the current context.
    pub fn create(&self) -> Result<BlasHandle> {
        let mut handle = null_mut();
        // SAFETY: writes a local variable. The handle exists until its owner, `Tools`, destroys it.
        unsafe {
            self.check("cublasCreate", call!(self.functions, cublasCreate_v2(&mut handle)))?;
            Ok(BlasHandle::new(handle))
        }
    }

    pub fn destroy(&self, handle: BlasHandle) -> Result<()> {
        // SAFETY: the handle's owner, `Tools`, does not use it again.
        let status = unsafe { call!(self.functions, cublasDestroy_v2(handle.raw())) };
        self.check("cublasDestroy", status)
    }

    /// Sets how the handle multiplies float64 from now on.
    pub fn multiply(&self, handle: BlasHandle, float64: Float64) -> Result<()> {
        let mode = match float64 {
            Float64::Native => sys::cublasMath_t::CUBLAS_DEFAULT_MATH,
            Float64::Emulated => sys::cublasMath_t::CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH,
        };
        // SAFETY: the handle's maker promises that it exists, its owner that one thread uses it.
        match unsafe { call!(self.functions, cublasSetMathMode(handle.raw(), mode)) } {
            INVALID_VALUE if float64 == Float64::Emulated => Err(no_emulation()),
            status => self.check("cublasSetMathMode", status),
        }
    }

    /// Later work of the handle runs on the stream, with this memory as workspace, or with the
    /// library's own.
    ///
    /// # Safety
    /// The stream is of the handle's context. Only the stream uses the memory until it has done all
    /// that work. One thread at a time uses the handle.
    pub unsafe fn work_on(
        &self,
        handle: BlasHandle,
        stream: Stream,
        workspace: Option<(Address, usize)>,
    ) -> Result<()> {
        let (functions, handle) = (&self.functions, handle.raw());
        // SAFETY: the caller promises the stream, the memory and the handle. A new stream resets
        // the workspace, hence this order.
        unsafe {
            let status = call!(functions, cublasSetStream_v2(handle, stream.raw().cast()));
            self.check("cublasSetStream", status)?;
            let Some((at, bytes)) = workspace else { return Ok(()) };
            let status = call!(functions, cublasSetWorkspace_v2(handle, pointer(at), bytes));
            self.check("cublasSetWorkspace", status)
        }
    }

    /// `C <- C + alpha op(A) op(B)`, C m x n.
    ///
    /// # Safety
    /// The operands are matrices of T in the device's memory. No other work uses them until the
    /// stream has done this. One thread at a time uses the handle.
    pub unsafe fn gemm<T: Scalar>(
        &self,
        handle: BlasHandle,
        [m, n, k]: [usize; 3],
        alpha: T,
        a: Operand,
        b: Operand,
        c: Operand,
    ) -> Result<()> {
        let (f, h, one) = (&self.functions, handle.raw(), T::ONE);
        let (alpha, beta) = (&raw const alpha, &raw const one);
        let ([m, n, k], [lda, ldb, ldc]) = (long([m, n, k]), leading([a, b, c]));
        // SAFETY: the caller promises operands and handle; numbers are read before it returns.
        let status = unsafe {
            call_for!(T, f,
                cublasSgemm_v2_64 cublasDgemm_v2_64 cublasCgemm_v2_64 cublasZgemm_v2_64
                (h, operation(a.op), operation(b.op), m, n, k, alpha.cast(), pointer(a.at), lda,
                pointer(b.at), ldb, beta.cast(), pointer(c.at), ldc))
        };
        self.check("gemm", status)
    }

    /// `X <- op(A)^-1 X`, or `X op(A)^-1` if A is on the `right`, with a triangle of A; X m x n.
    ///
    /// # Safety
    /// As for [`Blas::gemm`].
    pub unsafe fn trsm<T: Scalar>(
        &self,
        handle: BlasHandle,
        right: bool,
        triangle: Triangle,
        [m, n]: [usize; 2],
        a: Operand,
        x: Operand,
    ) -> Result<()> {
        let (f, h, one) = (&self.functions, handle.raw(), T::ONE);
        let side = match right {
            true => sys::cublasSideMode_t::CUBLAS_SIDE_RIGHT,
            false => sys::cublasSideMode_t::CUBLAS_SIDE_LEFT,
        };
        let (alpha, (fill, ones)) = (&raw const one, parts(triangle));
        let ([m, n], [lda, ldx]) = (long([m, n]), leading([a, x]));
        // SAFETY: the caller promises operands and handle; numbers are read before it returns.
        let status = unsafe {
            call_for!(T, f,
                cublasStrsm_v2_64 cublasDtrsm_v2_64 cublasCtrsm_v2_64 cublasZtrsm_v2_64
                (h, side, fill, operation(a.op), ones, m, n, alpha.cast(), pointer(a.at), lda,
                pointer(x.at), ldx))
        };
        self.check("trsm", status)
    }

    /// `X <- alpha op(A) X` with a triangle of A; X m x n.
    ///
    /// # Safety
    /// As for [`Blas::gemm`].
    pub unsafe fn trmm<T: Scalar>(
        &self,
        handle: BlasHandle,
        triangle: Triangle,
        [m, n]: [usize; 2],
        alpha: T,
        a: Operand,
        x: Operand,
    ) -> Result<()> {
        let (f, h, alpha) = (&self.functions, handle.raw(), &raw const alpha);
        let (left, (fill, ones)) = (sys::cublasSideMode_t::CUBLAS_SIDE_LEFT, parts(triangle));
        let ([m, n], [lda, ldx]) = (long([m, n]), leading([a, x]));
        // SAFETY: the caller promises operands and handle; numbers are read before it returns.
        let status = unsafe {
            call_for!(T, f,
                cublasStrmm_v2_64 cublasDtrmm_v2_64 cublasCtrmm_v2_64 cublasZtrmm_v2_64
                (h, left, fill, operation(a.op), ones, m, n, alpha.cast(), pointer(a.at), lda,
                pointer(x.at), ldx, pointer(x.at), ldx))
        };
        self.check("trmm", status)
    }

    /// `C <- C + op(A)`, C m x n.
    ///
    /// # Safety
    /// As for [`Blas::gemm`].
    pub unsafe fn add<T: Scalar>(
        &self,
        handle: BlasHandle,
        [m, n]: [usize; 2],
        a: Operand,
        c: Operand,
    ) -> Result<()> {
        let (f, h, one) = (&self.functions, handle.raw(), T::ONE);
        let (one, [m, n], [lda, ldc]) = (&raw const one, long([m, n]), leading([a, c]));
        // SAFETY: the caller promises operands and handle; numbers are read before the return. C
        // may be an operand that is not transposed.
        let status = unsafe {
            call_for!(T, f,
                cublasSgeam_64 cublasDgeam_64 cublasCgeam_64 cublasZgeam_64
                (h, CUBLAS_OP_N, operation(a.op), m, n, one.cast(), pointer(c.at), ldc, one.cast(),
                pointer(a.at), lda, pointer(c.at), ldc))
        };
        self.check("geam", status)
    }
}

pub type BlasHandle = Handle<sys::cublasHandle_t>;

fn long<const N: usize>(sizes: [usize; N]) -> [i64; N] {
    sizes.map(|size| size as i64)
}

fn leading<const N: usize>(operands: [Operand; N]) -> [i64; N] {
    operands.map(|operand| operand.leading as i64)
}

/// cuBLAS has no operation for a conjugate that is not transposed.
fn operation(op: Op) -> sys::cublasOperation_t {
    match op {
        Op::None => CUBLAS_OP_N,
        Op::Transpose => CUBLAS_OP_T,
        Op::Adjoint => CUBLAS_OP_C,
        Op::Conjugate => unreachable!("a conjugate is made before"),
    }
}

/// The part of a matrix that is read.
fn parts(triangle: Triangle) -> (sys::cublasFillMode_t, sys::cublasDiagType_t) {
    let fill = match triangle.is_lower() {
        true => sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
        false => sys::cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
    };
    let diagonal = match triangle.has_ones() {
        true => sys::cublasDiagType_t::CUBLAS_DIAG_UNIT,
        false => sys::cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
    };
    (fill, diagonal)
}
