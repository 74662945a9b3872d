//! Distributed algorithms, written once, generic over backend and scalar.

pub mod cholesky;
pub mod redistribute;
pub mod transpose_shards;
pub mod transpose_square;
