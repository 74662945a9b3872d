//! One step of a sweep: a reflector on both sides of its diagonal block, on the right of the block
//! below, and the reflector that this needs next.
//!
//! Everything between `run` and an instruction is inlined, as in `product/tile.rs`.

use pulp::{Simd, WithSimd};

use crate::device::cpu::vectors::{length, load, store, zero};
use crate::scalar::{DType, Lanes, Scalar, Vector};

/// A column whose square is not larger counts as zero: rounding changes the matrix by more. The
/// reciprocal of a larger column's norm is in the range.
fn least_square<T: Scalar>() -> f64 {
    match T::DTYPE.real() {
        DType::F32 => 1e-62,
        _ => 1e-270,
    }
}

/// Contiguous columns.
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    pub first: *mut T,
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
}

impl<T> Block<T> {
    /// Column j from row i on.
    #[inline(always)]
    fn column(&self, i: usize, j: usize) -> *mut T {
        debug_assert!(i <= self.rows && j < self.cols, "a column");
        self.first.wrapping_add(i + j * self.stride)
    }

    /// N columns from j on.
    #[inline(always)]
    fn columns<const N: usize>(&self, i: usize, j: usize) -> [*mut T; N] {
        let mut columns = [self.first; N];
        for (k, column) in columns.iter_mut().enumerate() {
            *column = self.column(i, j + k);
        }
        columns
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
        #[cfg(target_arch = "x86_64")]
        match pulp::Arch::new() {
            pulp::Arch::V4(simd) => return Simd::vectorize(simd, Vectors(self)),
            pulp::Arch::V3(simd) => return Simd::vectorize(simd, Vectors(self)),
            _ => {}
        }
        // SAFETY: the caller's promise.
        unsafe { self.perform(Plain) }
    }

    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn perform<P: Passes<T>>(self, passes: P) -> T {
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
                passes.sum::<GROUP>(u, part(v, j), below.columns(0, j));
            }
            for j in whole..k {
                passes.sum::<1>(u, part(v, j), below.columns(0, j));
            }
            let u = &*u;
            let of_u = -tau * T::conj_impl(&v[0]);
            passes.spread::<1>(below.columns(0, 0), [of_u], u);
            let tau_of_next = reflector(below.column(0, 0), next);
            let along = -T::conj_impl(&tau_of_next);
            let mut j = 1;
            while j + GROUP <= k {
                right_and_left::<T, P, GROUP>(passes, below, j, [v, u, next], tau, along);
                j += GROUP;
            }
            for j in j..k {
                right_and_left::<T, P, 1>(passes, below, j, [v, u, next], tau, along);
            }
            tau_of_next
        }
    }
}

/// Columns of a pass. Their sums, and what all of them need, stay in registers.
const GROUP: usize = 4;

/// The elements of a group from j on.
#[inline(always)]
fn part<T: Copy, const N: usize>(x: &[T], j: usize) -> [T; N] {
    x[j..j + N].try_into().expect("as many elements")
}

/// `D <- H^H D H` as `D - v w^H - w v^H` with w = tau D v - (1/2) conj(tau) (v^H tau D v) v.
///
/// # Safety
/// The block is this thread's.
#[inline(always)]
unsafe fn both_sides<T: Scalar, P: Passes<T>>(
    passes: P,
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
            multiply::<T, P, GROUP>(passes, d, j, v, w);
        }
        for j in whole..k {
            multiply::<T, P, 1>(passes, d, j, v, w);
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
            update::<T, P, GROUP>(passes, d, j, v, w);
        }
        for j in whole..k {
            update::<T, P, 1>(passes, d, j, v, w);
        }
    }
}

/// Adds to w what N columns of D, and the rows that they stand for, contribute to D v.
///
/// # Safety
/// The lower triangle of the block is there, and nothing writes it.
#[inline(always)]
unsafe fn multiply<T: Scalar, P: Passes<T>, const N: usize>(
    passes: P,
    d: Block<T>,
    j: usize,
    v: &[T],
    w: &mut [T],
) {
    for a in j..j + N {
        // SAFETY: as promised.
        w[a] += T::of_parts(unsafe { d.column(a, a).read() }.parts().0, 0.0) * v[a];
        for b in a + 1..j + N {
            // SAFETY: as promised.
            let element = unsafe { d.column(b, a).read() };
            w[b] += element * v[a];
            w[a] += T::conj_impl(&element) * v[b];
        }
    }
    let (here, below) = w.split_at_mut(j + N);
    // SAFETY: as promised.
    let products =
        unsafe { passes.sum_and_dots::<N>(below, part(v, j), d.columns(j + N, j), &v[j + N..]) };
    for (w, product) in here[j..].iter_mut().zip(products) {
        *w += product;
    }
}

/// Subtracts v w^H + w v^H from N columns of D.
///
/// # Safety
/// The lower triangle of the block is this thread's.
#[inline(always)]
unsafe fn update<T: Scalar, P: Passes<T>, const N: usize>(
    passes: P,
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
    unsafe { passes.spread_two::<N>(d.columns(j + N, j), of_v, &v[j + N..], of_w, &w[j + N..]) };
}

/// `C <- N^H (C - tau u v^H)` for N columns, with `along` = -conj of N's tau.
///
/// # Safety
/// The columns are this thread's.
#[inline(always)]
unsafe fn right_and_left<T: Scalar, P: Passes<T>, const N: usize>(
    passes: P,
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
        let mut of_next = passes.spread_and_dots::<N>(c.columns(0, j), of_u, u, next);
        for s in &mut of_next {
            *s = along * *s;
        }
        passes.spread::<N>(c.columns(0, j), of_next, next);
    }
}

struct Vectors<'a, T>(Step<'a, T>);

impl<T: Scalar> WithSimd for Vectors<'_, T> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> T {
        // SAFETY: `run`'s caller's promise.
        unsafe { self.0.perform(Wide(simd)) }
    }
}

/// Passes over N columns, which are as long as the slices. Those that are written are this thread's.
trait Passes<T>: Copy {
    /// `y <- y + sum of s_i x_i`
    unsafe fn sum<const N: usize>(self, y: &mut [T], s: [T; N], x: [*mut T; N]);
    /// `c_i <- c_i + s_i x`
    unsafe fn spread<const N: usize>(self, c: [*mut T; N], s: [T; N], x: &[T]);
    /// `c_i <- c_i + s_i x + t_i y`
    unsafe fn spread_two<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        x: &[T],
        t: [T; N],
        y: &[T],
    );
    /// `w <- w + sum of s_i c_i`, and c_i^H v.
    unsafe fn sum_and_dots<const N: usize>(
        self,
        w: &mut [T],
        s: [T; N],
        c: [*mut T; N],
        v: &[T],
    ) -> [T; N];
    /// `c_i <- c_i + s_i u`, and v^H c_i of the new c_i.
    unsafe fn spread_and_dots<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        u: &[T],
        v: &[T],
    ) -> [T; N];
}

/// With vectors.
#[derive(Clone, Copy)]
struct Wide<S>(S);

/// Element by element, where there is no kernel.
#[derive(Clone, Copy)]
struct Plain;

/// Runs a block for each vector of so many rows, and for a part of one that is left.
macro_rules! by_vectors {
    ($rows:expr, $full:expr, |$row:ident, $some:ident| $block:block) => {
        let whole = $rows / $full * $full;
        for $row in (0..whole).step_by($full) {
            let $some = $full;
            $block
        }
        if whole < $rows {
            let ($row, $some) = (whole, $rows - whole);
            $block
        }
    };
}

impl<S: Simd> Wide<S> {
    /// The parts of numbers, each in a vector of its own.
    #[inline(always)]
    fn parts<T: Scalar, const N: usize>(self, s: [T; N]) -> [[Vector<T, S>; 2]; N] {
        let mut parts = [[zero::<T, S>(self.0); 2]; N];
        for i in 0..N {
            parts[i][0] = T::Real::splat(self.0, T::real_part_impl(&s[i]));
            parts[i][1] = T::Real::splat(self.0, T::imag_part_impl(&s[i]));
        }
        parts
    }

    /// i x, for complex numbers.
    #[inline(always)]
    fn turned<T: Scalar>(self, x: Vector<T, S>) -> Vector<T, S> {
        if T::IS_COMPLEX { T::Real::turn(self.0, x) } else { x }
    }

    /// s x + y, with the parts of s, x and i x.
    #[inline(always)]
    fn multiply_add<T: Scalar>(
        self,
        s: [Vector<T, S>; 2],
        x: [Vector<T, S>; 2],
        y: Vector<T, S>,
    ) -> Vector<T, S> {
        let sum = T::Real::mul_add(self.0, x[0], s[0], y);
        if T::IS_COMPLEX { T::Real::mul_add(self.0, x[1], s[1], sum) } else { sum }
    }

    /// Adds the products of x^H y to sums of its parts. Im(x^H y) is Re((ix)^H y).
    #[inline(always)]
    fn add_dot<T: Scalar>(
        self,
        sums: &mut [Vector<T, S>; 2],
        x: [Vector<T, S>; 2],
        y: Vector<T, S>,
    ) {
        sums[0] = T::Real::mul_add(self.0, x[0], y, sums[0]);
        if T::IS_COMPLEX {
            sums[1] = T::Real::mul_add(self.0, x[1], y, sums[1]);
        }
    }

    /// The numbers with these parts, each the sum of a vector.
    #[inline(always)]
    fn numbers<T: Scalar, const N: usize>(self, sums: [[Vector<T, S>; 2]; N]) -> [T; N] {
        let mut numbers = [T::ZERO; N];
        for (number, [re, im]) in numbers.iter_mut().zip(sums) {
            *number = T::from_real_impl(&T::Real::sum(self.0, re));
            if T::IS_COMPLEX {
                let im = T::from_real_impl(&T::Real::sum(self.0, im));
                *number += T::of_parts(0.0, 1.0) * im;
            }
        }
        numbers
    }
}

impl<T: Scalar, S: Simd> Passes<T> for Wide<S> {
    #[inline(always)]
    unsafe fn sum<const N: usize>(self, y: &mut [T], s: [T; N], x: [*mut T; N]) {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let (rows, y) = (y.len(), y.as_mut_ptr());
        by_vectors!(rows, full, |row, some| {
            // SAFETY: these elements are there, and y is this thread's.
            unsafe {
                let mut sum = load(simd, y.wrapping_add(row), some);
                for i in 0..N {
                    let x = load(simd, x[i].wrapping_add(row), some);
                    sum = self.multiply_add::<T>(s[i], [x, self.turned::<T>(x)], sum);
                }
                store(y.wrapping_add(row), some, sum);
            }
        });
    }

    #[inline(always)]
    unsafe fn spread<const N: usize>(self, c: [*mut T; N], s: [T; N], x: &[T]) {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        by_vectors!(x.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let x = load(simd, x.as_ptr().wrapping_add(row), some);
                let x = [x, self.turned::<T>(x)];
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    store(to, some, self.multiply_add::<T>(s[i], x, load(simd, to, some)));
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn spread_two<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        x: &[T],
        t: [T; N],
        y: &[T],
    ) {
        let (simd, s, t, full) = (self.0, self.parts(s), self.parts(t), length::<T, S>());
        by_vectors!(x.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let x = load(simd, x.as_ptr().wrapping_add(row), some);
                let y = load(simd, y.as_ptr().wrapping_add(row), some);
                let (x, y) = ([x, self.turned::<T>(x)], [y, self.turned::<T>(y)]);
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    let sum = self.multiply_add::<T>(s[i], x, load(simd, to, some));
                    store(to, some, self.multiply_add::<T>(t[i], y, sum));
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn sum_and_dots<const N: usize>(
        self,
        w: &mut [T],
        s: [T; N],
        c: [*mut T; N],
        v: &[T],
    ) -> [T; N] {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let (rows, w) = (w.len(), w.as_mut_ptr());
        let mut sums = [[zero::<T, S>(simd); 2]; N];
        by_vectors!(rows, full, |row, some| {
            // SAFETY: these elements are there, and w is this thread's.
            unsafe {
                let v = load(simd, v.as_ptr().wrapping_add(row), some);
                let mut sum = load(simd, w.wrapping_add(row), some);
                for i in 0..N {
                    let c = load(simd, c[i].wrapping_add(row), some);
                    let c = [c, self.turned::<T>(c)];
                    sum = self.multiply_add::<T>(s[i], c, sum);
                    self.add_dot::<T>(&mut sums[i], c, v);
                }
                store(w.wrapping_add(row), some, sum);
            }
        });
        self.numbers(sums)
    }

    #[inline(always)]
    unsafe fn spread_and_dots<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        u: &[T],
        v: &[T],
    ) -> [T; N] {
        let (simd, s, full) = (self.0, self.parts(s), length::<T, S>());
        let mut sums = [[zero::<T, S>(simd); 2]; N];
        by_vectors!(u.len(), full, |row, some| {
            // SAFETY: these elements are there, and the columns are this thread's.
            unsafe {
                let u = load(simd, u.as_ptr().wrapping_add(row), some);
                let v = load(simd, v.as_ptr().wrapping_add(row), some);
                let (u, v) = ([u, self.turned::<T>(u)], [v, self.turned::<T>(v)]);
                for i in 0..N {
                    let to = c[i].wrapping_add(row);
                    let new = self.multiply_add::<T>(s[i], u, load(simd, to, some));
                    store(to, some, new);
                    self.add_dot::<T>(&mut sums[i], v, new);
                }
            }
        });
        self.numbers(sums)
    }
}

impl<T: Scalar> Passes<T> for Plain {
    unsafe fn sum<const N: usize>(self, y: &mut [T], s: [T; N], x: [*mut T; N]) {
        for (row, y) in y.iter_mut().enumerate() {
            for i in 0..N {
                // SAFETY: the element is there.
                *y += s[i] * unsafe { x[i].add(row).read() };
            }
        }
    }

    unsafe fn spread<const N: usize>(self, c: [*mut T; N], s: [T; N], x: &[T]) {
        for (row, &x) in x.iter().enumerate() {
            for i in 0..N {
                // SAFETY: the element is there, and this thread's.
                unsafe { *c[i].add(row) += s[i] * x };
            }
        }
    }

    unsafe fn spread_two<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        x: &[T],
        t: [T; N],
        y: &[T],
    ) {
        // SAFETY: as promised.
        unsafe {
            self.spread(c, s, x);
            self.spread(c, t, y);
        }
    }

    unsafe fn sum_and_dots<const N: usize>(
        self,
        w: &mut [T],
        s: [T; N],
        c: [*mut T; N],
        v: &[T],
    ) -> [T; N] {
        // SAFETY: as promised.
        unsafe { self.sum(w, s, c) };
        dots(c, v, |c, v| T::conj_impl(&c) * v)
    }

    unsafe fn spread_and_dots<const N: usize>(
        self,
        c: [*mut T; N],
        s: [T; N],
        u: &[T],
        v: &[T],
    ) -> [T; N] {
        // SAFETY: as promised.
        unsafe { self.spread(c, s, u) };
        dots(c, v, |c, v| T::conj_impl(&v) * c)
    }
}

/// The sums of products of each column with v.
fn dots<T: Scalar, const N: usize>(c: [*mut T; N], v: &[T], product: impl Fn(T, T) -> T) -> [T; N] {
    c.map(|c| {
        // SAFETY: the callers' promise: a column as long as v.
        let elements = v.iter().enumerate().map(|(i, &v)| product(unsafe { c.add(i).read() }, v));
        elements.fold(T::ZERO, |sum, x| sum + x)
    })
}
