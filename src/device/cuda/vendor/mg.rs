//! cuSolverMg: factorisations of a matrix that lies on several devices of one process, by whole calls. It
//! has a thread and streams of its own: what the devices have been given before must be done, and what it
//! returns from may not be.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use cudarc::cusolvermg::sys;

functions! {
    cusolverMgCreate cusolverMgDestroy cusolverMgDeviceSelect cusolverMgCreateDeviceGrid
    cusolverMgDestroyGrid cusolverMgCreateMatrixDesc cusolverMgDestroyMatrixDesc
    cusolverMgPotrf_bufferSize cusolverMgPotrf cusolverMgPotri_bufferSize cusolverMgPotri
    cusolverMgPotrs_bufferSize cusolverMgPotrs cusolverMgGetrf_bufferSize cusolverMgGetrf
    cusolverMgGetrs_bufferSize cusolverMgGetrs
}

const ALLOC_FAILED: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED as c_int;
/// What `potrf` returns for a matrix that is not positive definite.
const INTERNAL_ERROR: c_int = sys::cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR as c_int;
/// The only triangle that it takes.
const LOWER: sys::cublasFillMode_t = sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
/// The only operation that its getrs takes.
const AS_IT_IS: sys::cublasOperation_t = sys::cublasOperation_t::CUBLAS_OP_N;
const BY_COLUMNS: sys::cusolverMgGridMapping_t =
    sys::cusolverMgGridMapping_t::CUDALIBMG_GRID_MAPPING_COL_MAJOR;

pub struct Mg {
    functions: Functions,
    /// Grids that calls have used and left for the next ones, by their devices.
    kept: Mutex<HashMap<Vec<i32>, Vec<Grid>>>,
}

/// Devices in a row, of which one may stand there several times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Grid {
    handle: usize,
    grid: usize,
    devices: Vec<i32>,
}

/// A matrix whose columns are distributed to a grid's devices, so many at a time.
#[derive(Debug)]
pub struct Distributed {
    descriptor: usize,
    /// Where its first column lies on each device; columns lie one after the other.
    pub parts: Vec<Address>,
    cols: c_int,
    kind: sys::cudaDataType,
}

/// Memory of each device that a call works in, of so many elements.
pub struct Work<'a> {
    pub parts: &'a [Address],
    pub elements: usize,
}

/// What is done with all of a matrix.
#[derive(Clone, Copy, Debug)]
pub enum Whole<'a> {
    /// `A = L L^H` in the lower triangle.
    Potrf,
    /// The lower triangle of A^-1, from L.
    Potri,
    /// `A X = B` from L, with X in the place of B.
    Potrs(&'a Distributed),
    /// `P A = L U`; the numbers of interchanged rows, from 1, are distributed as A's columns are, int32.
    Getrf(&'a [Address]),
    /// The same from L, U and those numbers.
    Getrs(&'a [Address], &'a Distributed),
}

/// What a step has to tell.
pub enum Outcome {
    /// LAPACK's number.
    Info(usize),
    /// An error that a matrix leads to for which there is such a number, but none was told.
    Nothing(Error),
}

/// The function of a step, by its name, with the arguments that the library wants and the `last` ones; what
/// it returns, too.
macro_rules! step {
    (($mg:ident, $grid:ident, $a:ident, $step:ident), $potrf:ident, $potri:ident, $potrs:ident,
        $getrf:ident, $getrs:ident, ($($last:expr),*)) => {{
        let (f, h, n) = (&$mg.functions, raw($grid.handle), $a.cols);
        let (at, d, t) = (parts(&$a.parts), raw($a.descriptor), $a.kind);
        let side = |b: &Distributed| (b.cols, parts(&b.parts), raw(b.descriptor));
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
        }
    }};
}

/// Addresses of all devices' parts of something, which the library only reads.
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

    /// A grid of the devices with these numbers; one that is left from an earlier call if there is any.
    pub fn grid(&self, devices: Vec<i32>) -> Result<Grid> {
        if let Some(grid) = self.kept().get_mut(&devices).and_then(Vec::pop) {
            return Ok(grid);
        }
        let f = &self.functions;
        let mut made = Grid { handle: 0, grid: 0, devices };
        let (count, list) = (made.devices.len() as i32, made.devices.as_mut_ptr());
        // SAFETY: valid places, and as many numbers as are said.
        unsafe {
            let status = call!(f, cusolverMgCreate((&raw mut made.handle).cast()));
            self.check("cusolverMgCreate", status)?;
            let handle = raw(made.handle);
            let selected = call!(f, cusolverMgDeviceSelect(handle, count, list));
            let created = self.check("cusolverMgDeviceSelect", selected).and_then(|()| {
                let grid = (&raw mut made.grid).cast();
                let status = call!(f, cusolverMgCreateDeviceGrid(grid, 1, count, list, BY_COLUMNS));
                self.check("cusolverMgCreateDeviceGrid", status)
            });
            if created.is_err() {
                call!(f, cusolverMgDestroy(handle));
            }
            created.map(|()| made)
        }
    }

    /// Keeps a grid for the next call, when its devices have done all work.
    pub fn keep(&self, grid: Grid) {
        self.kept().entry(grid.devices.clone()).or_default().push(grid);
    }

    /// Gives back what a grid holds.
    pub fn destroy(&self, grid: Grid) -> Result<()> {
        // SAFETY: both are not used any more.
        unsafe {
            let status = call!(self.functions, cusolverMgDestroyGrid(raw(grid.grid)));
            let destroyed = call!(self.functions, cusolverMgDestroy(raw(grid.handle)));
            self.check("cusolverMgDestroyGrid", status)?;
            self.check("cusolverMgDestroy", destroyed)
        }
    }

    /// A matrix of `rows` rows, whose `cols` columns are distributed `width` at a time to `parts`.
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
        let mut descriptor = 0;
        // SAFETY: a valid place.
        let status = unsafe {
            let (out, grid) = ((&raw mut descriptor).cast(), raw(grid.grid));
            call!(self.functions, cusolverMgCreateMatrixDesc(out, m, n, m, width, kind, grid))
        };
        self.check("cusolverMgCreateMatrixDesc", status)?;
        Ok(Distributed { descriptor, parts, cols, kind })
    }

    /// Gives back what a matrix's description holds.
    pub fn forget(&self, matrix: Distributed) -> Result<()> {
        // SAFETY: it is not used any more.
        let status =
            unsafe { call!(self.functions, cusolverMgDestroyMatrixDesc(raw(matrix.descriptor))) };
        self.check("cusolverMgDestroyMatrixDesc", status)
    }

    /// Elements of memory on each device that a step on the square matrix A works in.
    pub fn work(&self, grid: &Grid, a: &Distributed, step: Whole) -> Result<usize> {
        let mut elements = 0;
        // SAFETY: a valid place, and as many parts as devices, whose memory is not followed.
        let (function, status) = unsafe {
            step!(
                (self, grid, a, step),
                cusolverMgPotrf_bufferSize,
                cusolverMgPotri_bufferSize,
                cusolverMgPotrs_bufferSize,
                cusolverMgGetrf_bufferSize,
                cusolverMgGetrs_bufferSize,
                (&mut elements)
            )
        };
        self.check(function, status)?;
        Ok(elements.max(0) as usize)
    }

    /// Does a step on the square matrix A.
    ///
    /// # Safety
    /// All parts are there on the grid's devices, in its order, and nobody else's until these have done
    /// all work.
    pub unsafe fn run(
        &self,
        grid: &Grid,
        a: &Distributed,
        step: Whole,
        work: Work,
    ) -> Result<Outcome> {
        let mut info = 0;
        // SAFETY: promised by the caller, and a valid place.
        let (function, status) = unsafe {
            step!(
                (self, grid, a, step),
                cusolverMgPotrf,
                cusolverMgPotri,
                cusolverMgPotrs,
                cusolverMgGetrf,
                cusolverMgGetrs,
                (parts(work.parts), work.elements as i64, &mut info)
            )
        };
        match (step, status, self.check(function, status)) {
            // The matrix may be to blame.
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
