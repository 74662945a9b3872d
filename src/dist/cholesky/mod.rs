//! Cholesky: `A = L L^H`, then `L y = b`, `L^H x = y`.

mod factor;
mod forecast;
mod job;
mod mirror;
mod operands;
mod solve;
mod verbs;

pub use factor::factor;
pub use forecast::Forecast;
pub use mirror::mirror_triangle;
pub use solve::{solve_columns, solve_shared};
pub use verbs::{ROUTINES, tile_width};
