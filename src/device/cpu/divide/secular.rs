//! The eigenvalues of `D + rho z z^T`: the roots of 1 + rho sum z_i^2 / (d_i - lambda).
//!
//! A root is an offset from the closer pole, so its distances to all poles are accurate. A step
//! solves an equation with the two poles around the root (Li, LAPACK Working Note 89, 1993).

use super::vectors::{Poles, sums};

/// Steps before it gives up; three to six are usual.
const MOST: usize = 100;
/// Of the largest terms, in units of rounding: how far sums over few poles are from zero at a root.
const ERROR: f64 = 8.0;
/// More of it for each pole. Sums have this many parts, or more.
const ERROR_PER_POLE: f64 = 1.0 / 16.0;

/// An eigenvalue, `origin + offset`.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    /// The closer pole.
    pub origin: f64,
    pub offset: f64,
    pub converged: bool,
}

/// The equation divided by rho.
pub struct Secular<'a> {
    pub poles: Poles<'a>,
    /// z^2.
    pub squares: &'a [f64],
    pub rho: f64,
    /// The relative error that does not matter.
    pub precision: f64,
}

/// The function near a root, in parts with the poles up to it and those after it.
#[derive(Clone, Copy)]
struct Value {
    /// Distances from here to the two poles that are next to the root.
    near: [f64; 2],
    parts: [f64; 2],
    slopes: [f64; 2],
    value: f64,
}

impl Value {
    fn slope(self) -> f64 {
        self.slopes[0] + self.slopes[1]
    }
}

impl Secular<'_> {
    /// Root j, which is after pole j. It is inlined into code with the instructions of a processor.
    #[inline(always)]
    pub fn root(&self, j: usize) -> Root {
        let (d, last) = (self.poles.0, self.poles.0.len() - 1);
        if last == 0 {
            return Root { origin: d[0], offset: self.rho * self.squares[0], converged: true };
        }
        // The two poles of the model; of the last root, they are both before it.
        let left = j.min(last - 1);
        let width = if j < last {
            d[j + 1] - d[j]
        } else {
            self.rho * self.squares.iter().sum::<f64>() * (1.0 + 1e-10)
        };
        let half = width / 2.0;
        let middle = self.value(left, d[j], half);
        let is_left = j == last || middle.value >= 0.0;
        let pole = if is_left { j } else { j + 1 };
        let at = if is_left { half } else { -half };
        let mut between = match (j == last, middle.value >= 0.0) {
            (false, true) => [0.0, half],
            (false, false) => [-half, 0.0],
            (true, true) => [0.0, half],
            (true, false) => [half, width],
        };
        // The rest of the function is taken as constant.
        let squares = [self.squares[left], self.squares[left + 1]];
        let near = [d[left] - d[pole], d[left + 1] - d[pole]];
        let rest = middle.value - squares[0] / middle.near[0] - squares[1] / middle.near[1];
        let linear = rest * (near[0] + near[1]) + squares[0] + squares[1];
        let constant = squares[0] * near[1] + squares[1] * near[0] + rest * near[0] * near[1];
        let guess = step(rest, linear, constant, j == last);
        let mut x = inside(guess, at, between);
        let mut before: Option<f64> = None;
        let mut is_middle_way = false;
        for _ in 0..MOST {
            let here = self.value(left, d[pole], x);
            let sizes = 1.0 / self.rho + here.parts[0].abs() + here.parts[1].abs();
            let error = (ERROR + ERROR_PER_POLE * d.len() as f64) * sizes;
            if here.value.abs() <= self.precision * (error + x.abs() * here.slope()) {
                return Root { origin: d[pole], offset: x, converged: true };
            }
            between[usize::from(here.value > 0.0)] = x;
            if before.is_some_and(|w| w * here.value > 0.0 && here.value.abs() > w.abs() / 10.0) {
                is_middle_way = !is_middle_way;
            }
            before = Some(here.value);
            let [a, b] = here.near;
            let rest = if is_middle_way || j == last {
                here.value - a * here.slopes[0] - b * here.slopes[1]
            } else if is_left {
                here.value - b * here.slope() - (a - b) * squares[0] / (a * a)
            } else {
                here.value - a * here.slope() - (b - a) * squares[1] / (b * b)
            };
            let linear = (a + b) * here.value - a * b * here.slope();
            let next = x + step(rest, linear, a * b * here.value, j == last);
            let next = inside(next, bisected(between), between);
            if next == x {
                return Root { origin: d[pole], offset: x, converged: true };
            }
            x = next;
        }
        Root { origin: d[pole], offset: x, converged: false }
    }

    /// The function at `origin + x`, in parts with the poles up to `left` and those after it.
    #[inline(always)]
    fn value(&self, left: usize, origin: f64, x: f64) -> Value {
        let d = self.poles.0;
        let before = sums(&d[..=left], &self.squares[..=left], origin, x);
        let after = sums(&d[left + 1..], &self.squares[left + 1..], origin, x);
        Value {
            near: [(d[left] - origin) - x, (d[left + 1] - origin) - x],
            parts: [before[0], after[0]],
            slopes: [before[1], after[1]],
            value: 1.0 / self.rho + before[0] + after[0],
        }
    }
}

/// The root of `square x^2 - linear x + constant` between the poles of a model, or after both.
#[inline(always)]
fn step(square: f64, linear: f64, constant: f64, is_after: bool) -> f64 {
    let root = (linear * linear - 4.0 * square * constant).abs().sqrt();
    let root = if is_after { -root } else { root };
    let is_sum = if is_after { linear < 0.0 } else { linear > 0.0 };
    if is_sum {
        2.0 * constant / (linear + root)
    } else if square == 0.0 {
        constant / linear
    } else {
        (linear - root) / (2.0 * square)
    }
}

/// x if it is inside an interval.
#[inline(always)]
fn inside(x: f64, otherwise: f64, [low, high]: [f64; 2]) -> f64 {
    if x > low && x < high { x } else { otherwise }
}

/// A point of an interval that does not contain 0 inside. Where the ends have different sizes, so
/// have the points in question.
#[inline(always)]
fn bisected([low, high]: [f64; 2]) -> f64 {
    let (small, large) = if low.abs() < high.abs() { (low, high) } else { (high, low) };
    if small == 0.0 {
        large / 256.0
    } else if (large / small).abs() > 4.0 {
        (small.abs() * large.abs()).sqrt().copysign(large)
    } else {
        low + (high - low) / 2.0
    }
}
