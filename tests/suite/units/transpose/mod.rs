//! Tests of the parts of transpositions.

mod chains;
mod copies;
mod fine;
mod registers;
mod square;
mod tiles;
mod turns;

/// A test that runs `check::<V, S>` for every kind of vector that this machine has and every size
/// of an element.
macro_rules! every_instruction_set {
    ($check:ident) => {
        #[test]
        fn every_instruction_set() {
            fn sizes<V: Vector>() {
                $check::<V, 4>();
                $check::<V, 8>();
                $check::<V, 16>();
            }
            sizes::<[u64; 8]>();
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") {
                    sizes::<[std::arch::x86_64::__m256i; 2]>();
                }
                if is_x86_feature_detected!("avx512f") {
                    sizes::<std::arch::x86_64::__m512i>();
                }
            }
        }
    };
}
use every_instruction_set;
