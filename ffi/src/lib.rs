//! The border to XLA and to Python: handlers, and the module `meshsolve._core`.

mod bridge;
mod python;

pub use python::symbol;
