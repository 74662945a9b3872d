//! Small matrices: the implicit QL iteration with Wilkinson's shifts (Parlett, The Symmetric
//! Eigenvalue Problem, 1980, section 8.13), with vectors.

/// Iterations for one eigenvalue before it gives up. Two are usual.
const MOST: usize = 60;
/// Entries of this size are zero where the largest of T is about 1.
pub const LEAST: f64 = 1e-48;

/// A part of T, and then its eigenvalues and eigenvectors.
pub struct Leaf {
    /// The diagonal, then the eigenvalues, ascending.
    pub values: Vec<f64>,
    /// The entries below the diagonal, and a place.
    below: Vec<f64>,
    /// Eigenvectors by columns.
    pub vectors: Vec<f64>,
}

impl Leaf {
    /// `below` has one entry fewer than `diagonal`.
    pub fn new(diagonal: &[f64], below: &[f64]) -> Self {
        let m = diagonal.len();
        let mut vectors = vec![0.0; m * m];
        vectors.iter_mut().step_by(m + 1).for_each(|x| *x = 1.0);
        let below = below.iter().copied().chain([0.0]).collect();
        Leaf { values: diagonal.to_vec(), below, vectors }
    }

    /// Finds the eigenvalues and eigenvectors. It gives the number of those that it did not find.
    pub fn solve(&mut self) -> usize {
        let mut failed = 0;
        for first in 0..self.values.len() {
            let mut left = MOST;
            loop {
                let last = self.end_of_block(first);
                if last == first {
                    break;
                }
                if left == 0 {
                    failed += 1;
                    break;
                }
                left -= 1;
                self.iterate(first, last);
            }
        }
        self.sort();
        failed
    }

    /// The last row of the block that begins with `first`.
    fn end_of_block(&self, first: usize) -> usize {
        let (d, e) = (&self.values, &self.below);
        let is_negligible = |&i: &usize| {
            e[i].abs() <= f64::EPSILON / 2.0 * (d[i].abs() + d[i + 1].abs()) + LEAST * f64::EPSILON
        };
        let last = d.len() - 1;
        (first..last).find(is_negligible).unwrap_or(last)
    }

    /// One QL step, from the last row to the first.
    fn iterate(&mut self, first: usize, last: usize) {
        let m = self.values.len();
        let (d, e) = (&mut self.values, &mut self.below);
        let half = (d[first + 1] - d[first]) / (2.0 * e[first]);
        let shift = d[first] - e[first] / (half + modulus(half, 1.0).copysign(half));
        let mut bulge = d[last] - shift;
        let (mut sine, mut cosine, mut change) = (1.0, 1.0, 0.0);
        for i in (first..last).rev() {
            let (f, b) = (sine * e[i], cosine * e[i]);
            let r = modulus(f, bulge);
            e[i + 1] = r;
            if r == 0.0 {
                d[i + 1] -= change;
                e[last] = 0.0;
                return;
            }
            (sine, cosine) = (f / r, bulge / r);
            let g = d[i + 1] - change;
            let t = (d[i] - g) * sine + 2.0 * cosine * b;
            change = sine * t;
            d[i + 1] = g + change;
            bulge = cosine * t - b;
            let (x, y) = self.vectors[i * m..(i + 2) * m].split_at_mut(m);
            for (x, y) in x.iter_mut().zip(y) {
                (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
            }
        }
        d[first] -= change;
        e[first] = bulge;
        e[last] = 0.0;
    }

    /// Puts the eigenvalues and their vectors in ascending order.
    fn sort(&mut self) {
        let m = self.values.len();
        for i in 0..m {
            let rest = (i..m).min_by(|&a, &b| self.values[a].total_cmp(&self.values[b]));
            let least = rest.unwrap_or(i);
            if least != i {
                self.values.swap(i, least);
                let (x, y) = self.vectors.split_at_mut(least * m);
                x[i * m..(i + 1) * m].swap_with_slice(&mut y[..m]);
            }
        }
    }
}

/// The root of x^2 + y^2, where the squares may be too small. It does not use `hypot`, which binds
/// the library to a newer glibc.
pub fn modulus(x: f64, y: f64) -> f64 {
    let (small, large) = (x.abs().min(y.abs()), x.abs().max(y.abs()));
    if large == 0.0 {
        return 0.0;
    }
    let ratio = small / large;
    large * (1.0 + ratio * ratio).sqrt()
}
