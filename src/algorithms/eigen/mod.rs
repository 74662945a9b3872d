//! Eigenvalues of a Hermitian matrix: A = Q B Q^H with a band matrix B, which sweeps make
//! tridiagonal ([`Worker::tridiagonal`](crate::device::Worker::tridiagonal)), and its values.

mod band;
mod leading;
mod values;

pub use band::{Extent, Scratch, reduce_to_band};
pub use leading::Leading;
pub use values::eigenvalues;
