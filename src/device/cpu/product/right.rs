//! The right factor of a product, as the kernel reads it: packed, the adjoint of what is packed, or contiguous
//! columns as they are.
//!
//! All of it is inlined into the kernel, as in `tile.rs`.

use std::marker::PhantomData;

use faer::MatRef;

use super::Packed;
use crate::scalar::Scalar;
use crate::transpose::memory::prefetch_lines;

/// From the steps of an adjoint unit that are multiplied to those that are prefetched, in units of the packed
/// factor: they are too far from each other for the processor's own prefetches.
const AHEAD: usize = 3;

/// Columns in units of the kernel.
pub trait RightFactor<T: Scalar>: Copy {
    fn columns(&self) -> usize;
    fn depth(&self) -> usize;
    /// Whether every unit of so many columns is there, if only as zeros.
    fn has_units_of(&self, columns: usize) -> bool;
    /// The unit of N real columns that begins at a column, a multiple of that.
    fn unit<const N: usize>(&self, column: usize) -> impl Numbers<T::Real>;
}

/// Where the real numbers of a unit are: N for each step of the inner dimension.
pub trait Numbers<R>: Copy {
    /// Steps of the inner dimension without a branch.
    const STEPS: usize = 4;
    /// Whether sums take the conjugates of these numbers.
    const CONJUGATES: bool = false;

    fn depth(&self) -> usize;
    /// Number j of a step.
    ///
    /// # Safety
    /// It is there.
    unsafe fn get(&self, step: usize, j: usize) -> R;
    /// The same, STEPS later.
    fn after(self) -> Self;
}

impl<T: Scalar> RightFactor<T> for &Packed<'_, T> {
    fn columns(&self) -> usize {
        self.lines()
    }

    fn depth(&self) -> usize {
        Packed::depth(self)
    }

    fn has_units_of(&self, columns: usize) -> bool {
        Packed::unit(self) == columns
    }

    #[inline(always)]
    fn unit<const N: usize>(&self, column: usize) -> impl Numbers<T::Real> {
        Unit::<T::Real, N>::of(self.unit_from(column))
    }
}

impl<T: Scalar> RightFactor<T> for MatRef<'_, T> {
    fn columns(&self) -> usize {
        self.ncols()
    }

    fn depth(&self) -> usize {
        self.nrows()
    }

    fn has_units_of(&self, columns: usize) -> bool {
        let is_contiguous = self.row_stride() == 1 || self.nrows() <= 1;
        is_contiguous && self.ncols().is_multiple_of(columns)
    }

    #[inline(always)]
    fn unit<const N: usize>(&self, column: usize) -> impl Numbers<T::Real> {
        let stride = self.col_stride() as usize;
        Columns::<T> {
            at: self.as_ptr().wrapping_add(column * stride).cast(),
            depth: self.nrows(),
            stride: stride * size_of::<T>() / size_of::<T::Real>(),
            of: PhantomData,
        }
    }
}

/// Of a packed unit.
#[derive(Clone, Copy)]
pub struct Unit<R, const N: usize> {
    at: *const R,
    depth: usize,
}

impl<R: Copy, const N: usize> Unit<R, N> {
    pub fn of<T>(unit: &[T]) -> Self {
        Unit { at: unit.as_ptr().cast(), depth: size_of_val(unit) / size_of::<R>() / N }
    }
}

impl<R: Copy, const N: usize> Numbers<R> for Unit<R, N> {
    #[inline(always)]
    fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    unsafe fn get(&self, step: usize, j: usize) -> R {
        // SAFETY: the caller promises it.
        unsafe { self.at.add(step * N + j).read() }
    }

    #[inline(always)]
    fn after(self) -> Self {
        Unit { at: self.at.wrapping_add(Self::STEPS * N), depth: self.depth - Self::STEPS }
    }
}

/// The conjugates of these.
#[derive(Clone, Copy)]
pub struct Conjugated<C>(pub C);

impl<R, C: Numbers<R>> Numbers<R> for Conjugated<C> {
    const STEPS: usize = C::STEPS;
    const CONJUGATES: bool = !C::CONJUGATES;

    #[inline(always)]
    fn depth(&self) -> usize {
        self.0.depth()
    }

    #[inline(always)]
    unsafe fn get(&self, step: usize, j: usize) -> R {
        // SAFETY: the caller promises it.
        unsafe { self.0.get(step, j) }
    }

    #[inline(always)]
    fn after(self) -> Self {
        Conjugated(self.0.after())
    }
}

/// Of contiguous columns of T, `stride` real numbers apart.
#[derive(Clone, Copy)]
struct Columns<T: Scalar> {
    at: *const T::Real,
    depth: usize,
    stride: usize,
    of: PhantomData<T>,
}

impl<T: Scalar> Numbers<T::Real> for Columns<T> {
    #[inline(always)]
    fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    unsafe fn get(&self, step: usize, j: usize) -> T::Real {
        let reals = size_of::<T>() / size_of::<T::Real>();
        // SAFETY: the caller promises it.
        unsafe { self.at.add(j / reals * self.stride + step * reals + j % reals).read() }
    }

    #[inline(always)]
    fn after(self) -> Self {
        let reals = size_of::<T>() / size_of::<T::Real>();
        let at = self.at.wrapping_add(Self::STEPS * reals);
        Columns { at, depth: self.depth - Self::STEPS, ..self }
    }
}

/// The adjoint of a packed right factor. So it has a column for each step of the inner dimension of that,
/// which are whole units.
#[derive(Clone, Copy)]
pub struct Adjoint<'p, 'a, T>(pub &'p Packed<'a, T>);

impl<T: Scalar> RightFactor<T> for Adjoint<'_, '_, T> {
    fn columns(&self) -> usize {
        self.0.depth()
    }

    fn depth(&self) -> usize {
        self.0.lines()
    }

    fn has_units_of(&self, columns: usize) -> bool {
        self.0.unit() == columns && self.0.depth().is_multiple_of(columns)
    }

    #[inline(always)]
    fn unit<const N: usize>(&self, column: usize) -> impl Numbers<T::Real> {
        let reals = size_of::<T>() / size_of::<T::Real>();
        AdjointUnit::<T, N> {
            at: self.0.all().as_ptr().wrapping_add(column * N / reals).cast(),
            depth: self.0.lines(),
            next: self.0.depth() * N,
            of: PhantomData,
        }
    }
}

/// Of the adjoint of a packed factor: a unit of that has as many steps, and the one after it is `next` real
/// numbers later.
#[derive(Clone, Copy)]
struct AdjointUnit<T: Scalar, const N: usize> {
    at: *const T::Real,
    depth: usize,
    next: usize,
    of: PhantomData<T>,
}

impl<T: Scalar, const N: usize> Numbers<T::Real> for AdjointUnit<T, N> {
    const STEPS: usize = N * size_of::<T::Real>() / size_of::<T>();
    const CONJUGATES: bool = true;

    #[inline(always)]
    fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    unsafe fn get(&self, step: usize, j: usize) -> T::Real {
        let reals = size_of::<T>() / size_of::<T::Real>();
        // SAFETY: the caller promises it.
        unsafe { self.at.add(j / reals * N + step * reals + j % reals).read() }
    }

    #[inline(always)]
    fn after(self) -> Self {
        let at = self.at.wrapping_add(self.next);
        let later = self.at.wrapping_add(AHEAD * self.next).cast();
        prefetch_lines(later, Self::STEPS * N * size_of::<T::Real>());
        AdjointUnit { at, depth: self.depth - Self::STEPS, ..self }
    }
}
