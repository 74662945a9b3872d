//! A = Q R by Householder reflectors.

mod apply;
mod factor;
pub mod groups;
mod lines;
mod pairs;
mod reconstruct;
mod stack;
pub mod thin;
pub mod tsqr;

pub use apply::{apply, form, triangles};
pub use factor::{Scratch, elements, factor, factor_columns, panels};
pub use lines::Lines;
