//! C^T in strips: as many rows as a unit of the product kernel has, and each strip column by column. That
//! is a packed left factor, and also a matrix with contiguous columns. So products with it pack nothing
//! but the other factor.

use std::ops::Range;

use faer::reborrow::ReborrowMut;
use faer::{MatMut, MatRef};

use super::super::blas;
use super::super::product::{Packed, Reflectors, Units, copy_lines, multiply, multiply_adjoint};
use super::GROUP;
use crate::device::Op;
use crate::matrix::{Cells, Columns};
use crate::scalar::Scalar;
use crate::transpose::memory::{LINE, prefetch};

/// Columns from the one that is copied to the one that is prefetched.
const AHEAD: usize = 6;

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
        if self.is_plain { GROUP } else { self.units.cols }
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
    /// those of -T. `memory` is for two products, and the strip that comes next is `apart` elements later.
    pub fn reflect<T: Scalar>(
        self,
        c: &mut [T],
        apart: usize,
        made: &[T],
        count: usize,
        memory: &mut [T],
    ) {
        let (height, rows) = (self.units.rows, c.len() / self.units.rows);
        if !self.is_plain {
            return Reflectors::of(made, self.units, count, rows).apply(c, apart);
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

    /// Elements from a strip to the next one.
    pub fn apart(&self) -> usize {
        self.kernel.units.rows * self.columns.len()
    }

    /// `count` columns from `first` on of each strip.
    pub fn each(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]> {
        let (height, first) = (self.kernel.units.rows, first - self.columns.start);
        let apart = self.apart();
        let strips = self.memory.chunks_exact_mut(apart.max(1));
        strips.map(move |strip| &mut strip[first * height..(first + count) * height])
    }

    /// Takes the rows of C^T from `first` on, with a factor for each column if there are any.
    ///
    /// # Safety
    /// *Order*: nobody writes these elements.
    pub unsafe fn load(&mut self, from: &Columns<T>, first: usize, factors: Option<&[(f64, f64)]>) {
        let (height, size) = (self.kernel.units.rows, self.apart());
        if !self.count.is_multiple_of(height) {
            let last = self.memory.len() - size;
            self.memory[last..].fill(T::ZERO);
        }
        for (at, rows) in rows_of(from, self.columns.clone(), first, self.count).enumerate() {
            // SAFETY: the caller's promise.
            let parts = blas::column(unsafe { rows.read() }, 0).chunks(height);
            let factor = factors.map(|all| all[self.columns.start + at]);
            let factor = factor.map(|(re, im)| T::of_parts(re, im));
            for (strip, part) in self.memory.chunks_exact_mut(size).zip(parts) {
                let to = &mut strip[at * height..][..part.len()];
                match factor {
                    Some(factor) => to.iter_mut().zip(part).for_each(|(to, &x)| *to = factor * x),
                    None => copy_lines(part, to),
                }
            }
        }
    }

    /// Puts them back, conjugated if you like.
    ///
    /// # Safety
    /// *Order*: nobody else accesses these elements.
    pub unsafe fn store(&self, to: &Columns<T>, first: usize, conjugated: bool) {
        let (height, size) = (self.kernel.units.rows, self.apart());
        for (at, rows) in rows_of(to, self.columns.clone(), first, self.count).enumerate() {
            // SAFETY: the caller's promise.
            let parts = blas::column_mut(unsafe { rows.write() }, 0).chunks_mut(height);
            for (part, strip) in parts.zip(self.memory.chunks_exact(size.max(1))) {
                let from = &strip[at * height..][..part.len()];
                copy_lines(from, part);
                if conjugated {
                    part.iter_mut().for_each(|x| *x = T::conj_impl(x));
                }
            }
        }
    }
}

/// `count` rows of each column. Those of later columns are prefetched: columns are too far from each
/// other for the processor's own prefetches.
fn rows_of<'a, T>(
    all: &Columns<'a, T>,
    columns: Range<usize>,
    first: usize,
    count: usize,
) -> impl Iterator<Item = Cells<'a, T>> {
    let rows = move |column: Cells<'a, T>| column.sub(first, 0, count, 1);
    let mut later = all.each(columns.start, columns.end).skip(AHEAD).map(rows);
    all.each(columns.start, columns.end).map(rows).inspect(move |_| {
        let Some(rows) = later.next() else { return };
        for at in (0..count * size_of::<T>()).step_by(LINE) {
            prefetch(rows.as_ptr().cast::<u8>().wrapping_add(at));
        }
    })
}
