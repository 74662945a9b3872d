//! Right-hand sides over processes. Each process has all rows of some columns. Of those that all
//! have alike, each takes its share, and gives its solutions to the others.

use std::ffi::c_int;

use super::{Part, elements_mut};
use crate::error::Result;
use crate::processes::moves::Cyclic;
use crate::processes::{Descriptor, Grid};
use crate::routines::solver::options::Rhs;
use crate::routines::solver::slot::Kind;
use crate::scalar::Scalar;

/// Vectors of all rows of B, by rows.
pub(super) struct Sides<'x, T> {
    pub x: &'x mut [T],
    /// Their number on this process.
    pub k: usize,
    pub rhs: Rhs,
}

impl<T: Scalar> Part<T> {
    /// The right-hand sides of the call.
    pub(super) fn right_hand_sides<'x>(&self) -> Sides<'x, T> {
        let to = self.results(Kind::Rhs).next().expect("a solve has an x");
        // SAFETY: a result of the call, which this thread alone uses until the reply.
        Sides { x: unsafe { elements_mut::<T>(to) }, k: self.rhs, rhs: self.options.rhs }
    }

    /// Replaces vectors by what `substitute` makes of this process' columns, of their conjugates where
    /// `conjugated`. It gets the first of them, their description and the number of those of all
    /// processes.
    pub(super) fn solve(
        &mut self,
        grid: &Grid,
        Sides { x, k, rhs }: Sides<T>,
        conjugated: bool,
        substitute: impl FnOnce(*mut T, &Descriptor, c_int) -> Result<usize>,
    ) -> Result<()> {
        let (n, ranks, me) = (self.m(), self.order.ranks, grid.ranks.rank());
        let (width, all) = match rhs {
            Rhs::Replicated => (k.div_ceil(ranks), k),
            Rhs::Columns => (k, k * ranks),
        };
        if all == 0 {
            return Ok(());
        }
        // Those columns of `x` that a process has.
        let own = |rank: usize| match rhs {
            Rhs::Replicated => (rank * width).min(k)..((rank + 1) * width).min(k),
            Rhs::Columns => 0..k,
        };
        let image = |x: T| if conjugated { T::conj_impl(&x) } else { x };
        let [mut sides, mut others] = std::mem::take(&mut self.sides);
        for (column, side) in own(me).zip(sides.chunks_exact_mut(n)) {
            side.iter_mut().zip(x.chunks_exact(k)).for_each(|(to, row)| *to = image(row[column]));
        }
        let order = Cyclic { rows: n, columns: all, ranks, width };
        let of = Descriptor::new(grid.context, &order, self.order.width);
        substitute(sides.as_mut_ptr(), &of, all as c_int)?;
        let mut give = |columns: std::ops::Range<usize>, sides: &[T]| {
            for (column, side) in columns.zip(sides.chunks_exact(n)) {
                side.iter()
                    .zip(x.chunks_exact_mut(k))
                    .for_each(|(from, row)| row[column] = image(*from));
            }
        };
        match rhs {
            Rhs::Columns => give(own(me), &sides),
            Rhs::Replicated => {
                for rank in (0..ranks).filter(|&rank| !own(rank).is_empty()) {
                    let count = n * own(rank).len();
                    let part = if rank == me { &mut sides } else { &mut others };
                    grid.ranks.broadcast(&mut part[..count], rank)?;
                    give(own(rank), &part[..count]);
                }
            }
        }
        self.sides = [sides, others];
        Ok(())
    }
}
