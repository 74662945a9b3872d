//! Tridiagonal matrices that are hard in some way.

pub struct Matrix {
    pub name: &'static str,
    pub diagonal: Vec<f64>,
    pub below: Vec<f64>,
}

impl Matrix {
    fn new(
        name: &'static str,
        n: usize,
        d: impl Fn(usize) -> f64,
        e: impl Fn(usize) -> f64,
    ) -> Self {
        let below = (0..n.saturating_sub(1)).map(e).collect();
        Matrix { name, diagonal: (0..n).map(d).collect(), below }
    }

    /// The largest sum of a column.
    pub fn norm(&self) -> f64 {
        let entry = |i: usize| self.below.get(i).copied().unwrap_or(0.0).abs();
        let column =
            |i: usize| self.diagonal[i].abs() + entry(i) + if i > 0 { entry(i - 1) } else { 0.0 };
        (0..self.diagonal.len()).map(column).fold(0.0, f64::max)
    }

    fn scaled(mut self, name: &'static str, by: f64) -> Self {
        self.name = name;
        self.diagonal.iter_mut().chain(&mut self.below).for_each(|x| *x *= by);
        self
    }
}

/// Uniform numbers of [0, 1).
fn uniform(count: usize, seed: u64) -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * seed + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// Normal numbers (Box and Muller).
pub fn normal(n: usize, seed: u64) -> Matrix {
    let x = uniform(4 * n, seed);
    let number =
        |i: usize| (-2.0 * (1.0 - x[i]).ln()).sqrt() * (std::f64::consts::TAU * x[i + 1]).cos();
    Matrix::new("normal", n, |i| number(2 * i), |i| number(2 * n + 2 * i))
}

pub fn toeplitz(n: usize) -> Matrix {
    Matrix::new("(1, 2, 1)", n, |_| 2.0, |_| 1.0)
}

fn wilkinson(name: &'static str, n: usize, glue: f64) -> Matrix {
    let entry = |i: usize| if i % 21 == 20 { glue } else { 1.0 };
    Matrix::new(name, n, |i| (i as f64 % 21.0 - 10.0).abs(), entry)
}

/// A matrix whose diagonal and whose other entries are of two kinds of numbers.
pub fn mixed(n: usize, seed: u64) -> Matrix {
    let x = uniform(6 * n, 100 + seed);
    let number = |kind: u64, i: usize| {
        let [a, b, c] = [x[3 * i], x[3 * i + 1], x[3 * i + 2]];
        match kind % 8 {
            0 => a - 0.5,
            1 => (3.0 * a).floor(),
            2 => 10f64.powf(-20.0 * a),
            3 => {
                if a < 0.1 {
                    b
                } else {
                    0.0
                }
            }
            4 => 1.0 + f64::EPSILON * (8.0 * b).floor(),
            5 => {
                if a < 0.05 {
                    1e8 * b
                } else {
                    c
                }
            }
            6 => 10f64.powf(-300.0 * a * b * c),
            _ => 1.0,
        }
    };
    Matrix::new("mixed", n, |i| number(seed, i), |i| number(seed / 8, n + i))
}

/// The matrix of Lanczos' iteration with a diagonal matrix, fully orthogonalized twice.
fn of_spectrum(name: &'static str, values: &[f64], seed: u64) -> Matrix {
    let n = values.len();
    let (mut diagonal, mut below) = (vec![0.0; n], vec![0.0; n.saturating_sub(1)]);
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for j in 0..n {
        let mut next: Vec<f64> = match basis.last() {
            Some(last) => last.iter().zip(values).map(|(x, w)| x * w).collect(),
            None => uniform(n, seed),
        };
        for attempt in 0..2 {
            for _ in 0..2 {
                for v in &basis {
                    let along = dot(&next, v);
                    next.iter_mut().zip(v).for_each(|(x, v)| *x -= along * v);
                }
            }
            let size = dot(&next, &next).sqrt();
            if j > 0 && attempt == 0 {
                below[j - 1] = if size < 1e-14 { 0.0 } else { size };
            }
            if size >= 1e-14 {
                next.iter_mut().for_each(|x| *x /= size);
                break;
            }
            // An invariant subspace: another direction, without an entry below the diagonal.
            next = uniform(n, seed + j as u64 + 1);
        }
        let size = dot(&next, &next).sqrt();
        next.iter_mut().for_each(|x| *x /= size);
        diagonal[j] = next.iter().zip(values).map(|(x, w)| x * x * w).sum();
        basis.push(next);
    }
    Matrix { name, diagonal, below }
}

pub fn all(n: usize) -> Vec<Matrix> {
    let last = n.saturating_sub(1) as f64;
    let power = |i: f64| 10f64.powf(-16.0 * i / last.max(1.0));
    let spread = uniform(n, 11);
    let eps = f64::EPSILON;
    let spectrum = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<_>>();
    let at = |i: usize| i as f64;
    let half = |i: usize| if i < n / 2 { 1e-40 } else { 1.0 };
    let one_cluster = spectrum(&|i| if i + 1 == n { eps } else { 1.0 + at(i) * eps });
    let other_cluster = spectrum(&|i| if i == 0 { 1.0 } else { eps * (1.0 + at(i) / 7.0) });
    let geometric = spectrum(&|i| power(at(i)) * if i % 2 == 0 { 1.0 } else { -1.0 });
    vec![
        normal(n, 1),
        normal(n, 1).scaled("1e300", 1e300 / 8.0),
        normal(n, 2).scaled("1e-300", 1e-300),
        toeplitz(n),
        toeplitz(n).scaled("(-1, -2, -1)", -1.0),
        Matrix::new("(1, 0, 1)", n, |_| 0.0, |i| if i % 2 == 0 { 1.0 } else { -1.0 }),
        wilkinson("W21+", n, 0.0),
        wilkinson("W21+ glued by 1e-14", n, 1e-14),
        wilkinson("W21+ glued by 1e-8", n, 1e-8),
        wilkinson("W21+ glued by 1e-4", n, 1e-4),
        Matrix::new("graded down", n, |i| power(at(i)), |i| 0.5 * power(at(i) + 0.5)),
        Matrix::new("graded up", n, |i| power(last - at(i)), |i| 0.5 * power(last - at(i) - 0.5)),
        Matrix::new("graded far", n, |i| 10f64.powi(-(i as i32)), |i| 10f64.powi(-(i as i32))),
        Matrix::new("identity", n, |_| 1.0, |_| 0.0),
        Matrix::new("zero", n, |_| 0.0, |_| 0.0),
        Matrix::new("diagonal", n, |i| (i * 7 % 5) as f64 - 2.0, |_| 0.0),
        Matrix::new("zero couplings", n, |i| spread[i], |i| if i % 5 == 4 { 0.0 } else { 0.3 }),
        Matrix::new("tiny couplings", n, |i| (i % 3) as f64, |i| 1e-15 * spread[i]),
        Matrix::new("almost identity", n, |_| 1.0, |i| 1e-7 * spread[i]),
        Matrix::new("rank one", n, |i| if i == n / 2 { 1.0 } else { 0.0 }, |_| 1e-17),
        Matrix::new("one huge", n, |i| if i == n / 3 { 1e20 } else { spread[i] }, |_| 1.0),
        Matrix::new("one huge coupling", n, |i| spread[i], |i| if i == n / 2 { 1e12 } else { 1.0 }),
        Matrix::new("increasing", n, at, |_| 1.0),
        Matrix::new("small half", n, |i| 2.0 * half(i), half),
        of_spectrum("cluster at 1", &one_cluster, 21),
        of_spectrum("cluster at eps", &other_cluster, 22),
        of_spectrum("geometric", &geometric, 23),
        of_spectrum("uniform", &spectrum(&|i| at(i) + 1.0), 24),
    ]
}
