//! Measurements on CPU devices.

pub mod baselines;
pub mod peak;
pub mod products;
