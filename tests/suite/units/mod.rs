//! Tests of parts of the library, in the tree of its modules.

mod algorithms;
mod device;
mod matrix;
mod processes;
mod routines;
mod transpose;

/// Calls a generic check with each scalar type.
macro_rules! every_scalar {
    ($check:ident) => {
        $check::<f32>();
        $check::<f64>();
        $check::<faer::c32>();
        $check::<faer::c64>();
    };
}
pub(crate) use every_scalar;
