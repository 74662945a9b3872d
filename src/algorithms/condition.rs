//! Estimates norm1(A^-1) with a few solves with A and A^H for a block of vectors: N. J. Higham and
//! F. Tisseur, A block algorithm for matrix 1-norm estimation, SIAM J. Matrix Anal. Appl. 21
//! (2000), 1185-1201, Algorithm 2.4.
//!
//! ```text
//! X = t vectors of 1-norm 1
//! for k = 1 ..:  Y = A^-1 X,   estimate = max_j norm1(y_j)        until it no longer grows
//!                S = sign(Y),  Z = A^-H S
//!                X = e_i for the t largest max_j |z_ij| that have not been tried
//! ```
//! Except for rounding, the estimate is never above the norm, and seldom much below it. With n <= t
//! it is the norm. `Estimator` chooses the next solve and knows no matrix; `inverse_norm` runs the
//! solves on the workers of a call. A factor, near norm1(A), scales the vectors, so that solutions
//! overflow only where the condition number does.

use crate::comm::Step;
use crate::device::{Op, Worker};
use crate::matrix::Blocks;
use crate::scalar::{Scalar, larger};

/// Vectors in a block. More vectors make the estimate surer, and one solve reads the factor once
/// for all.
const BLOCK: usize = 4;
/// Rounds with vectors of the unit matrix.
const ROUNDS: usize = 5;
/// Attempts to replace a sign vector that is parallel to another one.
const ATTEMPTS: usize = 10;

/// The number of vectors in one solve of an estimate of order n.
pub fn block(n: usize) -> usize {
    n.min(BLOCK)
}

/// The operation that the vectors need next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A^-1 X
    Solve,
    /// A^-H X
    SolveAdjoint,
    /// Nothing more: the estimate is complete.
    Done,
}

pub struct Estimator<T> {
    n: usize,
    /// The factor of the vectors.
    scale: f64,
    /// X, Y, S or Z in turn: n x t, row-major.
    vectors: Vec<T>,
    /// S of the previous round.
    signs: Vec<T>,
    /// Rows in descending order of their size in Z.
    order: Vec<usize>,
    sizes: Vec<f64>,
    tried: Vec<bool>,
    /// The indices of the unit vectors in X.
    units: [usize; BLOCK],
    best: Option<usize>,
    largest: f64,
    round: usize,
    asked: Next,
    random: u64,
}

impl<T: Scalar> Estimator<T> {
    pub fn new(n: usize) -> Self {
        let size = n * block(n);
        Estimator {
            n,
            scale: 1.0,
            vectors: vec![T::ZERO; size],
            signs: vec![T::ZERO; size],
            order: (0..n).collect(),
            sizes: vec![0.0; n],
            tried: vec![false; n],
            units: [0; BLOCK],
            best: None,
            largest: 0.0,
            round: 0,
            asked: Next::Done,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// The vectors, n x `block(n)`, row-major: first the right-hand sides, then the solutions.
    pub fn vectors(&mut self) -> &mut [T] {
        &mut self.vectors
    }

    /// The estimate of `scale` norm1(A^-1); infinite if a solve overflowed.
    pub fn estimate(&self) -> f64 {
        self.largest
    }

    /// Fills the vectors, multiples of `scale`, for a first solve.
    pub fn start(&mut self, scale: f64) -> Next {
        (self.scale, self.round, self.asked) = (scale, 1, Next::Solve);
        let (n, t) = (self.n, block(self.n));
        for i in 0..n {
            for j in 0..t {
                // With n <= t: every vector of the unit matrix. Otherwise the first vector has
                // ones. The second is LAPACK's safeguard, with alternating signs and growing size.
                // The others have random signs.
                let sign = self.sign_by_chance();
                let value = match j {
                    _ if n <= t => f64::from(u8::from(i == j)),
                    0 => 1.0 / n as f64,
                    1 => {
                        let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                        sign * (1.0 + i as f64 / (n - 1) as f64) / (1.5 * n as f64)
                    }
                    _ => sign / n as f64,
                };
                self.vectors[i * t + j] = T::from_f64_impl(scale * value);
            }
        }
        if n == 0 { Next::Done } else { self.asked }
    }

    /// Takes the solutions and returns the next operation.
    pub fn advance(&mut self) -> Next {
        self.asked = match self.asked {
            Next::Solve => self.after_solve(),
            Next::SolveAdjoint => self.after_adjoint(),
            Next::Done => Next::Done,
        };
        self.asked
    }

    fn after_solve(&mut self) -> Next {
        let (n, t) = (self.n, block(self.n));
        let norm = |j: usize| self.vectors[j..].iter().step_by(t).map(|x| x.modulus()).sum::<f64>();
        let mut norms = [0.0; BLOCK];
        (0..t).for_each(|j| norms[j] = norm(j));
        if norms.iter().any(|norm| !norm.is_finite()) {
            self.largest = f64::INFINITY;
            return Next::Done;
        }
        let largest = norms.iter().copied().fold(0.0, f64::max);
        if self.round > 1 && largest <= self.largest {
            return Next::Done;
        }
        self.largest = largest;
        if self.round > 1 {
            self.best = norms.iter().position(|&norm| norm == largest).map(|j| self.units[j]);
        }
        if n <= t || self.round > ROUNDS {
            return Next::Done;
        }
        for y in &mut self.vectors {
            *y = sign(*y);
        }
        if !T::IS_COMPLEX {
            if (0..t).all(|j| (0..t).any(|old| self.parallel(j, &self.signs, old))) {
                return Next::Done;
            }
            (0..t).for_each(|j| self.make_different(j));
        }
        self.signs.copy_from_slice(&self.vectors);
        let scale = T::from_f64_impl(self.scale);
        self.vectors.iter_mut().for_each(|s| *s *= scale);
        Next::SolveAdjoint
    }

    fn after_adjoint(&mut self) -> Next {
        let t = block(self.n);
        for (size, row) in self.sizes.iter_mut().zip(self.vectors.chunks(t)) {
            *size = row.iter().map(|z| z.modulus()).fold(0.0, larger);
        }
        let (sizes, tried) = (&self.sizes, &mut self.tried);
        let largest = sizes.iter().copied().fold(0.0, larger);
        if !largest.is_finite() {
            self.largest = f64::INFINITY;
            return Next::Done;
        }
        if self.best.is_some_and(|best| sizes[best] == largest) {
            return Next::Done;
        }
        // The larger first; equal sizes in ascending order of their index.
        let by_size = |&i: &usize, &k: &usize| sizes[k].total_cmp(&sizes[i]).then(i.cmp(&k));
        self.order.sort_unstable_by(by_size);
        if self.order[..t].iter().all(|&i| tried[i]) {
            return Next::Done;
        }
        self.vectors.fill(T::ZERO);
        for j in 0..t {
            let Some(&i) = self.order.iter().find(|&&i| !tried[i]) else { break };
            self.vectors[i * t + j] = T::from_f64_impl(self.scale);
            (self.units[j], tried[i]) = (i, true);
        }
        self.round += 1;
        Next::Solve
    }

    /// Whether sign vector `j` is column `k` of `others` or its opposite.
    fn parallel(&self, j: usize, others: &[T], k: usize) -> bool {
        let t = block(self.n);
        let pairs = || (0..self.n).map(|i| (self.vectors[i * t + j], others[i * t + k]));
        pairs().all(|(x, y)| x == y) || pairs().all(|(x, y)| x == -y)
    }

    /// Replaces sign vector `j` by random signs while it is parallel to an earlier one or to one of
    /// the last round.
    fn make_different(&mut self, j: usize) {
        let t = block(self.n);
        for _ in 0..ATTEMPTS {
            let before = (0..j).any(|k| self.parallel(j, &self.vectors, k));
            if !before && !(0..t).any(|k| self.parallel(j, &self.signs, k)) {
                return;
            }
            for i in 0..self.n {
                self.vectors[i * t + j] = T::from_f64_impl(self.sign_by_chance());
            }
        }
    }

    /// 1 or -1, the same sequence in every run (Marsaglia's xorshift).
    fn sign_by_chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.random >> 63 == 0 { 1.0 } else { -1.0 }
    }
}

/// x / |x|, and 1 for 0.
fn sign<T: Scalar>(x: T) -> T {
    match x.modulus() {
        0.0 => T::ONE,
        size if T::IS_COMPLEX => x.divided_by(T::from_f64_impl(size)),
        size => T::from_f64_impl(x.parts().0 / size),
    }
}

/// Runs solves on all workers until the estimate is complete. `solve` replaces `x` by A^-1 X
/// (`Op::None`) or A^-H X (`Op::Adjoint`) with all workers, which meet in it. Afterwards worker 0
/// may read its block. Worker 0 has the started `estimator`.
pub fn inverse_norm<T: Scalar, W: Worker<T>>(
    worker: &mut W,
    mut estimator: Option<&mut Estimator<T>>,
    x: &Blocks<T>,
    mut solve: impl FnMut(&mut W, Op) -> Step,
) -> Step {
    const CODES: [Next; 3] = [Next::Done, Next::Solve, Next::SolveAdjoint];
    let mut next = estimator.as_ref().map_or(Next::Done, |e| e.asked);
    loop {
        if let Some(estimator) = &mut estimator {
            worker.put(estimator.vectors(), x.own());
        }
        let code = CODES.iter().position(|code| *code == next).unwrap_or(0);
        let [asked] = worker.all_reduce([code as f64], f64::max)?;
        let op = match CODES[asked as usize] {
            Next::Done => return Ok(()),
            Next::Solve => Op::None,
            Next::SolveAdjoint => Op::Adjoint,
        };
        worker.replicate(x, 0)?;
        solve(worker, op)?;
        if let Some(estimator) = &mut estimator {
            worker.get(x.own(), estimator.vectors())?;
            next = estimator.advance();
        }
    }
}
