//! ScaLAPACK's routines and its grids of processes, by the names of the library's symbols.
//!
//! Parameters are ScaLAPACK's (its users' guide, scalapack.pdf, and the comments of its routines).
//! Matrices have a grid of 1 x P processes, so that each has whole columns.

use std::ffi::{c_char, c_int, c_void};

use super::library::functions;
use super::moves::Cyclic;
use super::mpi::Communicator;
use crate::error::{Error, Kind, Result};
use crate::scalar::{DType, Scalar};

type Number = *const c_int;
type Text = *const c_char;
type Array = *mut c_void;

functions!(Routines {
    potrs = "potrs_"(
        Text, Number, Number, Array, Number, Number, Number,
        Array, Number, Number, Number, *mut c_int,
    );
    potri = "potri_"(Text, Number, Array, Number, Number, Number, *mut c_int);
    getrs = "getrs_"(
        Text, Number, Number, Array, Number, Number, Number, *const c_int,
        Array, Number, Number, Number, *mut c_int,
    );
    getri = "getri_"(
        Number, Array, Number, Number, Number, *const c_int,
        Array, Number, *mut c_int, Number, *mut c_int,
    );
    trtrs = "trtrs_"(
        Text, Text, Text, Number, Number, Array, Number, Number, Number,
        Array, Number, Number, Number, *mut c_int,
    );
    geqrf = "geqrf_"(
        Number, Number, Array, Number, Number, Number, Array, Array, Number, *mut c_int,
    );
});

functions!(Reflectors {
    form = "gqr_"(
        Number, Number, Number, Array, Number, Number, Number, Array,
        Array, Number, *mut c_int,
    );
    apply = "mqr_"(
        Text, Text, Number, Number, Number, Array, Number, Number, Number, Array,
        Array, Number, Number, Number, Array, Number, *mut c_int,
    );
});

functions!(RealEigen {
    values = "syev_"(
        Text, Text, Number, Array, Number, Number, Number, Array,
        Array, Number, Number, Number, Array, Number, *mut c_int,
    );
    vectors = "syevd_"(
        Text, Text, Number, Array, Number, Number, Number, Array,
        Array, Number, Number, Number, Array, Number, *mut c_int, Number, *mut c_int,
    );
});

functions!(ComplexEigen {
    values = "heev_"(
        Text, Text, Number, Array, Number, Number, Number, Array,
        Array, Number, Number, Number, Array, Number, Array, Number, *mut c_int,
    );
    vectors = "heevd_"(
        Text, Text, Number, Array, Number, Number, Number, Array,
        Array, Number, Number, Number, Array, Number, Array, Number, *mut c_int, Number, *mut c_int,
    );
});

/// The routines for Hermitian eigenproblems: those of complex matrices have real work in addition.
#[derive(Clone, Copy)]
pub enum Eigen {
    Real(RealEigen),
    Complex(ComplexEigen),
}

functions!(Blacs {
    handle = "Csys2blacs_handle"(usize);
    map = "Cblacs_gridmap"(*mut c_int, *const c_int, c_int, c_int, c_int);
});

/// The library that is loaded.
#[derive(Clone, Copy)]
pub struct Scalapack {
    of_dtype: [Routines; 4],
    reflectors: [Reflectors; 4],
    eigen: [Eigen; 4],
    blacs: Blacs,
}

impl Scalapack {
    pub fn find() -> Result<Scalapack> {
        let [s, d, c, z] = ["ps", "pd", "pc", "pz"].map(Routines::load);
        let real = |prefix| RealEigen::load(prefix).map(Eigen::Real);
        let complex = |prefix| ComplexEigen::load(prefix).map(Eigen::Complex);
        let eigen = [real("ps")?, real("pd")?, complex("pc")?, complex("pz")?];
        let of_dtype = [s?, d?, c?, z?];
        // Orthogonal matrices, and unitary ones.
        let [s, d, c, z] = ["psor", "pdor", "pcun", "pzun"].map(Reflectors::load);
        let reflectors = [s?, d?, c?, z?];
        Ok(Scalapack { of_dtype, reflectors, eigen, blacs: Blacs::load("")? })
    }

    /// A grid of 1 x P processes, in the order of a communicator.
    pub fn grid(&self, ranks: &Communicator) -> c_int {
        let order: Vec<c_int> = (0..ranks.size() as c_int).collect();
        // SAFETY: the functions of those names. All processes of the communicator call this.
        unsafe {
            let mut context = (self.blacs.handle)(ranks.handle());
            (self.blacs.map)(&mut context, order.as_ptr(), 1, 1, ranks.size() as c_int);
            context
        }
    }

    pub fn routines<T: Scalar>(&self) -> &Routines {
        &self.of_dtype[place::<T>()]
    }

    pub fn reflectors<T: Scalar>(&self) -> &Reflectors {
        &self.reflectors[place::<T>()]
    }

    pub fn eigen<T: Scalar>(&self) -> &Eigen {
        &self.eigen[place::<T>()]
    }
}

/// The place of a type in tables by dtype.
fn place<T: Scalar>() -> usize {
    match T::DTYPE {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::C64 => 2,
        _ => 3,
    }
}

/// ScaLAPACK's description of a distributed matrix.
#[derive(Clone, Copy)]
pub struct Descriptor([c_int; 9]);

impl Descriptor {
    /// Of a matrix of which each process has whole columns. `rows_of_tile` cuts its rows.
    pub fn new(context: c_int, of: &Cyclic, rows_of_tile: usize) -> Descriptor {
        let [rows, columns, tall, wide, leading] =
            [of.rows, of.columns, rows_of_tile, of.width, of.rows.max(1)].map(|x| x as c_int);
        Descriptor([1, context, rows, columns, tall.max(1), wide.max(1), 0, 0, leading])
    }

    pub fn as_ptr(&self) -> *const c_int {
        self.0.as_ptr()
    }
}

/// The `info` of a routine; a negative one names a wrong parameter.
pub fn checked(name: &str, info: c_int) -> Result<usize> {
    usize::try_from(info).map_err(|_| {
        let text = format!(
            "meshsolve: ScaLAPACK's {name} refuses its parameter {}; please report it as a defect of \
             meshsolve",
            -info
        );
        Error::new(Kind::Internal, text)
    })
}
