//! cuBLAS: products and triangular solves on a stream.

use super::*;
use crate::backend::cuda::load::functions;

type Handle = usize;
type Number = *const c_void;
type Gemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    Number,
    Address,
    i64,
    Address,
    i64,
    Number,
    Address,
    i64,
) -> c_int;
type Trsm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    i64,
    i64,
    Number,
    Address,
    i64,
    Address,
    i64,
) -> c_int;
type Trmm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    i64,
    i64,
    Number,
    Address,
    i64,
    Address,
    i64,
    Address,
    i64,
) -> c_int;
type Geam = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    i64,
    i64,
    Number,
    Address,
    i64,
    Number,
    Address,
    i64,
    Address,
    i64,
) -> c_int;

functions! {
    cublasCreate_v2(*mut Handle) -> c_int;
    cublasDestroy_v2(Handle) -> c_int;
    cublasSetStream_v2(Handle, usize) -> c_int;
    cublasSetWorkspace_v2(Handle, Address, usize) -> c_int;
    cublasGetStatusString(c_int) -> *const c_char;
}

pub struct Blas {
    functions: Functions,
    /// By precision and kind: S, D, C, Z.
    gemm: [Gemm; 4],
    trsm: [Trsm; 4],
    trmm: [Trmm; 4],
    geam: [Geam; 4],
}

const ALLOC_FAILED: c_int = 3;

impl Blas {
    pub(super) fn of(library: &Library) -> Result<Blas> {
        let functions = Functions::of(library)?;
        // SAFETY: the types are those of the vendor's header.
        unsafe {
            Ok(Blas {
                functions,
                gemm: [
                    library.function(c"cublasSgemm_v2_64")?,
                    library.function(c"cublasDgemm_v2_64")?,
                    library.function(c"cublasCgemm_v2_64")?,
                    library.function(c"cublasZgemm_v2_64")?,
                ],
                trsm: [
                    library.function(c"cublasStrsm_v2_64")?,
                    library.function(c"cublasDtrsm_v2_64")?,
                    library.function(c"cublasCtrsm_v2_64")?,
                    library.function(c"cublasZtrsm_v2_64")?,
                ],
                trmm: [
                    library.function(c"cublasStrmm_v2_64")?,
                    library.function(c"cublasDtrmm_v2_64")?,
                    library.function(c"cublasCtrmm_v2_64")?,
                    library.function(c"cublasZtrmm_v2_64")?,
                ],
                geam: [
                    library.function(c"cublasSgeam_64")?,
                    library.function(c"cublasDgeam_64")?,
                    library.function(c"cublasCgeam_64")?,
                    library.function(c"cublasZgeam_64")?,
                ],
            })
        }
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a C string of static storage, or null.
        let says = unsafe {
            let text = (self.functions.cublasGetStatusString)(status);
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().into()
            }
        };
        Err(failed("cuBLAS", function, status, &format!(" {says}"), status == ALLOC_FAILED))
    }

    /// A handle of the current context.
    pub fn create(&self) -> Result<BlasHandle> {
        let mut handle = 0;
        // SAFETY: a valid place.
        self.check("cublasCreate", unsafe { (self.functions.cublasCreate_v2)(&mut handle) })?;
        Ok(BlasHandle(handle))
    }

    pub fn destroy(&self, handle: BlasHandle) -> Result<()> {
        // SAFETY: a handle that is not used any more.
        self.check("cublasDestroy", unsafe { (self.functions.cublasDestroy_v2)(handle.0) })
    }

    /// What the handle is given from now on goes on the stream, with this memory to work in.
    ///
    /// # Safety
    /// The memory is the stream's until it has done it all.
    pub unsafe fn work_on(
        &self,
        handle: BlasHandle,
        stream: Stream,
        workspace: Address,
        bytes: usize,
    ) -> Result<()> {
        let Functions { cublasSetStream_v2, cublasSetWorkspace_v2, .. } = self.functions;
        // SAFETY: promised by the caller. A new stream takes the workspace back, hence this order.
        unsafe {
            self.check("cublasSetStream", cublasSetStream_v2(handle.0, stream.0))?;
            self.check("cublasSetWorkspace", cublasSetWorkspace_v2(handle.0, workspace, bytes))
        }
    }

    /// `C <- C + alpha op(A) op(B)`, C m x n.
    ///
    /// # Safety
    /// The operands are matrices of T in the device's memory that are nobody else's until the stream has
    /// done it.
    pub unsafe fn gemm<T: Scalar>(
        &self,
        handle: BlasHandle,
        [m, n, k]: [usize; 3],
        alpha: T,
        a: Operand,
        b: Operand,
        c: Operand,
    ) -> Result<()> {
        let one = T::ONE;
        let (alpha, beta) = ((&raw const alpha).cast(), (&raw const one).cast());
        let function = self.gemm[kind::<T>()];
        // SAFETY: promised by the caller; numbers are read before the function returns.
        let status = unsafe {
            function(
                handle.0,
                code(a.op),
                code(b.op),
                m as i64,
                n as i64,
                k as i64,
                alpha,
                a.at,
                a.leading as i64,
                b.at,
                b.leading as i64,
                beta,
                c.at,
                c.leading as i64,
            )
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
        let (side, diagonal) = (c_int::from(right), c_int::from(triangle.has_ones()));
        let one = T::ONE;
        let alpha = (&raw const one).cast();
        let function = self.trsm[kind::<T>()];
        // SAFETY: promised by the caller; numbers are read before the function returns.
        let status = unsafe {
            function(
                handle.0,
                side,
                fill_mode(triangle),
                code(a.op),
                diagonal,
                m as i64,
                n as i64,
                alpha,
                a.at,
                a.leading as i64,
                x.at,
                x.leading as i64,
            )
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
        let diagonal = c_int::from(triangle.has_ones());
        let function = self.trmm[kind::<T>()];
        // SAFETY: promised by the caller; numbers are read before the function returns.
        let status = unsafe {
            function(
                handle.0,
                0,
                fill_mode(triangle),
                code(a.op),
                diagonal,
                m as i64,
                n as i64,
                (&raw const alpha).cast(),
                a.at,
                a.leading as i64,
                x.at,
                x.leading as i64,
                x.at,
                x.leading as i64,
            )
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
        let one = T::ONE;
        let one = (&raw const one).cast();
        let function = self.geam[kind::<T>()];
        // SAFETY: promised by the caller; numbers are read before the function returns. The result may
        // be an operand that is not transposed.
        let status = unsafe {
            function(
                handle.0,
                0,
                code(a.op),
                m as i64,
                n as i64,
                one,
                c.at,
                c.leading as i64,
                one,
                a.at,
                a.leading as i64,
                c.at,
                c.leading as i64,
            )
        };
        self.check("geam", status)
    }
}

/// cublasHandle_t.
#[derive(Clone, Copy, Debug)]
pub struct BlasHandle(Handle);

/// cublasOperation_t. There is none for a conjugate that is not transposed.
fn code(op: Op) -> c_int {
    match op {
        Op::None => 0,
        Op::Transpose => 1,
        Op::Adjoint => 2,
        Op::Conjugate => unreachable!("a conjugate is made before"),
    }
}

fn kind<T: Scalar>() -> usize {
    match T::DTYPE {
        DType::F32 => 0,
        DType::C64 => 2,
        DType::C128 => 3,
        _ => 1,
    }
}
