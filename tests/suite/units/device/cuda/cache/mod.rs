//! Tests of the cache of kernels.

mod entry;
