//! Vectors of real numbers.

use faer::traits::ComplexField;
use pulp::Simd;

/// A vector of the real numbers that elements consist of.
pub type Vector<T, S> = <<T as ComplexField>::Real as Lanes>::Vector<S>;

/// A real number, of which a register of an instruction set S holds a vector.
pub trait Lanes: bytemuck::Pod + Send + Sync + Into<f64> {
    type Vector<S: Simd>: bytemuck::Pod;

    /// 1, or -1 if `negated`.
    fn sign(negated: bool) -> Self;
    /// `x` in each lane.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b + c`, rounded once.
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// The sum of all lanes.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    /// The first numbers, at most as many as a vector has, and zeros after them.
    fn load_part<S: Simd>(simd: S, from: &[Self]) -> Self::Vector<S>;
    /// Writes what `load_part` reads.
    fn store_part<S: Simd>(simd: S, to: &mut [Self], a: Self::Vector<S>);
    /// i times the complex numbers of which the lanes are the parts.
    fn turn<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
}

macro_rules! lanes {
    ($real:ty, $vector:ident, $complex:ident, $splat:ident, $add:ident, $mul_add:ident, $sum:ident,
     $load:ident, $store:ident, $swap:ident, $neg:ident, $conj:ident) => {
        impl Lanes for $real {
            type Vector<S: Simd> = S::$vector;

            fn sign(negated: bool) -> Self {
                if negated { -1.0 } else { 1.0 }
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }

            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn mul_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$vector) -> Self {
                simd.$sum(a)
            }

            #[inline(always)]
            fn load_part<S: Simd>(simd: S, from: &[Self]) -> S::$vector {
                simd.$load(from)
            }

            #[inline(always)]
            fn store_part<S: Simd>(simd: S, to: &mut [Self], a: S::$vector) {
                simd.$store(to, a);
            }

            #[inline(always)]
            fn turn<S: Simd>(simd: S, a: S::$vector) -> S::$vector {
                // Re and Im change places; -(Im, Re), conjugated, is (-Im, Re).
                let swapped = simd.$swap(pulp::cast::<S::$vector, S::$complex>(a));
                pulp::cast(simd.$conj(simd.$neg(swapped)))
            }
        }
    };
}
lanes!(
    f32,
    f32s,
    c32s,
    splat_f32s,
    add_f32s,
    mul_add_e_f32s,
    reduce_sum_f32s,
    partial_load_f32s,
    partial_store_f32s,
    swap_re_im_c32s,
    neg_c32s,
    conj_c32s
);
lanes!(
    f64,
    f64s,
    c64s,
    splat_f64s,
    add_f64s,
    mul_add_e_f64s,
    reduce_sum_f64s,
    partial_load_f64s,
    partial_store_f64s,
    swap_re_im_c64s,
    neg_c64s,
    conj_c64s
);
