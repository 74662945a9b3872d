//! Cholesky: `A = L L^H`, then `L y = b`, `L^H x = y`.

mod factor;
mod mirror;
mod posv;
mod solve;

pub use factor::factor;
pub use mirror::mirror_triangle;
pub use posv::{Problem, ROUTINE, Rhs, tile_width};
pub use solve::{solve_columns, solve_shared};
