//! Division by a number that is known beforehand, as a multiplication and two shifts.
//!
//! Section 4.4 of the paper: the index maps divide by the same few numbers again and again. The
//! reciprocal has 65 bits; its top bit is always set and is left out (Granlund and Montgomery,
//! PLDI'94, figure 4.1). So the quotient is exact for every 64-bit numerator.

/// A divisor and its fixed-point reciprocal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divider {
    divisor: u64,
    reciprocal: u64,
    before: u32,
    after: u32,
}

impl Divider {
    /// Panics when `divisor` is zero.
    pub fn new(divisor: usize) -> Self {
        let d = divisor as u64;
        assert!(d > 0, "division by zero");
        let log = 64 - (d - 1).leading_zeros(); // smallest with 2^log >= d
        let reciprocal = ((((1u128 << log) - d as u128) << 64) / d as u128 + 1) as u64;
        Divider { divisor: d, reciprocal, before: log.min(1), after: log.saturating_sub(1) }
    }

    #[inline(always)]
    pub fn quotient(self, x: usize) -> usize {
        let x = x as u64;
        let high = ((self.reciprocal as u128 * x as u128) >> 64) as u64;
        ((high + ((x - high) >> self.before)) >> self.after) as usize
    }

    #[inline(always)]
    pub fn remainder(self, x: usize) -> usize {
        x - self.quotient(x) * self.divisor as usize
    }
}
