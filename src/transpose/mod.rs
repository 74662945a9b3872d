//! Transposition in place: a row-major array becomes its row-major transpose in the same memory.
//!
//! | algorithm | shape                              | sweeps over memory | scratch of each worker       |
//! |-----------|------------------------------------|--------------------|------------------------------|
//! | square    | rows = cols                        | 1                  | none                         |
//! | blocks    | a common divisor d, 512 B and more | 2                  | a bit per d elements, 8 KiB  |
//! | skinny    | a side of 2 to 32                  | 1 or 2             | a panel, 256 KiB at most     |
//! | panel     | any, and scratch that is shared    | 2                  | a chunk                      |
//! | C2R, R2C  | any                                | 2 to 5             | at most max(rows, cols) elements |
//!
//! Squares exchange pairs of tiles across the diagonal. [`Square`] also does this for rows in
//! several parts, such as those of a matrix in shards. Blocks is the gcd-block algorithm. It
//! transposes every d x d block in place. Then it moves the rows of blocks, contiguous segments of
//! d elements, to their places ([`segments`]). The panel algorithm transposes panels of some rows
//! or columns and moves the pieces along chains ([`panels`]). Skinny arrays, such as arrays of
//! structures, use panels, too. There each worker has panels of its own and transposes them in its
//! registers ([`skinny`]).
//!
//! C2R and R2C are the decomposition of Catanzaro, Keller and Garland, "A Decomposition for
//! In-place Matrix Transposition" (PPoPP'14). Equation numbers are theirs. It takes the array as an
//! m x n matrix and permutes columns and rows in turn. That needs max(m, n) elements of scratch and
//! no walk through the whole array:
//!
//! | phase of C2R       | paper            | sweeps over memory                                   |
//! |--------------------|------------------|------------------------------------------------------|
//! | rotate columns     | eq. 23           | fine (only where floor(j/b) changes in a group), coarse |
//! | shuffle rows       | eq. 31           | one, a row at a time on chip                         |
//! | permute columns    | eq. 26 = 32 o 33 | fine rotation; coarse rotation and row permutation in one |
//!
//! R2C runs the inverse phases in reverse order. Coprime sides need no rotation. When a group of
//! columns at least four lines wide fits in scratch, a column phase is one sweep.
//!
//! A [`Plan`] contains the algorithm and the size of its scratch. [`run_units`] does a part of one
//! phase, so callers bring their own threads and barriers. [`device`] lists the launches for a CUDA
//! device.

pub mod chains;
mod choose;
mod columns;
pub mod copies;
mod cycles;
pub mod device;
pub mod divide;
pub mod fine;
#[cfg(target_arch = "x86_64")]
pub mod kernels;
pub mod maps;
pub mod memory;
mod panel_units;
pub mod panels;
mod plan;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
mod registers;
mod rows;
pub mod segments;
pub mod skinny;
pub mod square;
mod structures;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only these machines have kernels
pub mod tables;
pub mod tiles;
pub mod turns;
pub mod vector;

#[cfg(feature = "internals")]
pub use plan::Algorithm;
pub use plan::Plan;
pub use square::Square;

use bytemuck::NoUninit;
use plan::{Phase, Work};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::Builder;

/// Does some units of one phase.
///
/// Units of a phase may run at the same time on different threads, each with scratch of its own.
/// All units of a phase must be complete before any of the next one begins.
///
/// # Safety
/// `data` points to rows * cols initialised elements of the plan's element size, at any alignment.
/// Only units of this phase use them meanwhile. Every unit of every phase runs once. `scratch`
/// points to `plan.scratch_bytes()` bytes that no other thread uses. `shared` points to
/// `plan.shared_bytes()` bytes that only the workers use, from the first phase to the last. The
/// units are within `plan.units(phase)`.
pub unsafe fn run_units(
    plan: &Plan,
    phase: usize,
    units: Range<usize>,
    data: *mut u8,
    scratch: *mut u8,
    shared: *mut u8,
) {
    // SAFETY: the caller keeps the contract of `run_sized`.
    unsafe {
        match plan.element_size() {
            4 => run_sized::<4>(plan, phase, units, data, scratch, shared),
            8 => run_sized::<8>(plan, phase, units, data, scratch, shared),
            _ => run_sized::<16>(plan, phase, units, data, scratch, shared),
        }
    }
}

/// # Safety
/// As for [`run_units`]; S is the element size of the plan.
unsafe fn run_sized<const S: usize>(
    plan: &Plan,
    phase: usize,
    units: Range<usize>,
    data: *mut u8,
    scratch: *mut u8,
    shared: *mut u8,
) {
    match (plan.phase(phase), plan.work()) {
        // SAFETY: the contract of `run_units`.
        (Phase::Tiles, Work::Blocks(blocks, _)) => unsafe {
            square::run::<S>(blocks, units, data);
        },
        // SAFETY: the contract of `run_units`.
        (Phase::Segments, Work::Blocks(_, segments)) => unsafe {
            segments::run(segments, S, units, data, scratch);
        },
        (Phase::Panels, Work::Panels(panels)) => {
            let memory = panels::PanelArray::<S> { panels: *panels, data, shared };
            // SAFETY: the contract of `run_units`.
            unsafe { memory.run(phase, units, scratch) };
        }
        (Phase::Skinny, Work::Skinny(skinny)) => {
            let memory = structures::StructureArray::<S> { skinny: *skinny, data, shared };
            // SAFETY: the contract of `run_units`.
            unsafe { memory.run(phase, units, scratch) };
        }
        // SAFETY: the contract of `run_units`.
        (Phase::Rows, Work::Decomposition(work)) => unsafe {
            rows::shuffle::<S>(&work.maps, work.forward, units, data, scratch);
        },
        (Phase::Columns(step), Work::Decomposition(work)) => {
            for unit in units {
                let (column, step) = (unit * work.tiling.width, (step, work.forward));
                // SAFETY: the contract of `run_units`; units are disjoint groups of columns.
                unsafe { columns::run::<S>(&work.maps, work.tiling, step, column, data, scratch) };
            }
        }
        _ => unreachable!("a phase of another algorithm"),
    }
}

/// The addresses of the array and of the shared scratch, for several threads.
#[derive(Clone, Copy)]
struct Shared(*mut u8, *mut u8);
// SAFETY: the threads of `transpose_in_place` write disjoint parts of the array between barriers.
unsafe impl Send for Shared {}

/// Transposes a row-major `rows` x `cols` array in place, to row-major cols x rows. It uses
/// `threads` threads and the scratch of [`Plan::new`] for each.
///
/// Panics unless elements have 4, 8 or 16 bytes, `data` holds rows * cols of them, and there is at
/// least one thread.
pub fn transpose_in_place<T: NoUninit + Send>(
    data: &mut [T],
    rows: usize,
    cols: usize,
    threads: usize,
) {
    let size = size_of::<T>();
    assert!(matches!(size, 4 | 8 | 16), "elements must have 4, 8 or 16 bytes, not {size}");
    let plan = Plan::new(rows, cols, size);
    transpose_with(&plan, data, threads);
}

/// As [`transpose_in_place`], with a given plan.
pub fn transpose_with<T: NoUninit + Send>(plan: &Plan, data: &mut [T], threads: usize) {
    assert!(size_of::<T>() == plan.element_size(), "a plan for other elements");
    let (rows, cols, len) = (plan.rows(), plan.cols(), data.len());
    assert!(rows * cols == len, "{rows} x {cols} is not {len} elements");
    assert!(threads > 0, "at least one thread");
    let mut common = vec![MaybeUninit::<u8>::uninit(); plan.shared_bytes()];
    let shared = Shared(data.as_mut_ptr().cast(), common.as_mut_ptr().cast());
    let work = move |worker: usize, workers: usize, barrier: &Barrier| {
        let Shared(data, common) = { shared };
        let mut scratch = vec![MaybeUninit::<u8>::uninit(); plan.scratch_bytes()];
        for phase in 0..plan.phases() {
            let units = plan.units(phase) as u128;
            let share = |worker: usize| (units * worker as u128 / workers as u128) as usize;
            let mine = share(worker)..share(worker + 1);
            // SAFETY: `data` is borrowed exclusively. Workers have disjoint units of a phase, each
            // unit has a worker, and the barrier separates phases.
            unsafe { run_units(plan, phase, mine, data, scratch.as_mut_ptr().cast(), common) };
            barrier.wait();
        }
    };
    std::thread::scope(|scope| {
        // All threads start before any waits for another, so their number is known.
        let start = |_| {
            let (to, from) = channel::<(usize, usize, Arc<Barrier>)>();
            let run =
                move || from.recv().map_or((), |(worker, workers, b)| work(worker, workers, &b));
            Builder::new().spawn_scoped(scope, run).ok().map(|_| to)
        };
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let workers = others.len() + 1;
        let barrier = Arc::new(Barrier::new(workers));
        for (k, other) in others.iter().enumerate() {
            other.send((k + 1, workers, barrier.clone())).expect("the thread waits for this");
        }
        work(0, workers, &barrier);
    });
}
