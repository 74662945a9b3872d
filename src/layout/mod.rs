//! Index maths of the distributed layout. Pure integers: no data, no devices.

mod columns;

pub use columns::{Columns, Order, Tile};
