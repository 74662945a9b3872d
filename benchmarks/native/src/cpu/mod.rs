//! On CPU devices.

pub mod baselines;
pub mod peak;
