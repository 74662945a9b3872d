//! Sums of squares. Their root over- or underflows only if the norm itself does. Numbers of three
//! sizes have a sum each; large and small ones are scaled (Blue, ACM Trans. Math. Softw. 4, 1978).

/// Squares of numbers in this range keep their digits, in sums of any length.
pub const SAFE: std::ops::Range<f64> = 1e-140..1e140;
/// Multiplies small numbers and divides large ones. A power of two rounds nothing.
const SCALE: f64 = f64::from_bits((1023 + 600) << 52);

/// The sums; small and large ones are times 2^1200 and 2^-1200.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Squares {
    pub small: f64,
    pub medium: f64,
    pub large: f64,
}

impl Squares {
    /// Adds one number. `medium` takes NaN as well.
    pub fn add(&mut self, x: f64) {
        let size = x.abs();
        if size >= SAFE.end {
            self.large += (x / SCALE) * (x / SCALE);
        } else if size < SAFE.start {
            self.small += (x * SCALE) * (x * SCALE);
        } else {
            self.medium += x * x;
        }
    }

    /// The sums over the numbers of both.
    pub fn and(self, other: Squares) -> Squares {
        Squares {
            small: self.small + other.small,
            medium: self.medium + other.medium,
            large: self.large + other.large,
        }
    }

    /// The root of the whole sum.
    pub fn root(self) -> f64 {
        let scaled_down = |sum: f64| sum / SCALE / SCALE;
        if self.large != 0.0 {
            (self.large + scaled_down(self.medium)).sqrt() * SCALE
        } else if self.medium != 0.0 {
            (self.medium + scaled_down(self.small)).sqrt()
        } else {
            self.small.sqrt() / SCALE
        }
    }
}
