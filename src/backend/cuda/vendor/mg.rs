//! cuSolverMg: factorisations of a matrix that lies on several devices of one process, by whole calls. It
//! has a thread and streams of its own: what the devices have been given before must be done, and what it
//! returns from may not be.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::backend::cuda::load::functions;

type Handle = usize;
/// Addresses of all devices' parts of something.
type Parts = *const Address;

functions! {
    cusolverMgCreate(*mut Handle) -> c_int;
    cusolverMgDestroy(Handle) -> c_int;
    cusolverMgDeviceSelect(Handle, c_int, *const c_int) -> c_int;
    cusolverMgCreateDeviceGrid(*mut Handle, i32, i32, *const i32, c_int) -> c_int;
    cusolverMgDestroyGrid(Handle) -> c_int;
    cusolverMgCreateMatrixDesc(*mut Handle, i64, i64, i64, i64, c_int, Handle) -> c_int;
    cusolverMgDestroyMatrixDesc(Handle) -> c_int;
    cusolverMgPotrf_bufferSize(Handle, c_int, c_int, Parts, c_int, c_int, Handle, c_int, *mut i64)
        -> c_int;
    cusolverMgPotrf(Handle, c_int, c_int, Parts, c_int, c_int, Handle, c_int, Parts, i64, *mut c_int)
        -> c_int;
    cusolverMgPotri_bufferSize(Handle, c_int, c_int, Parts, c_int, c_int, Handle, c_int, *mut i64)
        -> c_int;
    cusolverMgPotri(Handle, c_int, c_int, Parts, c_int, c_int, Handle, c_int, Parts, i64, *mut c_int)
        -> c_int;
    cusolverMgPotrs_bufferSize(Handle, c_int, c_int, c_int, Parts, c_int, c_int, Handle, Parts, c_int,
        c_int, Handle, c_int, *mut i64) -> c_int;
    cusolverMgPotrs(Handle, c_int, c_int, c_int, Parts, c_int, c_int, Handle, Parts, c_int, c_int,
        Handle, c_int, Parts, i64, *mut c_int) -> c_int;
    cusolverMgGetrf_bufferSize(Handle, c_int, c_int, Parts, c_int, c_int, Handle, Parts, c_int,
        *mut i64) -> c_int;
    cusolverMgGetrf(Handle, c_int, c_int, Parts, c_int, c_int, Handle, Parts, c_int, Parts, i64,
        *mut c_int) -> c_int;
    cusolverMgGetrs_bufferSize(Handle, c_int, c_int, c_int, Parts, c_int, c_int, Handle, Parts, Parts,
        c_int, c_int, Handle, c_int, *mut i64) -> c_int;
    cusolverMgGetrs(Handle, c_int, c_int, c_int, Parts, c_int, c_int, Handle, Parts, Parts, c_int,
        c_int, Handle, c_int, Parts, i64, *mut c_int) -> c_int;
}

const ALLOC_FAILED: c_int = 2;
/// CUSOLVER_STATUS_INTERNAL_ERROR, which `potrf` returns for a matrix that is not positive definite.
const INTERNAL_ERROR: c_int = 7;
/// CUBLAS_FILL_MODE_LOWER, the only triangle that it takes.
const LOWER: c_int = 0;
/// CUBLAS_OP_N, the only operation that its getrs takes.
const AS_IT_IS: c_int = 0;
/// CUDALIBMG_GRID_MAPPING_COL_MAJOR.
const BY_COLUMNS: c_int = 0;

pub struct Mg {
    functions: Functions,
    /// Grids that calls have used and left for the next ones, by their devices.
    kept: Mutex<HashMap<Vec<i32>, Vec<Grid>>>,
}

/// Devices in a row, of which one may stand there several times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Grid {
    handle: Handle,
    grid: Handle,
    devices: Vec<i32>,
}

/// A matrix whose columns are dealt to a grid's devices, so many at a time.
#[derive(Debug)]
pub struct Dealt {
    descriptor: Handle,
    /// Where its first column lies on each device; columns lie one after the other.
    pub parts: Vec<Address>,
    cols: c_int,
    kind: c_int,
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
    Potrs(&'a Dealt),
    /// `P A = L U`; the numbers of interchanged rows, from 1, are dealt as A's columns are, int32.
    Getrf(&'a [Address]),
    /// The same from L, U and those numbers.
    Getrs(&'a [Address], &'a Dealt),
}

/// What a step has to tell.
pub enum Said {
    /// LAPACK's number.
    Info(usize),
    /// An error that a matrix leads to for which there is such a number, but none was told.
    Nothing(Error),
}

/// The function of a step, by its name, with the arguments that the library wants and the `last` ones; what
/// it returns, too.
macro_rules! call {
    (($mg:ident, $grid:ident, $a:ident, $step:ident), $potrf:ident, $potri:ident, $potrs:ident,
        $getrf:ident, $getrs:ident, ($($last:expr),*)) => {{
        let (f, h, n) = (&$mg.functions, $grid.handle, $a.cols);
        let (at, d, t) = ($a.parts.as_ptr(), $a.descriptor, $a.kind);
        let side = |b: &Dealt| (b.cols, b.parts.as_ptr(), b.descriptor);
        match $step {
            Whole::Potrf => {
                (stringify!($potrf), (f.$potrf)(h, LOWER, n, at, 1, 1, d, t, $($last),*))
            }
            Whole::Potri => {
                (stringify!($potri), (f.$potri)(h, LOWER, n, at, 1, 1, d, t, $($last),*))
            }
            Whole::Potrs(b) => {
                let (k, x, e) = side(b);
                let status = (f.$potrs)(h, LOWER, n, k, at, 1, 1, d, x, 1, 1, e, t, $($last),*);
                (stringify!($potrs), status)
            }
            Whole::Getrf(rows) => {
                let r = rows.as_ptr();
                (stringify!($getrf), (f.$getrf)(h, n, n, at, 1, 1, d, r, t, $($last),*))
            }
            Whole::Getrs(rows, b) => {
                let ((k, x, e), r) = (side(b), rows.as_ptr());
                let status =
                    (f.$getrs)(h, AS_IT_IS, n, k, at, 1, 1, d, r, x, 1, 1, e, t, $($last),*);
                (stringify!($getrs), status)
            }
        }
    }};
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
        let functions = &self.functions;
        let mut made = Grid { handle: 0, grid: 0, devices };
        let (count, list) = (made.devices.len() as i32, made.devices.as_ptr());
        // SAFETY: valid places, and as many numbers as are said.
        unsafe {
            self.check("cusolverMgCreate", (functions.cusolverMgCreate)(&mut made.handle))?;
            let selected = (functions.cusolverMgDeviceSelect)(made.handle, count, list);
            let created = self.check("cusolverMgDeviceSelect", selected).and_then(|()| {
                let status = (functions.cusolverMgCreateDeviceGrid)(
                    &mut made.grid,
                    1,
                    count,
                    list,
                    BY_COLUMNS,
                );
                self.check("cusolverMgCreateDeviceGrid", status)
            });
            if created.is_err() {
                (functions.cusolverMgDestroy)(made.handle);
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
            let status = (self.functions.cusolverMgDestroyGrid)(grid.grid);
            let destroyed = (self.functions.cusolverMgDestroy)(grid.handle);
            self.check("cusolverMgDestroyGrid", status)?;
            self.check("cusolverMgDestroy", destroyed)
        }
    }

    /// A matrix of `rows` rows, whose `cols` columns are dealt `width` at a time to `parts`.
    pub fn matrix<T: Scalar>(
        &self,
        grid: &Grid,
        [rows, cols]: [usize; 2],
        width: usize,
        parts: Vec<Address>,
    ) -> Result<Dealt> {
        let kind = data_type(T::DTYPE);
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
            let create = self.functions.cusolverMgCreateMatrixDesc;
            create(&mut descriptor, m, n, m, width, kind, grid.grid)
        };
        self.check("cusolverMgCreateMatrixDesc", status)?;
        Ok(Dealt { descriptor, parts, cols, kind })
    }

    /// Gives back what a matrix's description holds.
    pub fn forget(&self, matrix: Dealt) -> Result<()> {
        // SAFETY: it is not used any more.
        let status = unsafe { (self.functions.cusolverMgDestroyMatrixDesc)(matrix.descriptor) };
        self.check("cusolverMgDestroyMatrixDesc", status)
    }

    /// Elements of memory on each device that a step on the square matrix A works in.
    pub fn work(&self, grid: &Grid, a: &Dealt, step: Whole) -> Result<usize> {
        let mut elements = 0;
        // SAFETY: a valid place, and as many parts as devices, whose memory is not followed.
        let (function, status) = unsafe {
            call!(
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
    pub unsafe fn run(&self, grid: &Grid, a: &Dealt, step: Whole, work: Work) -> Result<Said> {
        let mut info = 0;
        // SAFETY: promised by the caller, and a valid place.
        let (function, status) = unsafe {
            call!(
                (self, grid, a, step),
                cusolverMgPotrf,
                cusolverMgPotri,
                cusolverMgPotrs,
                cusolverMgGetrf,
                cusolverMgGetrs,
                (work.parts.as_ptr(), work.elements as i64, &mut info)
            )
        };
        match (step, status, self.check(function, status)) {
            // The matrix may be to blame.
            (Whole::Potrf, INTERNAL_ERROR, Err(error)) if info == 0 => {
                return Ok(Said::Nothing(error));
            }
            (Whole::Potrf, INTERNAL_ERROR, _) => {}
            (_, _, checked) => checked?,
        }
        usize::try_from(info).map(Said::Info).map_err(|_| {
            let text = format!(
                "meshsolve: cuSolverMg: expected arguments that {function} takes, got info = {info}; \
                 this is a defect of meshsolve"
            );
            Error::new(Kind::Internal, text)
        })
    }
}
