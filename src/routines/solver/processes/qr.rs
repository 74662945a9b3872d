//! A = Q R over processes. R and the reflectors of B's columns are where ScaLAPACK leaves them.

use std::ffi::{CStr, c_int};

use super::sides::Sides;
use super::stages::{ONE, counted};
use super::{Part, elements, elements_mut};
use crate::device::Op;
use crate::error::Result;
use crate::processes::moves::Cyclic;
use crate::processes::{Descriptor, Grid, checked};
use crate::routines::solver::routine::Stage;
use crate::routines::solver::slot::{Kind, Signature};
use crate::scalar::{DType, Scalar, larger};
use crate::settings;
use crate::transpose::transpose_in_place;

impl<T: Scalar> Part<T> {
    /// The extents of B, and the number of its reflectors, for ScaLAPACK.
    fn shape(&self) -> [c_int; 3] {
        [self.m(), self.n(), self.m().min(self.n())].map(|extent| extent as c_int)
    }

    /// Calls a routine for the length of its work, and then with that work.
    fn with_work(&mut self, mut call: impl FnMut(*mut T, c_int)) {
        let mut asked = [T::ZERO; 2];
        call(asked.as_mut_ptr(), -1);
        let mut work = std::mem::take(&mut self.work);
        work.resize(work.len().max(counted(&asked)), T::ZERO);
        call(work.as_mut_ptr(), work.len() as c_int);
        self.work = work;
    }

    pub(super) fn geqrf(&mut self, grid: &Grid) -> Result<()> {
        let ([m, n, _], of, a) = (self.shape(), self.descriptor(grid), self.a());
        let (geqrf, mut info) = (grid.scalapack.routines::<T>().geqrf, 0);
        let mut own = vec![T::ZERO; self.order.local().max(1)];
        // SAFETY: this process' columns of B, as `of` describes them, room for the coefficient of each,
        // and work of the stated length. All processes call this.
        self.with_work(|work, length| unsafe {
            let (tau, work) = (own.as_mut_ptr().cast(), work.cast());
            geqrf(&m, &n, a.cast(), &ONE, &ONE, of.as_ptr(), tau, work, &length, &mut info);
        });
        checked("p?geqrf", info)?;
        self.share_coefficients(grid, &own)?;
        self.find_dependent(grid)
    }

    /// All processes get the coefficients that each has of its own columns.
    fn share_coefficients(&mut self, grid: &Grid, own: &[T]) -> Result<()> {
        let (me, least) = (grid.ranks.rank(), self.coefficients.len());
        let mut parts = vec![0.0; 2 * least];
        for (j, tau) in own[..self.order.local()].iter().enumerate() {
            let column = self.order.column(me, j);
            if column < least {
                (parts[2 * column], parts[2 * column + 1]) = tau.parts();
            }
        }
        grid.ranks.sum(&mut parts)?;
        let of_parts = |x: &[f64]| T::of_parts(x[0], x[1]);
        self.coefficients = parts.chunks_exact(2).map(of_parts).collect();
        Ok(())
    }

    /// Those of this process' columns.
    fn own_coefficients(&self, grid: &Grid) -> Vec<T> {
        let me = grid.ranks.rank();
        let of_column = |j| self.coefficients.get(self.order.column(me, j)).copied();
        let own = (0..self.order.local()).map(|j| of_column(j).unwrap_or(T::ZERO));
        own.chain([T::ZERO]).collect()
    }

    /// Reports the first column that depends on those before it, by the bar of one process.
    fn find_dependent(&mut self, grid: &Grid) -> Result<()> {
        let (m, n, me) = (self.m(), self.unpadded(), grid.ranks.rank());
        let unit = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
        let (rows, columns) = (m as f64, n as f64);
        let bar = rows.min(columns * rows.sqrt()) * unit;
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        let a = unsafe { elements::<T>(self.columns()) };
        let is_free = |j: usize, column: usize| {
            let r = &a[j * m..][..=column];
            let sizes = r.iter().map(|x| x.modulus());
            let largest = sizes.clone().fold(0.0, f64::max);
            // Relative to the largest entry, no square leaves the range.
            let norm = largest * sizes.map(|x| (x / largest).powi(2)).sum::<f64>().sqrt();
            r[column].modulus() > bar * norm
        };
        let own = (0..self.order.local()).map(|j| (j, self.order.column(me, j)));
        let mut checked = own.filter(|&(_, column)| column < m.min(n));
        let found = checked.find(|&(j, column)| !is_free(j, column));
        let found = found.map_or(0.0, |(_, column)| (column + 1) as f64);
        let all = grid.ranks.gather([found])?;
        let reported = all.into_iter().flatten().filter(|&column| column > 0.0);
        self.info = reported.reduce(f64::min).unwrap_or(0.0) as usize;
        Ok(())
    }

    /// R by columns, as the caller has them.
    pub(super) fn copy_triangle(&mut self, grid: &Grid) -> Result<()> {
        let (m, least, me) = (self.m(), self.m().min(self.n()), grid.ranks.rank());
        let order = Cyclic { rows: least, ..self.order };
        let to = self.results(Kind::Upper).next().expect("an R");
        // SAFETY: an operand, which nothing writes until the reply, and a result, which this thread alone
        // uses.
        let (a, r) = unsafe { (elements::<T>(self.columns()), elements_mut::<T>(to)) };
        for (j, (from, to)) in a.chunks_exact(m).zip(r.chunks_exact_mut(least)).enumerate() {
            let count = least.min(order.column(me, j) + 1);
            to[..count].copy_from_slice(&from[..count]);
            to[count..].fill(T::ZERO);
        }
        order.move_columns(&grid.ranks, r, &mut self.staged, false)?;
        transpose_in_place(r, order.local(), least, settings::threads());
        Ok(())
    }

    /// The first n columns of Q, in the order of the work.
    pub(super) fn form_q(&mut self, grid: &Grid) -> Result<()> {
        let args = self.options.routine.signature.args;
        let given = &self.call.args[Signature::matrix(args).expect("a factor")];
        // SAFETY: an operand, which nothing writes until the reply, and a result, which this thread alone
        // uses. Both have as many elements.
        unsafe { elements_mut::<T>(self.columns()).copy_from_slice(elements::<T>(given)) };
        let ([m, n, least], of, a) = (self.shape(), self.descriptor(grid), self.a());
        let (form, mut info) = (grid.scalapack.reflectors::<T>().form, 0);
        let own = self.own_coefficients(grid);
        // SAFETY: as in `geqrf`.
        self.with_work(|work, length| unsafe {
            let (tau, work) = (own.as_ptr().cast_mut().cast(), work.cast());
            form(&m, &n, &least, a.cast(), &ONE, &ONE, of.as_ptr(), tau, work, &length, &mut info);
        });
        checked("p?orgqr", info).map(drop)
    }

    /// op(Q) B, op that of the call, or the adjoint for a solution.
    pub(super) fn apply_q(&mut self, grid: &Grid) -> Result<()> {
        let is_solution = self.options.routine.has(Stage::SolveTriangle);
        let op: &CStr = match is_solution || self.options.op == Op::Adjoint {
            true if T::IS_COMPLEX => c"C",
            true => c"T",
            false => c"N",
        };
        let ([m, _, least], of, a) = (self.shape(), self.descriptor(grid), self.a());
        let apply = grid.scalapack.reflectors::<T>().apply;
        let own = self.own_coefficients(grid);
        self.solve(grid, self.right_hand_sides(), false, |x, of_x, count| {
            let mut info = 0;
            let mut call = |work: &mut [T], length: c_int| {
                let (side, tau) = (c"L".as_ptr(), own.as_ptr().cast_mut().cast());
                // SAFETY: this process' columns of B and of the right-hand sides, as described, and work of
                // the stated length. All processes call this.
                unsafe {
                    apply(
                        side,
                        op.as_ptr(),
                        &m,
                        &count,
                        &least,
                        a.cast(),
                        &ONE,
                        &ONE,
                        of.as_ptr(),
                        tau,
                        x.cast(),
                        &ONE,
                        &ONE,
                        of_x.as_ptr(),
                        work.as_mut_ptr().cast(),
                        &length,
                        &mut info,
                    );
                }
            };
            let mut asked = [T::ZERO; 2];
            call(&mut asked, -1);
            let mut work = vec![T::ZERO; counted(&asked)];
            let length = work.len() as c_int;
            call(&mut work, length);
            checked("p?ormqr", info)
        })
    }

    /// op(R)^-1 times the first n rows of vectors, op none or the adjoint.
    pub(super) fn solve_by_r(&mut self, grid: &Grid, op: Op, x: Sides<T>) -> Result<()> {
        let ([_, n, _], of, a) = (self.shape(), self.descriptor(grid), self.a());
        let trtrs = grid.scalapack.routines::<T>().trtrs;
        let op = if op == Op::Adjoint { c"C" } else { c"N" };
        self.solve(grid, x, false, |x, of_x: &Descriptor, count| {
            let (mut info, [u, op, ones]) = (0, [c"U", op, c"N"].map(CStr::as_ptr));
            // SAFETY: as in `apply_q`.
            unsafe {
                trtrs(
                    u,
                    op,
                    ones,
                    &n,
                    &count,
                    a.cast(),
                    &ONE,
                    &ONE,
                    of.as_ptr(),
                    x.cast(),
                    &ONE,
                    &ONE,
                    of_x.as_ptr(),
                    &mut info,
                );
            }
            checked("p?trtrs", info)
        })
    }

    /// norm1(R)
    pub(super) fn find_norm_of_r(&mut self, grid: &Grid) -> Result<()> {
        let (m, me) = (self.m(), grid.ranks.rank());
        // SAFETY: an operand of the call, which nothing writes until the reply.
        let a = unsafe { elements::<T>(self.columns()) };
        let sum = |j: usize| {
            let r = &a[j * m..][..=self.order.column(me, j)];
            r.iter().map(|x| x.modulus()).sum()
        };
        let largest = (0..self.order.local()).map(sum).fold(0.0, larger);
        let all = grid.ranks.gather([largest])?;
        self.norm = all.into_iter().flatten().fold(0.0, larger);
        Ok(())
    }
}
