//! Switches the included source to loom's primitives, for this crate only.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=loom");
}
