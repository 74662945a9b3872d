//! The kernel: a unit of rows times a unit of columns in registers, for all units of two packed
//! factors.
//!
//! Everything between `dispatch` and an instruction has to be inlined, because only the caller is
//! compiled for AVX. So there are no closures here that take vectors.

use bytemuck::Zeroable;
use faer::reborrow::ReborrowMut;
use faer::{MatMut, MatRef};
use pulp::{Simd, WithSimd};

use super::Packed;
use super::right::{Adjoint, Numbers, RightFactor, Unit};
use crate::device::cpu::vectors::with_vectors;
use crate::scalar::{Lanes, Scalar, Vector};
use crate::transpose::memory::{prefetch, prefetch_lines};

/// Registers of a kernel: `vectors` of `vector_bytes` by `columns` real columns hold the sums. The
/// rest is for a vector of each row, and for the element of a column.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub vector_bytes: usize,
    pub vectors: usize,
    pub columns: usize,
}

/// Of 32 registers of AVX-512, and of 16 of AVX2: there the compiler would spill sums of 3 x 4.
pub const AVX512: Shape = Shape { vector_bytes: 64, vectors: 3, columns: 8 };
pub const AVX2: Shape = Shape { vector_bytes: 32, vectors: 2, columns: 6 };

/// The kernel of this processor.
pub fn shape() -> Option<Shape> {
    #[cfg(target_arch = "x86_64")]
    match pulp::Arch::new() {
        pulp::Arch::V4(_) => return Some(AVX512),
        pulp::Arch::V3(_) => return Some(AVX2),
        _ => {}
    }
    None
}

/// `C <- C + L R`, or `C - L R` if `negated`. C begins at row `first` of L, and has contiguous
/// columns. The factors are packed in this processor's units.
pub fn multiply<T: Scalar>(
    c: MatMut<T>,
    negated: bool,
    left: &Packed<T>,
    first: usize,
    right: &Packed<T>,
) {
    dispatch(Product::new(c, negated, left, first, right));
}

/// `C <- C + L R`, or `C - L R`, with the contiguous columns of R as they are: each is read once for
/// every unit of L, so this suits few of these. Columns that are no whole unit are packed in `memory`.
pub fn multiply_columns<T: Scalar>(
    mut c: MatMut<T>,
    negated: bool,
    left: &Packed<T>,
    right: MatRef<T>,
    unit: usize,
    memory: &mut [T],
) {
    let whole = right.ncols() / unit * unit;
    let (columns, rest) = right.split_at_col(whole);
    if whole > 0 {
        dispatch(Product::new(c.rb_mut().subcols_mut(0, whole), negated, left, 0, columns));
    }
    if rest.ncols() > 0 {
        let rest = Packed::new(rest.transpose(), false, unit, memory);
        multiply(c.subcols_mut(whole, rest.lines()), negated, left, 0, &rest);
    }
}

/// `C <- C + L R^H`. The inner dimension of R is one of whole units.
pub fn multiply_adjoint<T: Scalar>(c: MatMut<T>, left: &Packed<T>, right: &Packed<T>) {
    dispatch(Product::new(c, false, left, 0, Adjoint(right)));
}

/// Work on packed factors.
pub trait Work {
    /// Does it with an instruction set and the shape V x N of its kernel. It is `inline(always)`.
    fn run<S: Simd, const V: usize, const N: usize>(self, simd: S);
}

/// Does `work` with the instructions of this processor's kernel, which is there.
pub fn dispatch(work: impl Work) {
    assert!(with_vectors(Shaped(work)).is_ok(), "packed factors without a kernel");
}

/// Work with the kernel for AVX-512, or for AVX2.
struct Shaped<W>(W);

impl<W: Work> WithSimd for Shaped<W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT == 32 {
            self.0.run::<S, { AVX512.vectors }, { AVX512.columns }>(simd);
        } else {
            self.0.run::<S, { AVX2.vectors }, { AVX2.columns }>(simd);
        }
    }
}

/// A product to do, with a right factor R.
pub struct Product<'a, T, R> {
    left: &'a Packed<'a, T>,
    right: R,
    /// The row of the left factor that C begins with.
    first: usize,
    negated: bool,
    c: MatMut<'a, T>,
}

impl<'a, T: Scalar, R: RightFactor<T>> Product<'a, T, R> {
    pub fn new(
        c: MatMut<'a, T>,
        negated: bool,
        left: &'a Packed<'a, T>,
        first: usize,
        right: R,
    ) -> Self {
        let shape = (left.lines().saturating_sub(first), right.columns());
        assert_eq!(c.shape(), shape, "shape of a product");
        assert!(first <= left.lines(), "a first row that is packed");
        assert_eq!(left.depth(), right.depth(), "inner dimensions");
        assert!(c.row_stride() == 1 || c.nrows() <= 1, "contiguous columns");
        Product { left, right, first, negated, c }
    }
}

impl<T: Scalar, R: RightFactor<T>> Work for Product<'_, T, R> {
    /// The outer loop is over the units of columns: one stays in the first-level cache for all units
    /// of rows.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const N: usize>(self, simd: S) {
        let reals = size_of::<T>() / size_of::<T::Real>();
        let (unit_rows, unit_cols) = (V * size_of::<Vector<T, S>>() / size_of::<T>(), N / reals);
        assert_eq!(self.left.unit(), unit_rows, "units of the kernel");
        assert!(self.right.has_units_of(unit_cols), "units of the kernel");
        let (rows, cols) = (self.left.lines(), self.right.columns());
        let stride = self.c.col_stride() as usize;
        // Row 0 of the left factor. The kernel stays within C.
        let top = self.c.as_ptr_mut().wrapping_sub(self.first);
        let skipped = self.first / unit_rows;
        for col in (0..cols).step_by(unit_cols) {
            let right = self.right.unit::<N>(col);
            for (index, left) in self.left.units().enumerate().skip(skipped) {
                let row = index * unit_rows;
                let target = Target {
                    at: top.wrapping_add(col * stride + row),
                    stride,
                    from: self.first.saturating_sub(row),
                    rows: unit_rows.min(rows - row),
                    cols: unit_cols.min(cols - col),
                };
                // SAFETY: the target is part of C, which is borrowed. Both factors have whole units
                // of the same depth.
                unsafe { tile::<T, S, V, N>(simd, self.negated, left, right, target) };
            }
        }
    }
}

/// Where the product of two units goes.
struct Target<T> {
    /// Its first element.
    at: *mut T,
    /// Elements between columns.
    stride: usize,
    /// The first row that is there.
    from: usize,
    /// The end of the rows and columns that are there.
    rows: usize,
    cols: usize,
}

impl<T> Target<T> {
    fn column(&self, j: usize) -> *mut T {
        self.at.wrapping_add(j * self.stride)
    }

    /// Prefetches its columns of `bytes` bytes.
    #[inline(always)]
    fn prefetch(&self, bytes: usize) {
        for j in 0..self.cols {
            let column = self.column(j).cast::<u8>();
            prefetch_lines(column, bytes);
            // A column may begin within a line.
            prefetch(column.wrapping_add(bytes - 1));
        }
    }
}

/// V vectors of rows for each of N columns.
pub(super) type Sums<T, S, const V: usize, const N: usize> = [[Vector<T, S>; V]; N];

/// Adds or subtracts the product of two units.
///
/// # Safety
/// The elements of the target are there, for this thread alone. `left` and `right` have the same
/// number of steps of the inner dimension, with V vectors and N real numbers each.
#[inline(always)]
unsafe fn tile<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    negated: bool,
    left: &[T],
    right: impl Numbers<T::Real>,
    target: Target<T>,
) {
    target.prefetch(V * size_of::<Vector<T, S>>());
    // SAFETY: as the caller promises.
    let sums = unsafe { multiply_numbers::<T, S, V, N, _>(simd, left, right) };
    let columns = N * size_of::<T::Real>() / size_of::<T>();
    let sign = T::Real::splat(simd, T::Real::sign(negated));
    let unit = V * size_of::<Vector<T, S>>() / size_of::<T>();
    if target.from == 0 && target.rows == unit && target.cols == columns {
        for (j, sums) in sums.iter().enumerate().take(columns) {
            let column = target.column(j).cast::<Vector<T, S>>();
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the caller promises the elements of the target, and all are there.
                unsafe {
                    let at = column.add(i);
                    at.write_unaligned(T::Real::mul_add(simd, *sum, sign, at.read_unaligned()));
                }
            }
        }
        return;
    }
    // Some rows or columns are missing: through a copy of those that are there.
    for (j, sums) in sums.iter().enumerate().take(target.cols) {
        let mut copy = [T::Real::splat(simd, Zeroable::zeroed()); V];
        let rows = target.from..target.rows;
        // SAFETY: the caller promises these elements.
        let column = unsafe {
            let first = target.column(j).wrapping_add(rows.start);
            std::slice::from_raw_parts_mut(first, rows.len())
        };
        bytemuck::cast_slice_mut::<_, T>(&mut copy)[rows.clone()].copy_from_slice(column);
        for (old, sum) in copy.iter_mut().zip(sums) {
            *old = T::Real::mul_add(simd, *sum, sign, *old);
        }
        column.copy_from_slice(&bytemuck::cast_slice::<_, T>(&copy)[rows]);
    }
}

/// The product of two units. Complex ones have half as many columns.
///
/// # Safety
/// `left` has V vectors for each N real numbers of `right`.
#[inline(always)]
pub(super) unsafe fn multiply_units<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    left: &[T],
    right: &[T],
) -> Sums<T, S, V, N> {
    // SAFETY: as the caller promises.
    unsafe { multiply_numbers::<T, S, V, N, _>(simd, left, Unit::<T::Real, N>::of(right)) }
}

/// The same for the numbers of the right factor.
///
/// # Safety
/// `left` has V vectors for each of its steps, of which every number is there.
#[inline(always)]
pub(super) unsafe fn multiply_numbers<T: Scalar, S: Simd, const V: usize, const N: usize, R>(
    simd: S,
    left: &[T],
    right: R,
) -> Sums<T, S, V, N>
where
    R: Numbers<T::Real>,
{
    let depth = right.depth();
    let (mut a, mut b) = (left.as_ptr().cast::<Vector<T, S>>(), right);
    let mut sums = [[T::Real::splat(simd, Zeroable::zeroed()); V]; N];
    for _ in 0..depth / R::STEPS {
        for s in 0..R::STEPS {
            // SAFETY: the caller promises V vectors and N numbers for each step.
            unsafe { step::<T, S, V, N>(simd, &mut sums, a.add(s * V), b, s) };
        }
        (a, b) = (a.wrapping_add(R::STEPS * V), b.after());
    }
    for s in 0..depth % R::STEPS {
        // SAFETY: as above.
        unsafe { step::<T, S, V, N>(simd, &mut sums, a.add(s * V), b, s) };
    }
    if T::IS_COMPLEX {
        let sign = T::Real::splat(simd, T::Real::sign(R::CONJUGATES));
        // Real columns 2j and 2j + 1 are those of Re and Im of complex column j.
        for j in 0..N / 2 {
            let [of_re, of_im] = [sums[2 * j], sums[2 * j + 1]];
            for (i, sum) in sums[j].iter_mut().enumerate() {
                *sum = T::Real::mul_add(simd, T::Real::turn(simd, of_im[i]), sign, of_re[i]);
            }
        }
    }
    sums
}

/// Adds the product of V vectors of rows at `a` and the N numbers of a step.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn step<T: Scalar, S: Simd, const V: usize, const N: usize>(
    simd: S,
    sums: &mut Sums<T, S, V, N>,
    a: *const Vector<T, S>,
    b: impl Numbers<T::Real>,
    index: usize,
) {
    let mut rows = [T::Real::splat(simd, Zeroable::zeroed()); V];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller promises V vectors.
        *row = unsafe { a.add(i).read_unaligned() };
    }
    for (j, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises N numbers.
        let factor = T::Real::splat(simd, unsafe { b.get(index, j) });
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = T::Real::mul_add(simd, row, factor, *sum);
        }
    }
}
