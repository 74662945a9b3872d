//! Eigenvectors of a tridiagonal matrix become those of the Hermitian matrix that it comes from: products
//! with the reflectors of all sweeps through its band, then with those of the panels before.
//!
//! ```text
//! for groups of sweeps, last to first, steps of a group, first to last, and a few sweeps of these, last to
//! first:                        C <- (I - V T V^H) C
//! for panels, last to first:    C <- (I - V T V^H) C
//! ```
//! All workers together make a batch of factors, ready for products. Then each takes some eigenvectors,
//! applies the batch to them, and takes others. They are rows of C^T, and come to contiguous scratch, so
//! that they stay in a cache for the whole batch.

pub mod batch;
pub mod factors;
pub mod strips;

use std::ops::Range;

use self::strips::{Kernel, Strips};
use super::blas;
use super::product::DEEPEST;
use crate::comm::{Queue, Step};
use crate::device::{PanelReflectors, SweepReflectors};
use crate::matrix::{Cells, Columns};
use crate::scalar::Scalar;

/// The most sweeps of which a step is applied before the next one, while its rows are in a cache.
const GROUP: usize = 64;
/// The most sweeps in a factor I - V T V^H.
const SWEEPS: usize = 32;
/// The widest band: all rows of V in a factor of sweeps are the inner dimension of one product.
pub const WIDEST: usize = DEEPEST - SWEEPS;
/// Eigenvectors at a time have at most so many bytes of each row of C.
const ROW_BYTES: usize = 576;
/// A batch has as many elements at least, unless fewer do for all factors: each batch loads and stores all
/// eigenvectors. It has 3/32 of those of a matrix, if that is more.
const BATCH: usize = 1 << 19;
/// All factors have fewer elements than so many matrices, where bands are 16 wide or more.
const MATRICES: usize = 5;

/// What is applied to eigenvectors.
#[derive(Debug)]
pub struct Back<'m, 'a, T> {
    pub sweeps: &'m SweepReflectors<'a, T>,
    /// In the order of the reduction.
    pub panels: &'m [PanelReflectors<'a, T>],
    /// What each row is multiplied by before all else.
    pub phases: &'m [(f64, f64)],
    /// Whether the eigenvectors are conjugated after all else.
    pub conjugates: bool,
    /// The columns of C. Others stay as they are.
    pub wanted: Range<usize>,
}

/// One of so many workers.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub worker: usize,
    pub workers: usize,
}

/// Elements of scratch for a matrix of order n, with reflectors up to a width.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// For a batch, once.
    pub shared: usize,
    /// For each worker.
    pub own: usize,
}

impl Room {
    pub fn of<T: Scalar>(n: usize, width: usize) -> Self {
        let kernel = Kernel::of::<T>();
        let most = at_a_time::<T>(kernel, n);
        let strips = Strips::<T>::elements(kernel, n, most);
        // And one strip more.
        let count = factors::panel_columns(kernel, width.max(kernel.sweeps()));
        let products = (most + kernel.units.rows) * count;
        let batch = (3 * n * n / 32).max(BATCH.min(MATRICES * n * n));
        Room {
            shared: batch.max(factors::most_elements(kernel, n, width)),
            own: (strips + products).max(factors::room(kernel, width)),
        }
    }
}

/// Eigenvectors at a time: whole units, because the kernel works on all rows of a unit.
fn at_a_time<T: Scalar>(kernel: Kernel, n: usize) -> usize {
    let most = (ROW_BYTES / size_of::<T>()).min(n);
    (most / kernel.units.rows).max(1) * kernel.units.rows
}

impl<T: Scalar> Back<'_, '_, T> {
    /// A worker's part. All workers call it with the same queue, and `meet` between batches. `columns`
    /// have C^T: one for each row of C.
    ///
    /// # Safety
    /// *Order* (see [`Cells`]): nobody else accesses the shared room or these elements of C^T, or takes
    /// from the queue; nothing writes a reflector; all workers have met before, and do in `meet`.
    pub unsafe fn apply(
        &self,
        columns: &Columns<T>,
        (place, queue): (Place, &Queue),
        shared: Cells<T>,
        own: &mut [T],
        mut meet: impl FnMut() -> Step,
        is_stopped: &dyn Fn() -> bool,
    ) -> Step {
        let n = self.sweeps.order();
        let kernel = Kernel::of::<T>();
        let batches = batch::batches(self.sweeps, self.panels, kernel, shared.rows());
        let last = batches.len() - 1;
        for (number, batch) in batches.iter().enumerate() {
            // SAFETY: the caller's promise. Workers make different factors, and meet after that.
            unsafe { batch.make(self.sweeps, self.panels, kernel, place, shared, own) };
            if place.worker == 0 {
                queue.restart();
            }
            meet()?;
            // SAFETY: the caller's promise. Nobody writes a factor until workers meet again.
            let factors = blas::column(unsafe { shared.read() }, 0);
            let phases = (number == 0).then_some(self.phases);
            let conjugates = number == last && self.conjugates;
            let top = if phases.is_some() || conjugates { 0 } else { batch.top(n) };
            let (height, wanted) = (kernel.units.rows, &self.wanted);
            let (units, most) = (wanted.len().div_ceil(height), at_a_time::<T>(kernel, n) / height);
            // The next barrier would notice a stop, but a batch takes seconds.
            while !is_stopped() {
                let Some(taken) = queue.take(units, most, place.workers) else { break };
                let first = wanted.start + height * taken.start;
                let count = (height * taken.len()).min(wanted.end - first);
                let (memory, products) =
                    own.split_at_mut(Strips::<T>::elements(kernel, n - top, count));
                let mut strips = Strips::new(kernel, top..n, count, memory);
                // SAFETY: the caller's promise: workers take different rows of C^T.
                unsafe { strips.load(columns, first, phases) };
                batch.apply(&mut strips, factors, products);
                // SAFETY: as above.
                unsafe { strips.store(columns, first, conjugates) };
            }
            meet()?;
        }
        Ok(())
    }
}
