// Tests of generic functions have all types.

/// Code for these types, if this program has tests of them.
#[allow(unused_macros)]
macro_rules! f64_and_c64 {
    ($($code:tt)*) => { $($code)* };
}

/// Code for these types, if this program has tests of them.
#[allow(unused_macros)]
macro_rules! f32_and_c128 {
    ($($code:tt)*) => { $($code)* };
}
