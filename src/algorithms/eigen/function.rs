//! Functions of Hermitian matrices A = V diag(w) V^H as sums of squares:
//! `f(A) = V diag(f(w)) V^H = s I + L L^H` with L = V diag(sqrt(f(w) - s)), or `-L L^H`.
//!
//! s is zero unless f has values of both signs.

/// A function of real numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Sqrt,
    Log,
    Exp,
    InverseSqrt,
    /// 1 / x, but 0 at 0.
    Inverse,
}

impl Function {
    /// Their names, the default first.
    pub const ALL: [(&'static str, Function); 5] = [
        ("sqrt", Function::Sqrt),
        ("log", Function::Log),
        ("exp", Function::Exp),
        ("inverse_sqrt", Function::InverseSqrt),
        ("inverse", Function::Inverse),
    ];

    /// The matrices that have one, and what is true of some eigenvalues of others.
    pub fn domain(self) -> (&'static str, &'static str) {
        match self {
            Function::Sqrt => ("positive semidefinite", "lowest eigenvalues are negative"),
            Function::Log | Function::InverseSqrt => {
                ("positive definite", "lowest eigenvalues are not positive")
            }
            Function::Exp | Function::Inverse => {
                ("less extreme", "eigenvalues give numbers that are too large")
            }
        }
    }

    /// Its value; `None` where it has none. Numbers up to `zero` are zero.
    fn at(self, x: f64, zero: f64) -> Option<f64> {
        match self {
            Function::Sqrt => (x >= -zero).then(|| x.max(0.0).sqrt()),
            Function::Log => (x > 0.0).then(|| x.ln()),
            Function::Exp => Some(x.exp()),
            Function::InverseSqrt => (x > 0.0).then(|| 1.0 / x.sqrt()),
            Function::Inverse => Some(if x.abs() <= zero { 0.0 } else { 1.0 / x }),
        }
    }
}

/// The sum of squares that a function of a matrix is.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The factor of each eigenvector in L.
    pub factors: Vec<f64>,
    /// s
    pub shift: f64,
    /// Whether it is -L L^H.
    pub is_negative: bool,
}

impl Weights {
    /// Those for the eigenvalues of a matrix. Eigenvalues up to `tolerance` times the largest modulus
    /// are zero. The error is how many of them the function has no value for, up to `limit`.
    pub fn new(
        function: Function,
        eigenvalues: &[f64],
        tolerance: f64,
        limit: f64,
    ) -> Result<Self, usize> {
        let largest = eigenvalues.iter().fold(0.0, |most, x| f64::max(most, x.abs()));
        let values = eigenvalues.iter().map(|&x| function.at(x, tolerance * largest));
        let values: Vec<_> = values.map(|value| value.filter(|x| x.abs() <= limit)).collect();
        let missing = values.iter().filter(|value| value.is_none()).count();
        if missing > 0 {
            return Err(missing);
        }
        let values: Vec<f64> = values.into_iter().flatten().collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_negative = most <= 0.0;
        let shift = if least < 0.0 && !is_negative { least } else { 0.0 };
        let factors = values.iter().map(|value| (value - shift).abs().sqrt()).collect();
        Ok(Weights { factors, shift, is_negative })
    }
}
