//! The four element types of the solvers, and the dispatch from a run-time dtype to one of them. To
//! add a dtype, add a variant of `DType`, a line of `scalar!` and a line of `dispatch!`.

mod lanes;

pub use lanes::{Lanes, Vector};

use std::ops::{Add, AddAssign, Mul, Neg};

use faer::traits::ComplexField;

/// Element types of the buffers that cross the FFI border, with XLA's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DType {
    S32 = 4,
    S64 = 5,
    U32 = 8,
    U64 = 9,
    F32 = 11,
    F64 = 12,
    C64 = 15,
    C128 = 18,
}

impl DType {
    pub fn from_xla(code: i32) -> Option<Self> {
        use DType::*;
        [S32, S64, U32, U64, F32, F64, C64, C128].into_iter().find(|&d| d as i32 == code)
    }

    pub fn size(self) -> usize {
        match self {
            DType::S32 | DType::U32 | DType::F32 => 4,
            DType::S64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The type of the real part.
    pub fn real(self) -> Self {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            real => real,
        }
    }

    /// NumPy's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            DType::S32 => "int32",
            DType::S64 => "int64",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }
}

/// An element type that the solvers work in.
pub trait Scalar:
    ComplexField<Real: PartialOrd + Lanes>
    + Copy
    + Neg<Output = Self>
    + Add<Output = Self>
    + Mul<Output = Self>
    + AddAssign
    + bytemuck::Pod
    + Send
    + Sync
    + 'static
{
    const DTYPE: DType;
    /// A not-a-number in every component.
    const NAN: Self;
    const ONE: Self;
    const ZERO: Self;
    const IS_COMPLEX: bool;
    /// The smallest normal number / u^2, u the unit roundoff. Below this magnitude, flushing
    /// subnormal numbers to zero loses an amount that is no longer far below u.
    const NEAR_UNDERFLOW: f64;

    /// |Re| + |Im|.
    fn magnitude(self) -> f64;
    /// Re and Im.
    fn parts(self) -> (f64, f64);
    /// The number of these parts; a real one has no Im.
    fn of_parts(re: f64, im: f64) -> Self;
    /// Whether Re and Im are finite.
    fn is_number(self) -> bool {
        let (re, im) = self.parts();
        re.is_finite() && im.is_finite()
    }
    /// The absolute value. It does not use `hypot`, which binds the library to a newer glibc.
    fn modulus(self) -> f64 {
        let (re, im) = self.parts();
        if !Self::IS_COMPLEX || re.is_nan() || im.is_nan() {
            return re.abs() + 0.0 * im;
        }
        let (small, large) = (re.abs().min(im.abs()), re.abs().max(im.abs()));
        match small / large {
            ratio if large > 0.0 && large.is_finite() => large * (1.0 + ratio * ratio).sqrt(),
            _ => large,
        }
    }
    /// The quotient. It overflows only where it is itself too large (Smith, CACM 5, 1962).
    fn divided_by(self, by: Self) -> Self;
    /// 1 / self, if that is neither subnormal nor infinite.
    fn safe_reciprocal(self) -> Option<Self>;
}

macro_rules! scalar {
    ($type:ty, $real:ident, $dtype:ident, $of:expr) => {
        impl Scalar for $type {
            const DTYPE: DType = DType::$dtype;
            const NAN: Self = $of($real::NAN, $real::NAN);
            const ONE: Self = $of(1.0, 0.0);
            const ZERO: Self = $of(0.0, 0.0);
            const IS_COMPLEX: bool = size_of::<Self>() > size_of::<$real>();
            const NEAR_UNDERFLOW: f64 = {
                let u = $real::EPSILON as f64 / 2.0;
                $real::MIN_POSITIVE as f64 / (u * u)
            };

            fn magnitude(self) -> f64 {
                f64::from(Self::real_part_impl(&self).abs())
                    + f64::from(Self::imag_part_impl(&self).abs())
            }

            fn parts(self) -> (f64, f64) {
                (Self::real_part_impl(&self).into(), Self::imag_part_impl(&self).into())
            }

            fn of_parts(re: f64, im: f64) -> Self {
                $of(re as $real, im as $real)
            }

            fn divided_by(self, by: Self) -> Self {
                let parts = |x: &Self| (Self::real_part_impl(x), Self::imag_part_impl(x));
                let ((x, y), (re, im)) = (parts(&self), parts(&by));
                if !Self::IS_COMPLEX {
                    $of(x / re, 0.0)
                } else if re.abs() >= im.abs() {
                    let (ratio, scale) = (im / re, re + im * (im / re));
                    $of((x + y * ratio) / scale, (y - x * ratio) / scale)
                } else {
                    let (ratio, scale) = (re / im, im + re * (re / im));
                    $of((x * ratio + y) / scale, (y * ratio - x) / scale)
                }
            }

            fn safe_reciprocal(self) -> Option<Self> {
                let reciprocal = Self::ONE.divided_by(self);
                let size = Self::abs1_impl(&reciprocal);
                ($real::MIN_POSITIVE..=$real::MAX).contains(&size).then_some(reciprocal)
            }
        }
    };
}

const fn real32(re: f32, _: f32) -> f32 {
    re
}
const fn real64(re: f64, _: f64) -> f64 {
    re
}
scalar!(f32, f32, F32, real32);
scalar!(f64, f64, F64, real64);
scalar!(faer::c32, f32, C64, faer::c32::new);
scalar!(faer::c64, f64, C128, faer::c64::new);

/// Runs `$body` with the type alias `$T` bound to the scalar type of `$dtype`. Runs `$other` where
/// the solvers have no such element type.
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident => $body:expr, else => $other:expr) => {
        match $dtype {
            $crate::scalar::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::scalar::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::scalar::DType::C64 => {
                type $T = faer::c32;
                $body
            }
            $crate::scalar::DType::C128 => {
                type $T = faer::c64;
                $body
            }
            _ => $other,
        }
    };
}

/// The larger of both; NaN if one is NaN.
pub fn larger(x: f64, y: f64) -> f64 {
    if y > x || y.is_nan() { y } else { x }
}
