//! Routines as data. Python's operations, the reference of the FFI target and tests are made from it.

/// A routine without what it does.
#[derive(Clone, Debug, Default)]
pub struct Description {
    pub summary: &'static str,
    /// The factorisation that it makes or uses, or what it does instead.
    pub family: &'static str,
    /// The operands after `place`.
    pub operands: Vec<Array>,
    pub results: Vec<Array>,
    /// The attributes that it has in addition to those of all routines.
    pub attributes: Vec<&'static str>,
    pub stages: Vec<&'static str>,
    /// Whether an A by rows, which is A^T, is first transposed across the shards.
    pub upright: bool,
    /// Whether it works over processes.
    pub across: bool,
    /// What it requires of its matrix, beyond the checks of every call: "square", "whole columns".
    pub requires: Vec<&'static str>,
}

/// An operand or result.
#[derive(Clone, Debug)]
pub struct Array {
    pub name: &'static str,
    pub kind: &'static str,
    /// "a" (those of A), "real" (real ones in A's precision) or "int32".
    pub elements: &'static str,
    /// The extents of the whole array, for A of m x n and k right-hand sides.
    pub shape: Vec<&'static str>,
    /// The operand that a result starts as, and whose memory it may take.
    pub from: Option<usize>,
}
