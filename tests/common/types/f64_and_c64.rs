// Tests of generic functions have these types (see `all.rs`).

#[allow(unused_macros)]
macro_rules! f64_and_c64 {
    ($($code:tt)*) => { $($code)* };
}

#[allow(unused_macros)]
macro_rules! f32_and_c128 {
    ($($code:tt)*) => {};
}
