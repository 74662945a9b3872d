//! Tests of the Rust code, except for state of the whole process (`tests/alone`). Those of parts of
//! the library are in `units`, those of CUDA in `kernels`. One program has all, because each
//! program compiles the library's generic functions again.

// Before all modules that use its macros.
include!(concat!("../common/types/", env!("TESTS_TYPES"), ".rs"));

mod algorithms;
mod baselines;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod communicator;
mod condition;
mod cuda_load;
mod grids;
mod hosts;
mod inverse;
#[path = "../kernels/mod.rs"]
mod kernels;
mod kinds;
mod layout;
mod layout_algebra;
mod layout_values;
mod lu;
mod lu_panel;
#[path = "../../benchmarks/native/src/cpu/mod.rs"]
#[allow(dead_code)]
mod measure;
mod norms;
mod properties;
mod reflect;
#[path = "../routines/mod.rs"]
mod routines;
mod small;
mod solve_lines;
mod tall;
mod transpose;
mod transpose_fast;
mod transpose_large;
mod transpose_panel;
mod transpose_skinny;
mod transpose_square;
#[path = "../transposition/mod.rs"]
mod transposition;
mod units;
mod update;

/// The solvers' routines on CPU devices, as call sites without XLA.
mod on_cpu_devices {
    crate::routines::every_routine!(None);

    #[test]
    fn other_eigenvectors_are_not_found() {
        crate::routines::eigenvectors::some_eigenvectors_alone::<f64>(None);
    }
}
