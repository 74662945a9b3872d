//! A = Q R by Householder reflectors.

mod apply;
mod factor;
mod pairs;
mod reconstruct;
pub mod thin;
pub mod tsqr;

pub use apply::{apply, form, triangles};
pub use factor::{Scratch, elements, factor, factor_columns, panels};
