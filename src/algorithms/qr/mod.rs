//! A = Q R by Householder reflectors.

mod apply;
pub mod by_columns;
pub mod by_rows;

pub use apply::{apply, form, triangles};
