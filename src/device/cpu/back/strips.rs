//! C^T in strips: as many rows as a unit of the product kernel has, and each strip column by column. That
//! is a packed left factor, and also a matrix with contiguous columns. So products with it pack nothing
//! but the other factor.

use std::ops::Range;

use faer::reborrow::ReborrowMut;
use faer::{MatMut, MatRef};

use super::super::blas;
use super::super::product::{Packed, Reflectors, Units, copy_lines, multiply, multiply_adjoint};
use super::SWEEPS;
use crate::device::Op;
use crate::matrix::Columns;
use crate::scalar::Scalar;
use crate::transpose::memory::{LINE, prefetch_far};

/// Columns from the one that is copied to the one that is prefetched.
const AHEAD: usize = 32;

/// Rows of a strip, and lines of a factor, on processors without a product kernel.
pub const PLAIN: Units = Units { rows: 32, cols: 1 };

/// How products are done: by the kernel with these units, or by faer.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub units: Units,
    pub is_plain: bool,
}

impl Kernel {
    pub fn of<T: Scalar>() -> Self {
        match Units::of::<T>() {
            Some(units) => Kernel { units, is_plain: false },
            None => Kernel { units: PLAIN, is_plain: true },
        }
    }

    /// Sweeps whose reflectors are a factor. With more of them, V has more zeros. The kernel has its full speed
    /// with a unit.
    pub fn sweeps(self) -> usize {
        if self.is_plain { SWEEPS } else { self.units.cols }
    }

    /// Elements of a right factor.
    pub fn right_elements(self, lines: usize, depth: usize) -> usize {
        lines.next_multiple_of(self.units.cols) * depth
    }

    /// Makes the right factor of which `lines` is the transpose, in the first elements of `memory`.
    pub fn pack<T: Scalar>(self, lines: MatRef<T>, memory: &mut [T]) {
        let (count, depth) = lines.shape();
        if !self.is_plain {
            Packed::new(lines, false, self.units.cols, memory);
            return;
        }
        let memory = &mut memory[..count * depth];
        MatMut::from_column_major_slice_mut(memory, count, depth).copy_from(lines);
    }

    /// A right factor that is in the first elements of `memory`.
    pub fn made<T: Scalar>(self, memory: &[T], lines: usize, depth: usize) -> Right<'_, T> {
        match self.is_plain {
            false => Right::Packed(Packed::of(memory, self.units.cols, lines, depth)),
            true => {
                let memory = &memory[..lines * depth];
                Right::Plain(MatRef::from_column_major_slice(memory, lines, depth))
            }
        }
    }

    /// `C <- C + L R`, or minus if `negated`. C and L are strips.
    pub fn multiply<T: Scalar>(self, c: &mut [T], negated: bool, l: &[T], right: &Right<T>) {
        let (c, height) = (self.columns_of(c), self.units.rows);
        match right {
            Right::Packed(right) => {
                let left = Packed::of(l, height, height, right.depth());
                multiply(c, negated, &left, 0, right);
            }
            Right::Plain(lines) => {
                let l = MatRef::from_column_major_slice(l, height, lines.ncols());
                let alpha = if negated { -T::ONE } else { T::ONE };
                blas::gemm(c, alpha, l, Op::None, lines.transpose());
            }
        }
    }

    /// `C <- C + L R^H`. C and L are strips, and R^H has whole units of columns.
    pub fn multiply_adjoint<T: Scalar>(self, c: &mut [T], l: &[T], right: &Right<T>) {
        let (c, height) = (self.columns_of(c), self.units.rows);
        match right {
            Right::Packed(right) => {
                let left = Packed::of(l, height, height, right.lines());
                multiply_adjoint(c, &left, right);
            }
            Right::Plain(lines) => {
                let l = MatRef::from_column_major_slice(l, height, lines.nrows());
                blas::gemm_conjugate(c, l, *lines);
            }
        }
    }

    /// Elements of so many reflectors and rows, at most a unit of them for the kernel: V and T.
    pub fn reflector_elements(self, count: usize, rows: usize) -> usize {
        let width = count.next_multiple_of(self.units.cols);
        width * (rows + width)
    }

    /// `C <- C - ((C conj(V)) T^T) V^T` for a strip C. The lines of V^T are a right factor; after them come
    /// those of -T. `memory` is for two products.
    pub fn reflect<T: Scalar>(self, c: &mut [T], made: &[T], count: usize, memory: &mut [T]) {
        let (height, rows) = (self.units.rows, c.len() / self.units.rows);
        if !self.is_plain {
            return Reflectors::of(made, self.units, count, rows).apply(c);
        }
        let mut c = self.columns_of(c);
        let (v, t) = made.split_at(count * rows);
        let lines = MatRef::from_column_major_slice(v, count, rows);
        let minus_t = MatRef::from_column_major_slice(&t[..count * count], count, count);
        let memory = &mut memory[..2 * height * count];
        memory.fill(T::ZERO);
        let products = MatMut::from_column_major_slice_mut(memory, height, 2 * count);
        let (mut w, mut product) = products.split_at_col_mut(count);
        blas::gemm_conjugate(w.rb_mut(), c.as_ref(), lines.transpose());
        blas::gemm(product.rb_mut(), T::ONE, w.as_ref(), Op::None, minus_t.transpose());
        blas::gemm(c.rb_mut(), T::ONE, product.as_ref(), Op::None, lines);
    }

    /// A strip as a matrix.
    fn columns_of<T>(self, strip: &mut [T]) -> MatMut<'_, T> {
        let cols = strip.len() / self.units.rows;
        MatMut::from_column_major_slice_mut(strip, self.units.rows, cols)
    }
}

/// A right factor that is ready for products.
pub enum Right<'m, T> {
    Packed(Packed<'m, T>),
    /// Its transpose.
    Plain(MatRef<'m, T>),
}

/// Some rows of C^T, and as many more of zeros as fill the last strip.
pub struct Strips<'m, T> {
    pub kernel: Kernel,
    memory: &'m mut [T],
    columns: Range<usize>,
    count: usize,
}

impl<'m, T: Scalar> Strips<'m, T> {
    /// Elements for so many columns and rows of C^T.
    pub fn elements(kernel: Kernel, columns: usize, count: usize) -> usize {
        count.next_multiple_of(kernel.units.rows) * columns
    }

    /// `count` rows of these columns, in memory of so many elements.
    pub fn new(kernel: Kernel, columns: Range<usize>, count: usize, memory: &'m mut [T]) -> Self {
        assert_eq!(memory.len(), Self::elements(kernel, columns.len(), count), "room for strips");
        Strips { kernel, memory, columns, count }
    }

    /// Rows of C^T, with those of zeros.
    pub fn height(&self) -> usize {
        self.count.next_multiple_of(self.kernel.units.rows)
    }

    /// Elements of a strip.
    fn size(&self) -> usize {
        self.kernel.units.rows * self.columns.len()
    }

    /// `count` columns from `first` on of each strip.
    pub fn each(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]> {
        let (height, first) = (self.kernel.units.rows, first - self.columns.start);
        let size = self.size();
        let strips = self.memory.chunks_exact_mut(size.max(1));
        strips.map(move |strip| &mut strip[first * height..(first + count) * height])
    }

    /// Takes the rows of C^T from `first` on, with a factor for each column if there are any.
    ///
    /// # Safety
    /// *Order*: nobody writes these elements.
    pub unsafe fn load(&mut self, from: &Columns<T>, first: usize, factors: Option<&[(f64, f64)]>) {
        let (height, size) = (self.kernel.units.rows, self.size());
        if !self.count.is_multiple_of(height) {
            let last = self.memory.len() - size;
            self.memory[last..].fill(T::ZERO);
        }
        let (columns, memory) = (self.columns.clone(), &mut self.memory);
        for_parts(from, columns.clone(), first..first + self.count, height, |at, part| {
            // SAFETY: the caller's promise.
            let part = unsafe { &*part };
            let to = &mut memory[at.strip * size + at.column * height..][..part.len()];
            match factors.map(|all| all[columns.start + at.column]) {
                Some((re, im)) => {
                    let factor = T::of_parts(re, im);
                    to.iter_mut().zip(part).for_each(|(to, &x)| *to = factor * x);
                }
                None => copy_lines(part, to),
            }
        });
    }

    /// Puts them back, conjugated if you like.
    ///
    /// # Safety
    /// *Order*: nobody else accesses these elements.
    pub unsafe fn store(&self, to: &Columns<T>, first: usize, conjugated: bool) {
        let (height, size) = (self.kernel.units.rows, self.size());
        let rows = first..first + self.count;
        for_parts(to, self.columns.clone(), rows, height, |at, part| {
            // SAFETY: the caller's promise.
            let part = unsafe { &mut *part };
            copy_lines(&self.memory[at.strip * size + at.column * height..][..part.len()], part);
            if conjugated {
                part.iter_mut().for_each(|x| *x = T::conj_impl(x));
            }
        });
    }
}

/// Where a part of a column is.
struct At {
    strip: usize,
    /// From the first one on.
    column: usize,
}

/// Visits some rows of each column, in parts as high as strips. Those of later columns are prefetched:
/// columns are too far from each other for the processor's own prefetches. Addresses instead of views of
/// each part, as these take longer than the copies.
fn for_parts<T>(
    all: &Columns<T>,
    columns: Range<usize>,
    rows: Range<usize>,
    height: usize,
    mut visit: impl FnMut(At, *mut [T]),
) {
    let mut column = 0;
    for block in all.range(columns.start, columns.end) {
        let block = block.row_range(rows.clone());
        assert!(block.row_stride() == 1 || rows.len() <= 1, "contiguous columns");
        for j in 0..block.cols() {
            let top = block.as_ptr().wrapping_add(j * block.col_stride());
            let later = top.wrapping_add(AHEAD * block.col_stride()).cast::<u8>();
            for at in (0..rows.len() * size_of::<T>()).step_by(LINE) {
                prefetch_far(later.wrapping_add(at));
            }
            for (strip, row) in (0..rows.len()).step_by(height).enumerate() {
                let len = height.min(rows.len() - row);
                let part = std::ptr::slice_from_raw_parts_mut(top.wrapping_add(row), len);
                visit(At { strip, column }, part);
            }
            column += 1;
        }
    }
}
