//! One step of a sweep: a reflector on both sides of its diagonal block, on the right of the block
//! below, and the reflector that this needs next.
//!
//! Everything between `run` and an instruction is inlined, as in `product/tile.rs`.

use pulp::{Simd, WithSimd};

use crate::device::cpu::passes::{Block, GROUP, Wide, part, vectorized};
use crate::scalar::{DType, Scalar};

/// A column whose square is not larger counts as zero: rounding changes the matrix by more. The
/// reciprocal of a larger column's norm is in the range.
fn least_square<T: Scalar>() -> f64 {
    match T::DTYPE.real() {
        DType::F32 => 1e-62,
        _ => 1e-270,
    }
}

/// `H = I - tau v v^H` so that `H^H x = beta e_1`, which x becomes. It gives tau.
///
/// # Safety
/// As many elements as v has are at `x`, and they are this thread's.
pub unsafe fn reflector<T: Scalar>(x: *mut T, v: &mut [T]) -> T {
    // SAFETY: the caller's promise.
    let x = unsafe { std::slice::from_raw_parts_mut(x, v.len()) };
    let mut sums = [0.0; 8];
    for part in x[1..].chunks(8) {
        for (sum, x) in sums.iter_mut().zip(part) {
            let (re, im) = x.parts();
            *sum += re * re + im * im;
        }
    }
    let squares: f64 = sums.into_iter().sum();
    v[0] = T::ONE;
    if squares <= least_square::<T>() {
        x[1..].fill(T::ZERO);
        v[1..].fill(T::ZERO);
        return T::ZERO;
    }
    let (re, im) = x[0].parts();
    let norm = (re * re + im * im + squares).sqrt();
    let beta = if re < 0.0 { norm } else { -norm };
    let scale = T::ONE.divided_by(T::of_parts(re - beta, im));
    x[0] = T::of_parts(beta, 0.0);
    for (v, x) in v[1..].iter_mut().zip(&mut x[1..]) {
        *v = scale * *x;
        *x = T::ZERO;
    }
    T::of_parts((beta - re) / beta, -im / beta)
}

/// The step: `D <- H^H D H` in the lower triangle of the diagonal block D, and `C <- N^H C H` for the
/// block C below it, where N makes C's first column a multiple of e_1.
pub struct Step<'a, T> {
    pub diagonal: Block<T>,
    pub below: Block<T>,
    /// H, and the vector of N.
    pub v: &'a [T],
    pub tau: T,
    pub next: &'a mut [T],
    /// As long as the longer side of a block.
    pub room: &'a mut [T],
}

impl<T: Scalar> Step<'_, T> {
    /// The step; it gives the tau of N.
    ///
    /// # Safety
    /// The blocks are this thread's.
    pub unsafe fn run(self) -> T {
        let Step { diagonal, below, v, next, room, .. } = &self;
        assert!(v.len() == diagonal.rows && diagonal.rows == diagonal.cols, "a diagonal block");
        assert!(below.rows == next.len() && below.cols == v.len(), "the block below");
        assert!(room.len() >= diagonal.rows.max(below.rows), "room");
        vectorized(Vectors(self))
    }

    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn perform<S: Simd>(self, passes: Wide<S>) -> T {
        let Step { diagonal, below, v, tau, next, room } = self;
        let k = v.len();
        if tau != T::ZERO {
            // SAFETY: the caller's promise.
            unsafe { both_sides(passes, diagonal, v, tau, &mut room[..k]) };
        }
        if below.rows == 0 {
            return T::ZERO;
        }
        let u = &mut room[..below.rows];
        u.fill(T::ZERO);
        let whole = k / GROUP * GROUP;
        // SAFETY: columns of the block, which is this thread's.
        unsafe {
            // u = C v
            for j in (0..whole).step_by(GROUP) {
                passes.sum::<T, GROUP>(u, part(v, j), below.columns(0, j));
            }
            for j in whole..k {
                passes.sum::<T, 1>(u, part(v, j), below.columns(0, j));
            }
            let u = &*u;
            let of_u = -tau * T::conj_impl(&v[0]);
            passes.spread::<T, 1>(below.columns(0, 0), [of_u], u);
            let tau_of_next = reflector(below.column(0, 0), next);
            let along = -T::conj_impl(&tau_of_next);
            let mut j = 1;
            while j + GROUP <= k {
                right_and_left::<T, S, GROUP>(passes, below, j, [v, u, next], tau, along);
                j += GROUP;
            }
            for j in j..k {
                right_and_left::<T, S, 1>(passes, below, j, [v, u, next], tau, along);
            }
            tau_of_next
        }
    }
}

/// `D <- H^H D H` as `D - v w^H - w v^H` with w = tau D v - (1/2) conj(tau) (v^H tau D v) v.
///
/// # Safety
/// The block is this thread's.
#[inline(always)]
unsafe fn both_sides<T: Scalar, S: Simd>(
    passes: Wide<S>,
    d: Block<T>,
    v: &[T],
    tau: T,
    w: &mut [T],
) {
    let k = v.len();
    w.fill(T::ZERO);
    let whole = k / GROUP * GROUP;
    // SAFETY: the lower triangle of the block, which is this thread's.
    unsafe {
        for j in (0..whole).step_by(GROUP) {
            passes.multiply::<T, GROUP>(&d, j, v, w);
        }
        for j in whole..k {
            passes.multiply::<T, 1>(&d, j, v, w);
        }
    }
    let mut product = T::ZERO;
    for (w, v) in w.iter_mut().zip(v) {
        *w = tau * *w;
        product += T::conj_impl(v) * *w;
    }
    let along = -(T::of_parts(0.5, 0.0) * T::conj_impl(&tau) * product);
    for (w, v) in w.iter_mut().zip(v) {
        *w += along * *v;
    }
    // SAFETY: as above.
    unsafe {
        for j in (0..whole).step_by(GROUP) {
            update::<T, S, GROUP>(passes, d, j, v, w);
        }
        for j in whole..k {
            update::<T, S, 1>(passes, d, j, v, w);
        }
    }
}

/// Subtracts v w^H + w v^H from N columns of D.
///
/// # Safety
/// The lower triangle of the block is this thread's.
#[inline(always)]
unsafe fn update<T: Scalar, S: Simd, const N: usize>(
    passes: Wide<S>,
    d: Block<T>,
    j: usize,
    v: &[T],
    w: &[T],
) {
    let (mut of_v, mut of_w) = ([T::ZERO; N], [T::ZERO; N]);
    for i in 0..N {
        of_v[i] = -T::conj_impl(&w[j + i]);
        of_w[i] = -T::conj_impl(&v[j + i]);
        for b in j + i..j + N {
            // SAFETY: as promised.
            unsafe { *d.column(b, j + i) += of_v[i] * v[b] + of_w[i] * w[b] };
        }
    }
    // SAFETY: as promised.
    unsafe { passes.spread_two::<T, N>(d.columns(j + N, j), of_v, &v[j + N..], of_w, &w[j + N..]) };
}

/// `C <- N^H (C - tau u v^H)` for N columns, with `along` = -conj of N's tau.
///
/// # Safety
/// The columns are this thread's.
#[inline(always)]
unsafe fn right_and_left<T: Scalar, S: Simd, const N: usize>(
    passes: Wide<S>,
    c: Block<T>,
    j: usize,
    [v, u, next]: [&[T]; 3],
    tau: T,
    along: T,
) {
    let mut of_u: [T; N] = part(v, j);
    for s in &mut of_u {
        *s = -tau * T::conj_impl(s);
    }
    // SAFETY: as promised.
    unsafe {
        let mut of_next = passes.spread_and_dots::<T, N>(c.columns(0, j), of_u, u, next);
        for s in &mut of_next {
            *s = along * *s;
        }
        passes.spread::<T, N>(c.columns(0, j), of_next, next);
    }
}

/// The step with some vectors.
pub struct Vectors<'a, T>(pub Step<'a, T>);

impl<T: Scalar> WithSimd for Vectors<'_, T> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> T {
        // SAFETY: `run`'s caller's promise.
        unsafe { self.0.perform(Wide(simd)) }
    }
}
