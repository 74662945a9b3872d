//! cuSolverMg: factorisations of a matrix distributed over several devices of one process, in one
//! call each. It has a thread and streams of its own. So the devices must have done their earlier
//! work, and work that it returns from may still run.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use cudarc::cusolvermg::sys;

functions! {
    cusolverMgCreate cusolverMgDestroy cusolverMgDeviceSelect cusolverMgCreateDeviceGrid
    cusolverMgDestroyGrid cusolverMgCreateMatrixDesc cusolverMgDestroyMatrixDesc
    cusolverMgPotrf_bufferSize cusolverMgPotrf cusolverMgPotri_bufferSize cusolverMgPotri
    cusolverMgPotrs_bufferSize cusolverMgPotrs cusolverMgGetrf_bufferSize cusolverMgGetrf
    cusolverMgGetrs_bufferSize cusolverMgGetrs cusolverMgSyevd_bufferSize cusolverMgSyevd
}

const ALLOC_FAILED: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED as c_int;
/// The status of `potrf` for a matrix that is not positive definite.
const INTERNAL_ERROR: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR as c_int;
/// The only triangle that it takes.
const LOWER: sys::cublasFillMode_t = sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
const NO_VECTORS: sys::cusolverEigMode_t = sys::cusolverEigMode_t::CUSOLVER_EIG_MODE_NOVECTOR;
const VECTORS: sys::cusolverEigMode_t = sys::cusolverEigMode_t::CUSOLVER_EIG_MODE_VECTOR;
/// The only operation that its getrs takes.
const AS_IT_IS: sys::cublasOperation_t = sys::cublasOperation_t::CUBLAS_OP_N;
const BY_COLUMNS: sys::cusolverMgGridMapping_t =
    sys::cusolverMgGridMapping_t::CUDALIBMG_GRID_MAPPING_COL_MAJOR;

pub struct Mg {
    functions: Functions,
    /// Grids that calls have used and left for the next ones, by their devices.
    kept: Mutex<HashMap<Vec<i32>, Vec<Grid>>>,
}

/// Devices in a row. A device may occur several times.
#[derive(Debug)]
pub struct Grid {
    handle: Handle<sys::cusolverMgHandle_t>,
    /// cudarc has one type, a pointer to void, for this and for the descriptor of [`Distributed`].
    grid: Handle<sys::cudaLibMgGrid_t>,
    devices: Vec<i32>,
}

/// A matrix with columns that are distributed to a grid's devices, so many at a time.
#[derive(Debug)]
pub struct Distributed {
    descriptor: Handle<sys::cudaLibMgMatrixDesc_t>,
    /// The address of its first column on each device. Columns follow one another.
    pub parts: Vec<Address>,
    cols: c_int,
    kind: sys::cudaDataType,
}

/// Workspace on each device, of so many elements.
pub struct Work<'a> {
    pub parts: &'a [Address],
    pub elements: usize,
}

/// The step on all of a matrix.
#[derive(Clone, Copy, Debug)]
pub enum Whole<'a> {
    /// `A = L L^H` in the lower triangle.
    Potrf,
    /// The lower triangle of A^-1, from L.
    Potri,
    /// `A X = B` from L, with X in the place of B.
    Potrs(&'a Distributed),
    /// `P A = L U`. The numbers of interchanged rows, from 1, are distributed as A's columns are;
    /// int32.
    Getrf(&'a [Address]),
    /// `A X = B` from L, U and those numbers.
    Getrs(&'a [Address], &'a Distributed),
    /// The eigenvalues of A from its lower triangle, to memory of the host, and V in the place of A.
    /// Without vectors A is lost.
    Syevd { vectors: bool, values: *mut c_void },
}

/// The result of a step.
pub enum Outcome {
    /// LAPACK's `info`.
    Info(usize),
    /// An error for a matrix that should have an `info`, but the library has given none.
    Nothing(Error),
}

/// Calls the function of a step with the library's arguments and the `last` ones. The value is its
/// name and its status.
macro_rules! step {
    (($mg:ident, $grid:ident, $a:ident, $step:ident), $potrf:ident, $potri:ident, $potrs:ident,
        $getrf:ident, $getrs:ident, $syevd:ident, ($($last:expr),*)) => {{
        let (f, h, n) = (&$mg.functions, $grid.handle.raw(), $a.cols);
        let (at, d, t) = (parts(&$a.parts), $a.descriptor.raw(), $a.kind);
        let side = |b: &Distributed| (b.cols, parts(&b.parts), b.descriptor.raw());
        match $step {
            Whole::Potrf => {
                (stringify!($potrf), call!(f, $potrf(h, LOWER, n, at, 1, 1, d, t, $($last),*)))
            }
            Whole::Potri => {
                (stringify!($potri), call!(f, $potri(h, LOWER, n, at, 1, 1, d, t, $($last),*)))
            }
            Whole::Potrs(b) => {
                let (k, x, e) = side(b);
                let status =
                    call!(f, $potrs(h, LOWER, n, k, at, 1, 1, d, x, 1, 1, e, t, $($last),*));
                (stringify!($potrs), status)
            }
            Whole::Getrf(rows) => {
                let r = parts(rows);
                (stringify!($getrf), call!(f, $getrf(h, n, n, at, 1, 1, d, r, t, $($last),*)))
            }
            Whole::Getrs(rows, b) => {
                let ((k, x, e), r) = (side(b), parts(rows));
                let status =
                    call!(f, $getrs(h, AS_IT_IS, n, k, at, 1, 1, d, r, x, 1, 1, e, t, $($last),*));
                (stringify!($getrs), status)
            }
            Whole::Syevd { vectors, values } => {
                let (mode, real) = (if vectors { VECTORS } else { NO_VECTORS }, real_type(t));
                let status =
                    call!(f, $syevd(h, mode, LOWER, n, at, 1, 1, d, values, real, t, $($last),*));
                (stringify!($syevd), status)
            }
        }
    }};
}

/// The type of real numbers in the precision of another.
fn real_type(kind: sys::cudaDataType) -> sys::cudaDataType {
    match kind {
        sys::cudaDataType::CUDA_R_32F | sys::cudaDataType::CUDA_C_32F => {
            sys::cudaDataType::CUDA_R_32F
        }
        _ => sys::cudaDataType::CUDA_R_64F,
    }
}

/// Addresses of the parts on all devices. The library only reads this list.
fn parts<T>(parts: &[Address]) -> *mut *mut T {
    parts.as_ptr().cast_mut().cast()
}

impl Mg {
    pub(super) fn of(library: &Library) -> Result<Mg> {
        Ok(Mg { functions: Functions::of(library)?, kept: Mutex::default() })
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => Err(failed("cuSolverMg", function, status, "", status == ALLOC_FAILED)),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<i32>, Vec<Grid>>> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A grid of the devices with these numbers. It reuses one that an earlier call has left.
    pub fn grid(&self, mut devices: Vec<i32>) -> Result<Grid> {
        if let Some(grid) = self.kept().get_mut(&devices).and_then(Vec::pop) {
            return Ok(grid);
        }
        let f = &self.functions;
        let (mut handle, mut grid) = (null_mut(), null_mut());
        let (count, list) = (devices.len() as i32, devices.as_mut_ptr());
        // SAFETY: writes local variables; the list has `count` numbers. Both objects exist until
        // `destroy` takes them by value.
        unsafe {
            self.check("cusolverMgCreate", call!(f, cusolverMgCreate(&mut handle)))?;
            let selected = call!(f, cusolverMgDeviceSelect(handle, count, list));
            let created = self.check("cusolverMgDeviceSelect", selected).and_then(|()| {
                let out = &mut grid;
                let status = call!(f, cusolverMgCreateDeviceGrid(out, 1, count, list, BY_COLUMNS));
                self.check("cusolverMgCreateDeviceGrid", status)
            });
            if created.is_err() {
                call!(f, cusolverMgDestroy(handle));
            }
            created?;
            Ok(Grid { handle: Handle::new(handle), grid: Handle::new(grid), devices })
        }
    }

    /// Keeps a grid for the next call. Its devices must have done all work.
    pub fn keep(&self, grid: Grid) {
        self.kept().entry(grid.devices.clone()).or_default().push(grid);
    }

    pub fn destroy(&self, grid: Grid) -> Result<()> {
        // SAFETY: `grid` has made both. The caller gives them up.
        unsafe {
            let status = call!(self.functions, cusolverMgDestroyGrid(grid.grid.raw()));
            let destroyed = call!(self.functions, cusolverMgDestroy(grid.handle.raw()));
            self.check("cusolverMgDestroyGrid", status)?;
            self.check("cusolverMgDestroy", destroyed)
        }
    }

    /// A matrix of `rows` rows. Its `cols` columns are distributed to `parts`, `width` at a time.
    pub fn matrix<T: Scalar>(
        &self,
        grid: &Grid,
        [rows, cols]: [usize; 2],
        width: usize,
        parts: Vec<Address>,
    ) -> Result<Distributed> {
        let kind = data_type!(T);
        let [m, n, width] = [rows, cols, width].map(|size| size as i64);
        let cols = i32::try_from(rows.max(cols)).map(|_| cols as c_int).map_err(|_| {
            let text = format!(
                "meshsolve: cuSolverMg: expected rows and columns below 2^31, got {rows} x {cols}; \
                 leave engine=None"
            );
            Error::invalid(text)
        })?;
        let mut descriptor = null_mut();
        // SAFETY: the grid exists until `destroy` takes it by value. Writes a local variable. The
        // descriptor exists until `forget` takes it by value.
        let descriptor = unsafe {
            let (out, grid) = (&mut descriptor, grid.grid.raw());
            let status =
                call!(self.functions, cusolverMgCreateMatrixDesc(out, m, n, m, width, kind, grid));
            self.check("cusolverMgCreateMatrixDesc", status)?;
            Handle::new(descriptor)
        };
        Ok(Distributed { descriptor, parts, cols, kind })
    }

    /// Destroys a matrix's description.
    pub fn forget(&self, matrix: Distributed) -> Result<()> {
        let descriptor = matrix.descriptor.raw();
        // SAFETY: `matrix` has made it. The caller gives it up.
        let status = unsafe { call!(self.functions, cusolverMgDestroyMatrixDesc(descriptor)) };
        self.check("cusolverMgDestroyMatrixDesc", status)
    }

    /// Elements of workspace on each device for a step on the square matrix A.
    pub fn work(&self, grid: &Grid, a: &Distributed, step: Whole) -> Result<usize> {
        let mut elements = 0;
        // SAFETY: grid and matrices exist until `destroy` and `forget` take them by value. Writes a
        // local variable. A part for each device; their memory is not read.
        let (function, status) = unsafe {
            step!(
                (self, grid, a, step),
                cusolverMgPotrf_bufferSize,
                cusolverMgPotri_bufferSize,
                cusolverMgPotrs_bufferSize,
                cusolverMgGetrf_bufferSize,
                cusolverMgGetrs_bufferSize,
                cusolverMgSyevd_bufferSize,
                (&mut elements)
            )
        };
        self.check(function, status)?;
        Ok(elements.max(0) as usize)
    }

    /// Does a step on the square matrix A.
    ///
    /// # Safety
    /// All parts exist on the grid's devices, in its order, and memory of the host for values. No other
    /// work uses them until these have done all work.
    pub unsafe fn run(
        &self,
        grid: &Grid,
        a: &Distributed,
        step: Whole,
        work: Work,
    ) -> Result<Outcome> {
        let mut info = 0;
        // SAFETY: the caller promises all parts. Grid and matrices exist until `destroy` and
        // `forget` take them by value; `info` is local.
        let (function, status) = unsafe {
            step!(
                (self, grid, a, step),
                cusolverMgPotrf,
                cusolverMgPotri,
                cusolverMgPotrs,
                cusolverMgGetrf,
                cusolverMgGetrs,
                cusolverMgSyevd,
                (parts(work.parts), work.elements as i64, &mut info)
            )
        };
        match (step, status, self.check(function, status)) {
            // The matrix may be the cause.
            (Whole::Potrf, INTERNAL_ERROR, Err(error)) if info == 0 => {
                return Ok(Outcome::Nothing(error));
            }
            (Whole::Potrf, INTERNAL_ERROR, _) => {}
            (_, _, checked) => checked?,
        }
        usize::try_from(info).map(Outcome::Info).map_err(|_| {
            let text = format!(
                "meshsolve: cuSolverMg: expected arguments that {function} takes, got info = {info}; \
                 this is a defect of meshsolve"
            );
            Error::new(Kind::Internal, text)
        })
    }
}
