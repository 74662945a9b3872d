//! Loops over poles and roots, which the compiler turns into instructions on vectors. Their bits are
//! the same on every processor.
//!
//! All functions are inlined into [`fast`], whose code has the instructions of this processor.

use std::ops::Range;

use crate::scalar::Scalar;

/// Elements that are independent of each other in a sum or product.
pub const WIDTH: usize = 8;

/// The poles, ascending.
#[derive(Clone, Copy)]
pub struct Poles<'a>(pub &'a [f64]);

/// Runs `work` with the vectors of this processor.
pub fn fast<V>(work: impl FnOnce() -> V) -> V {
    pulp::Arch::new().dispatch(work)
}

/// Sums of `s / (d - lambda)` and `s / (d - lambda)^2`, where lambda is `origin + x`.
#[inline(always)]
pub fn sums(d: &[f64], s: &[f64], origin: f64, x: f64) -> [f64; 2] {
    let (d, d_rest) = d.as_chunks::<WIDTH>();
    let (s, s_rest) = s.as_chunks::<WIDTH>();
    let (mut value, mut slope) = ([0.0; WIDTH], [0.0; WIDTH]);
    for (d, s) in d.iter().zip(s) {
        for i in 0..WIDTH {
            let inverse = 1.0 / ((d[i] - origin) - x);
            let term = s[i] * inverse;
            value[i] += term;
            slope[i] += term * inverse;
        }
    }
    let (mut value, mut slope) = (total(value), total(slope));
    for (d, s) in d_rest.iter().zip(s_rest) {
        let inverse = 1.0 / ((d - origin) - x);
        let term = s * inverse;
        value += term;
        slope += term * inverse;
    }
    [value, slope]
}

#[inline(always)]
fn total(x: [f64; WIDTH]) -> f64 {
    ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]))
}

/// The product of (lambda - d) / (pole - d) over roots lambda and as many poles.
#[inline(always)]
fn ratios(d: f64, origins: &[f64], offsets: &[f64], poles: &[f64]) -> f64 {
    let (o, o_rest) = origins.as_chunks::<WIDTH>();
    let (x, x_rest) = offsets.as_chunks::<WIDTH>();
    let (p, p_rest) = poles.as_chunks::<WIDTH>();
    let mut product = [1.0; WIDTH];
    for ((o, x), p) in o.iter().zip(x).zip(p) {
        for i in 0..WIDTH {
            product[i] *= ((o[i] - d) + x[i]) / (p[i] - d);
        }
    }
    let mut product = product.iter().product::<f64>();
    for ((o, x), p) in o_rest.iter().zip(x_rest).zip(p_rest) {
        product *= ((o - d) + x) / (p - d);
    }
    product
}

impl Poles<'_> {
    /// The modulus of entry i of the vector for which the roots are exact, up to a factor that all
    /// entries have (Gu and Eisenstat, SIAM J. Matrix Anal. Appl. 16, 1995).
    ///
    /// Each root is with the pole next to it that is further from pole i. So no factor but the last
    /// is above 1, and no partial product is below the result.
    #[inline(always)]
    pub fn weight(self, i: usize, origins: &[f64], offsets: &[f64]) -> f64 {
        let (d, last) = (self.0[i], self.0.len() - 1);
        let before = ratios(d, &origins[..i], &offsets[..i], &self.0[..i]);
        let after = ratios(d, &origins[i..last], &offsets[i..last], &self.0[i + 1..]);
        let all = before * after * ((origins[last] - d) + offsets[last]);
        all.abs().sqrt()
    }

    /// 1 / the norm of the vector of `weight / (d - lambda)`.
    #[inline(always)]
    pub fn scale(self, squares: &[f64], origin: f64, offset: f64) -> f64 {
        1.0 / sums(self.0, squares, origin, offset)[1].sqrt()
    }
}

/// Roots, and the scales of their vectors.
#[derive(Clone, Copy)]
pub struct Roots<'a> {
    pub origins: &'a [f64],
    pub offsets: &'a [f64],
    pub scales: &'a [f64],
}

impl<'a> Roots<'a> {
    /// Some of them.
    pub fn part(self, some: Range<usize>) -> Self {
        let part = |all: &'a [f64]| &all[some.clone()];
        let Roots { origins, offsets, scales } = self;
        Roots { origins: part(origins), offsets: part(offsets), scales: part(scales) }
    }
}

/// Writes the eigenvectors of roots as the packed rows of a left factor, for some of the poles.
#[inline(always)]
pub fn form<R: Scalar>(unit: usize, roots: Roots, poles: &[f64], weights: &[f64], to: &mut [R]) {
    match unit {
        8 => units::<R, 8>(roots, poles, weights, to),
        16 => units::<R, 16>(roots, poles, weights, to),
        24 => units::<R, 24>(roots, poles, weights, to),
        48 => units::<R, 48>(roots, poles, weights, to),
        _ => any_units(unit, roots, poles, weights, to),
    }
}

#[inline(always)]
fn units<R: Scalar, const UNIT: usize>(roots: Roots, poles: &[f64], weights: &[f64], to: &mut [R]) {
    let depth = poles.len();
    for (to, first) in to.chunks_exact_mut(UNIT * depth).zip((0..roots.origins.len()).step_by(UNIT))
    {
        let rows = UNIT.min(roots.origins.len() - first);
        // Rows of zeros, about, at the end of the last unit.
        let (mut origins, mut offsets, mut scales) = ([0.0; UNIT], [1.0; UNIT], [0.0; UNIT]);
        origins[..rows].copy_from_slice(&roots.origins[first..first + rows]);
        offsets[..rows].copy_from_slice(&roots.offsets[first..first + rows]);
        scales[..rows].copy_from_slice(&roots.scales[first..first + rows]);
        let (to, _) = to.as_chunks_mut::<UNIT>();
        for ((to, d), weight) in to.iter_mut().zip(poles).zip(weights) {
            for i in 0..UNIT {
                let entry = weight * scales[i] / ((d - origins[i]) - offsets[i]);
                to[i] = R::of_parts(entry, 0.0);
            }
        }
    }
}

/// One unit of any size, column by column.
#[inline(always)]
fn any_units<R: Scalar>(unit: usize, roots: Roots, poles: &[f64], weights: &[f64], to: &mut [R]) {
    assert!(roots.origins.len() <= unit, "one unit");
    for ((to, d), weight) in to.chunks_exact_mut(unit).zip(poles).zip(weights) {
        let Roots { origins, offsets, scales } = roots;
        for (((to, o), x), scale) in to.iter_mut().zip(origins).zip(offsets).zip(scales) {
            *to = R::of_parts(weight * scale / ((d - o) - x), 0.0);
        }
    }
}
