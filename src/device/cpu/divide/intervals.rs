//! Entries of U far from its diagonal, by interpolation (Dutt, Gu and Rokhlin, SIAM J. Numer. Anal. 33,
//! 1996).
//!
//! Poles d are in an interval, roots lambda in another one. With points x and y of both, and the polynomials
//! L of Lagrange, which are one at a point and zero at the others,
//!
//! ```text
//! 1 / (d - lambda) = sum over k, l of L_k(d) / (x_k - y_l) L_l(lambda)
//! ```
//! For an interval around 0, up to 1, the polynomial through 1 / (y - x) at Chebyshev's points has a
//! relative error of at most 1 / |T(y)|, T Chebyshev's polynomial with these zeros. Here that is 9.4e-17
//! for each of both intervals. Numbers are as differences from the centre of their interval, so narrow
//! intervals lose no digits.

use std::f64::consts::PI;

use super::vectors::{Roots, WIDTH, form};
use crate::scalar::Scalar;

/// How many points an interval has.
pub const POINTS: usize = 24;
/// The least distance of other numbers from its centre, in halves of its width: 1 / T_24(2.5) = 9.4e-17.
const LEAST_DISTANCE: f64 = 2.5;
/// The least distance of the centres of two intervals, where the largest entry of T is about 1: so 1 / (x - y) has
/// room in any dtype.
const CLOSEST: f64 = 1e-20;

/// Chebyshev's points of the interval from -1 to 1, and what makes L_k one at point k.
pub struct Points {
    at: [f64; POINTS],
    scales: [f64; POINTS],
}

impl Points {
    pub fn chebyshev() -> Self {
        let at: [f64; POINTS] =
            std::array::from_fn(|k| (PI * (2 * k + 1) as f64 / (2 * POINTS) as f64).cos());
        let others = |k: usize| (0..POINTS).filter(move |&m| m != k);
        let scales =
            std::array::from_fn(|k| 1.0 / others(k).map(|m| at[k] - at[m]).product::<f64>());
        Points { at, scales }
    }

    /// All L_k of some numbers.
    #[inline(always)]
    fn polynomials(&self, t: [f64; WIDTH]) -> [[f64; WIDTH]; POINTS] {
        let mut all = [[0.0; WIDTH]; POINTS];
        let mut product = [1.0; WIDTH];
        for (values, at) in all.iter_mut().zip(&self.at) {
            *values = product;
            for i in 0..WIDTH {
                product[i] *= t[i] - at;
            }
        }
        let mut product = [1.0; WIDTH];
        for (values, (at, scale)) in all.iter_mut().zip(self.at.iter().zip(&self.scales)).rev() {
            for i in 0..WIDTH {
                values[i] *= product[i] * scale;
                product[i] *= t[i] - at;
            }
        }
        all
    }
}

/// A number as a sum of two. Differences of such numbers are exact up to rounding.
type Pair = [f64; 2];

fn difference(one: Pair, other: Pair) -> f64 {
    (one[0] - other[0]) + (one[1] - other[1])
}

/// Where some numbers are.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    centre: Pair,
    /// Half of its width.
    half: f64,
}

impl Interval {
    /// That of ascending poles, one at least.
    pub fn of_poles(poles: &[f64]) -> Self {
        Interval::from([poles[0], 0.0], [poles[poles.len() - 1], 0.0])
    }

    /// That of ascending roots, one at least.
    pub fn of_roots(roots: Roots) -> Self {
        let root = |i: usize| [roots.origins[i], roots.offsets[i]];
        Interval::from(root(0), root(roots.origins.len() - 1))
    }

    fn from(first: Pair, last: Pair) -> Self {
        let half = (difference(last, first) / 2.0).max(f64::MIN_POSITIVE);
        Interval { centre: [first[0], first[1] + half], half }
    }

    /// Whether 1 / (d - lambda) of numbers in both is a sum over points, up to rounding.
    pub fn is_far_from(self, other: Interval) -> bool {
        let distance = difference(self.centre, other.centre).abs();
        distance >= CLOSEST
            && distance - other.half >= LEAST_DISTANCE * self.half
            && distance - self.half >= LEAST_DISTANCE * other.half
    }

    /// A number of the interval on the scale of the points, from -1 to 1.
    #[inline(always)]
    fn scaled(self, number: Pair) -> f64 {
        difference(number, self.centre) / self.half
    }

    /// A left factor with a line for each point: L_k(d) times the pole's weight, for each pole d. Other lines
    /// of its last unit stay as they are, here and below.
    #[inline(always)]
    pub fn polynomials_of_poles<R: Scalar>(
        self,
        points: &Points,
        unit: usize,
        poles: &[f64],
        weights: &[f64],
        to: &mut [R],
    ) {
        let depth = poles.len();
        for first in (0..depth).step_by(WIDTH) {
            let some = first..depth.min(first + WIDTH);
            let mut t = [0.0; WIDTH];
            for (t, d) in t.iter_mut().zip(&poles[some.clone()]) {
                *t = self.scaled([*d, 0.0]);
            }
            let all = points.polynomials(t);
            for (i, (p, weight)) in some.clone().zip(&weights[some]).enumerate() {
                for (k, values) in all.iter().enumerate() {
                    to[k / unit * unit * depth + p * unit + k % unit] =
                        R::of_parts(weight * values[i], 0.0);
                }
            }
        }
    }

    /// A left factor with a line for each root lambda: L_l(lambda) times the root's scale, for each point.
    #[inline(always)]
    pub fn polynomials_of_roots<R: Scalar>(
        self,
        points: &Points,
        unit: usize,
        roots: Roots,
        to: &mut [R],
    ) {
        let count = roots.origins.len();
        for first in (0..count).step_by(WIDTH) {
            let some = first..count.min(first + WIDTH);
            let mut t = [0.0; WIDTH];
            for (t, j) in t.iter_mut().zip(some.clone()) {
                *t = self.scaled([roots.origins[j], roots.offsets[j]]);
            }
            let all = points.polynomials(t);
            for (l, values) in all.iter().enumerate() {
                for (value, j) in values.iter().zip(some.clone()) {
                    to[j / unit * unit * POINTS + l * unit + j % unit] =
                        R::of_parts(roots.scales[j] * value, 0.0);
                }
            }
        }
    }

    /// A left factor with a line for each point y of `roots`: 1 / (x - y) for each point x of this interval.
    #[inline(always)]
    pub fn between_points<R: Scalar>(
        self,
        points: &Points,
        unit: usize,
        roots: Interval,
        to: &mut [R],
    ) {
        let origins = [difference(roots.centre, self.centre); POINTS];
        let from_centre = |half: f64| points.at.map(|t| half * t);
        let (poles, offsets) = (from_centre(self.half), from_centre(roots.half));
        let ones = [1.0; POINTS];
        let roots = Roots { origins: &origins, offsets: &offsets, scales: &ones };
        form(unit, roots, &poles, &ones, to);
    }
}
