//! The C interface to all measurements of benchmarks/transpose.py in one process. They are this
//! transposition in place, that of the `transpose` crate, one into a second array
//! ([`out_of_place`]), and copies ([`copies`]). Arrays are addresses, elements have 4, 8 or 16
//! bytes.

mod copies;
mod elements;
mod out_of_place;
mod threads;

use elements::{Element, with_elements};
use meshsolve::transpose::{Algorithm, Plan, Square, transpose_with};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use threads::shared_out;

/// Requests for `Plan`; rivals.py has the same numbers.
const CHOSEN: u32 = 0;
const C2R: u32 = 1;
const R2C: u32 = 2;
const SHARED_SCRATCH: u32 = 3;

/// The plan, if it exists; with shared scratch, only if that changes the algorithm.
fn plan(how: u32, rows: usize, cols: usize, size: usize) -> Option<Plan> {
    let chosen = Plan::new(rows, cols, size);
    match how {
        CHOSEN => Some(chosen),
        C2R => Some(Plan::forced(Algorithm::C2r, rows, cols, size)),
        R2C => Some(Plan::forced(Algorithm::R2c, rows, cols, size)),
        SHARED_SCRATCH => Plan::offered(rows, cols, size, usize::MAX, usize::MAX)
            .filter(|plan| plan.algorithm() != chosen.algorithm()),
        _ => None,
    }
}

/// Writes the plan's description to `text`, at most `capacity` bytes, zero included. Returns the
/// scratch of `threads` threads in bytes, or -1 if no such plan exists.
///
/// # Safety
/// `text` points to `capacity` > 0 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_plan(
    how: u32,
    rows: usize,
    cols: usize,
    size: usize,
    threads: usize,
    text: *mut u8,
    capacity: usize,
) -> isize {
    let Some(plan) = plan(how, rows, cols, size) else { return -1 };
    // SAFETY: the caller promises `capacity` bytes at `text`.
    let text = unsafe { from_raw_parts_mut(text, capacity) };
    let says = plan.to_string();
    let length = says.len().min(capacity - 1);
    text[..length].copy_from_slice(&says.as_bytes()[..length]);
    text[length] = 0;
    (plan.scratch_bytes() * threads + plan.shared_bytes()) as isize
}

/// Transposes in place. Panics if the plan does not exist.
///
/// # Safety
/// `data` points to rows * cols aligned elements that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_transpose(
    how: u32,
    data: *mut u8,
    rows: usize,
    cols: usize,
    size: usize,
    threads: usize,
) {
    let plan = plan(how, rows, cols, size).expect("a plan");
    with_elements!(size, E => {
        // SAFETY: the caller promises rows * cols aligned elements that no other thread uses.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), rows * cols) };
        transpose_with(&plan, data, threads);
    });
}

/// Transposes an n x n array whose rows are in `parts` places, here consecutive.
///
/// # Safety
/// As for [`rivals_transpose`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_transpose_square(
    data: *mut u8,
    n: usize,
    parts: usize,
    size: usize,
    threads: usize,
) {
    let square = Square::new(n, parts, size);
    let base = data.expose_provenance();
    let part = |p: usize| std::ptr::with_exposed_provenance_mut(base + p * (n / parts) * n * size);
    shared_out(threads::parts(square.units(), threads), |units| {
        // SAFETY: the caller promises n * n elements that no other thread uses; every unit runs
        // once.
        unsafe { square.run(units, part) };
    });
}

/// Transposes in place as the `transpose` crate does, with its scratch of max(rows, cols) elements.
///
/// # Safety
/// As for [`rivals_transpose`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_transpose_crate(
    data: *mut u8,
    rows: usize,
    cols: usize,
    size: usize,
) {
    with_elements!(size, E => {
        // SAFETY: the caller promises rows * cols aligned elements that no other thread uses.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), rows * cols) };
        let mut scratch = vec![E::from_index(0); rows.max(cols)];
        transpose::transpose_inplace(data, &mut scratch, cols, rows);
    });
}

/// Writes the transpose of rows * cols elements at `from` to `to`.
///
/// # Safety
/// Two disjoint arrays of rows * cols aligned elements that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_out_of_place(
    from: *const u8,
    to: *mut u8,
    rows: usize,
    cols: usize,
    size: usize,
    threads: usize,
    streaming: bool,
) {
    with_elements!(size, E => {
        // SAFETY: the caller promises rows * cols aligned elements.
        let from = unsafe { from_raw_parts(from.cast::<E>(), rows * cols) };
        // SAFETY: the caller promises a second array of this size, disjoint from the first and
        // unused.
        unsafe { out_of_place::transpose(from, to.cast::<E>(), (rows, cols), threads, streaming) };
    });
}

/// Copies memory.
///
/// # Safety
/// Two disjoint arrays of `bytes` bytes that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_copy(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    threads: usize,
    streaming: bool,
) {
    // SAFETY: the caller promises two disjoint arrays of `bytes` bytes that no other thread uses.
    let (from, to) = unsafe { (from_raw_parts(from, bytes), from_raw_parts_mut(to, bytes)) };
    copies::copy(from, to, threads, streaming);
}

/// Writes its index to every element.
///
/// # Safety
/// `data` points to `count` aligned elements that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_fill(data: *mut u8, count: usize, size: usize, threads: usize) {
    with_elements!(size, E => {
        // SAFETY: the caller promises `count` aligned elements that no other thread uses.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), count) };
        elements::fill(data, threads);
    });
}

/// The number of elements in a wrong place after the transposition of a filled rows x cols array.
///
/// # Safety
/// `data` points to rows * cols aligned elements that no thread changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_misplaced(
    data: *const u8,
    rows: usize,
    cols: usize,
    size: usize,
    threads: usize,
) -> usize {
    with_elements!(size, E => {
        // SAFETY: the caller promises rows * cols aligned elements that no thread changes.
        let data = unsafe { from_raw_parts(data.cast::<E>(), rows * cols) };
        elements::misplaced(data, (rows, cols), threads)
    })
}
