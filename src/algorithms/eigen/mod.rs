//! Eigenvalues of a Hermitian matrix: A = Q B Q^H with a band matrix B, which sweeps make
//! tridiagonal ([`Worker::tridiagonal`](crate::device::Worker::tridiagonal)), and its values. A small A
//! becomes tridiagonal in one stage.

mod assemble;
mod back;
mod band;
mod function;
mod leading;
mod one_stage;
mod scratch;
mod values;

pub use assemble::assemble;
pub use back::apply_panels;
pub use band::reduce_to_band;
pub use function::{Function, Weights};
pub use leading::Leading;
pub use one_stage::reduce_to_tridiagonal;
pub use scratch::{Extent, Scratch};
pub use values::eigenvalues;
