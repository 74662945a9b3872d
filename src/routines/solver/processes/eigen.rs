//! Eigenvalues and eigenvectors over processes: ScaLAPACK's p?syev for values alone, its divide and
//! conquer for both.

use std::ffi::{CStr, c_int, c_void};

use super::stages::{ONE, counted};
use super::{Part, elements_mut};
use crate::error::Result;
use crate::layout::Storage;
use crate::processes::moves::transpose;
use crate::processes::{Eigen, Grid, checked};
use crate::routines::solver::options::Norm;
use crate::routines::solver::slot::Kind;
use crate::scalar::{DType, Scalar};
use crate::settings;
use crate::transpose::transpose_in_place;

impl<T: Scalar> Part<T> {
    /// The eigenvalues of A, and if the call wants them its eigenvectors, in the order of the work.
    pub(super) fn decompose(&mut self, grid: &Grid) -> Result<()> {
        let order = self.unpadded();
        // ScaLAPACK's routines may not end if an entry is no number.
        self.find_norm(grid, Norm::One, Some(!self.options.lower))?;
        if self.norm.is_nan() || !self.is_finite {
            self.info = order + 1;
            return Ok(());
        }
        self.put_padding_last(grid);
        let mut values = vec![T::ZERO; self.n()];
        let info = self.call_eigen(grid, &mut values)?;
        let all = grid.ranks.gather([info as f64])?;
        if all.iter().any(|[info]| *info > 0.0) {
            self.info = order + 1;
        }
        // Real numbers, one after the other.
        self.eigenvalues = match T::DTYPE.real() {
            DType::F32 => {
                bytemuck::cast_slice::<T, f32>(&values).iter().map(|&x| x.into()).collect()
            }
            _ => bytemuck::cast_slice::<T, f64>(&values).to_vec(),
        };
        self.eigenvalues.truncate(order);
        self.eigenvalues.resize(self.n(), f64::NAN);
        // Processes may differ in rounding.
        grid.ranks.broadcast(&mut self.eigenvalues, 0)
    }

    /// The identity corner that pads A gets an eigenvalue beyond those of A.
    fn put_padding_last(&self, grid: &Grid) {
        let (n, me) = (self.n(), grid.ranks.rank());
        let most = if T::DTYPE.real() == DType::F32 { f32::MAX.into() } else { f64::MAX };
        let beyond = if self.norm > 0.0 { (2.0 * self.norm).min(most) } else { 1.0 };
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        let a = unsafe { elements_mut::<T>(self.columns()) };
        for j in 0..self.order.local() {
            let column = self.order.column(me, j);
            if column >= self.unpadded() {
                a[j * n + column] = T::of_parts(beyond, 0.0);
            }
        }
    }

    /// Zeros in the rows and columns of eigenvectors that belong to padding.
    fn clear_padding(&self, grid: &Grid, v: &mut [T]) {
        let (n, order, me) = (self.n(), self.unpadded(), grid.ranks.rank());
        for (j, vector) in v.chunks_exact_mut(n).enumerate() {
            let is_padding = self.order.column(me, j) >= order;
            vector[if is_padding { 0 } else { order }..].fill(T::ZERO);
        }
    }

    fn call_eigen(&mut self, grid: &Grid, values: &mut [T]) -> Result<usize> {
        let vectors = self.options.routine.gives_eigenvectors();
        let (n, of, a) = (self.n() as c_int, self.descriptor(grid), self.a());
        let job: &CStr = if vectors { c"V" } else { c"N" };
        // By rows B is conj(A), with the other triangle.
        let triangle = if self.options.lower != self.is_transpose() { c"L" } else { c"U" };
        let vectors_there = self.results(Kind::Matrix).next().filter(|_| vectors);
        let z = vectors_there.map_or(a, |v| v.as_ptr().cast());
        let mut info = 0;
        let mut call = |work: &mut [T], reals: &mut [T], numbers: &mut [c_int], query: bool| {
            let [all, more, counts] = [work.len(), real_count::<T>(reals), numbers.len()]
                .map(|length| if query { -1 } else { length as c_int });
            let (job, triangle) = (job.as_ptr(), triangle.as_ptr());
            let [a, z, w, work, reals] =
                [a, z, values.as_mut_ptr(), work.as_mut_ptr(), reals.as_mut_ptr()]
                    .map(|at| at.cast::<c_void>());
            let numbers = numbers.as_mut_ptr();
            let of = of.as_ptr();
            // SAFETY: this process' columns of B and of its eigenvectors, as `of` describes both, room for
            // n values, and work of the stated lengths. All processes call this.
            unsafe {
                match (grid.scalapack.eigen::<T>(), vectors) {
                    (Eigen::Real(routines), false) => (routines.values)(
                        job, triangle, &n, a, &ONE, &ONE, of, w, z, &ONE, &ONE, of, work, &all,
                        &mut info,
                    ),
                    (Eigen::Real(routines), true) => (routines.vectors)(
                        job, triangle, &n, a, &ONE, &ONE, of, w, z, &ONE, &ONE, of, work, &all,
                        numbers, &counts, &mut info,
                    ),
                    (Eigen::Complex(routines), false) => (routines.values)(
                        job, triangle, &n, a, &ONE, &ONE, of, w, z, &ONE, &ONE, of, work, &all,
                        reals, &more, &mut info,
                    ),
                    (Eigen::Complex(routines), true) => (routines.vectors)(
                        job, triangle, &n, a, &ONE, &ONE, of, w, z, &ONE, &ONE, of, work, &all,
                        reals, &more, numbers, &counts, &mut info,
                    ),
                }
            };
        };
        let (mut asked, mut asked_reals, mut asked_numbers) = ([T::ZERO; 4], [T::ZERO; 4], [0; 4]);
        call(&mut asked, &mut asked_reals, &mut asked_numbers, true);
        let [mut work, mut reals] = [&mut self.work, &mut self.reals].map(std::mem::take);
        work.resize(work.len().max(counted(&asked)), T::ZERO);
        if T::IS_COMPLEX {
            // pzheev asks for less than it uses where it makes no vectors.
            let wanted = counted(&asked_reals).max(4 * n as usize).div_ceil(2);
            reals.resize(reals.len().max(wanted), T::ZERO);
        }
        let wanted = asked_numbers[0].max(7 * n + 8 * self.order.ranks as c_int + 2);
        call(&mut work, &mut reals, &mut vec![0; wanted as usize], false);
        (self.work, self.reals) = (work, reals);
        checked("p?syev", info)
    }

    /// Eigenvectors to the form in which the caller's storage has them.
    pub(super) fn turn_eigenvectors(&mut self, grid: &Grid) -> Result<()> {
        let (n, local) = (self.n(), self.order.local());
        let v = self.results(Kind::Matrix).next().expect("eigenvectors");
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        let v = unsafe { elements_mut::<T>(v) };
        self.clear_padding(grid, v);
        self.order.move_columns(&grid.ranks, v, &mut self.staged, false)?;
        match self.options.storage {
            Storage::Columns => transpose_in_place(v, local, n, settings::threads()),
            // Those of conj(A), and rows of them.
            Storage::Rows => {
                transpose(&grid.ranks, n, v, &mut self.staged)?;
                v.iter_mut().for_each(|x| *x = T::conj_impl(x));
            }
            Storage::ColumnMajor => {}
        }
        Ok(())
    }
}

/// Real numbers in the memory of these elements.
fn real_count<T: Scalar>(elements: &[T]) -> usize {
    elements.len() * if T::IS_COMPLEX { 2 } else { 1 }
}
