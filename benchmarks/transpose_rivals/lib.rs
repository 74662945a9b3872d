//! The C interface to all that benchmarks/transpose.py measures in one process: this
//! transposition in place, that of the `transpose` crate, one into a second array ([`out_of_place`]),
//! and copies ([`copies`]). Arrays are addresses, elements have 4, 8 or 16 bytes.

mod copies;
mod elements;
mod out_of_place;
mod threads;

use elements::{Element, with_elements};
use meshsolve::transpose::{Algorithm, Plan, Square, transpose_with};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use threads::shared_out;

/// What `Plan` is asked for; rivals.py has the same numbers.
const CHOSEN: u32 = 0;
const C2R: u32 = 1;
const R2C: u32 = 2;
const SHARED_SCRATCH: u32 = 3;

/// The plan, if there is one; with shared scratch, if that makes a difference.
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

/// Writes what the plan says of itself to `text`, at most `capacity` bytes, zero included. Returns the
/// scratch that `threads` threads take, in bytes, or -1 if there is no such plan.
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
    // SAFETY: promised by the caller.
    let text = unsafe { from_raw_parts_mut(text, capacity) };
    let says = plan.to_string();
    let length = says.len().min(capacity - 1);
    text[..length].copy_from_slice(&says.as_bytes()[..length]);
    text[length] = 0;
    (plan.scratch_bytes() * threads + plan.shared_bytes()) as isize
}

/// Transposes in place.
///
/// # Safety
/// `data` points to rows * cols aligned elements that nobody else uses. There is such a plan.
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
        // SAFETY: promised by the caller.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), rows * cols) };
        transpose_with(&plan, data, threads);
    });
}

/// Transposes an n x n array whose rows lie in `parts` places, here one after the other.
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
        // SAFETY: promised by the caller; every unit runs once.
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
        // SAFETY: promised by the caller.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), rows * cols) };
        let mut scratch = vec![E::from_index(0); rows.max(cols)];
        transpose::transpose_inplace(data, &mut scratch, cols, rows);
    });
}

/// Writes the transpose of rows * cols elements at `from` to `to`.
///
/// # Safety
/// Two arrays of rows * cols aligned elements that do not overlap and nobody else uses.
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
        // SAFETY: promised by the caller.
        let from = unsafe { from_raw_parts(from.cast::<E>(), rows * cols) };
        // SAFETY: promised by the caller.
        unsafe { out_of_place::transpose(from, to.cast::<E>(), (rows, cols), threads, streaming) };
    });
}

/// Copies memory.
///
/// # Safety
/// Two arrays of so many bytes that do not overlap and nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_copy(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    threads: usize,
    streaming: bool,
) {
    // SAFETY: promised by the caller.
    let (from, to) = unsafe { (from_raw_parts(from, bytes), from_raw_parts_mut(to, bytes)) };
    copies::copy(from, to, threads, streaming);
}

/// Makes every element tell its own index.
///
/// # Safety
/// `data` points to `count` aligned elements that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_fill(data: *mut u8, count: usize, size: usize, threads: usize) {
    with_elements!(size, E => {
        // SAFETY: promised by the caller.
        let data = unsafe { from_raw_parts_mut(data.cast::<E>(), count) };
        elements::fill(data, threads);
    });
}

/// How many elements are not where the transposition of a rows x cols array that was filled has to bring
/// them.
///
/// # Safety
/// `data` points to rows * cols aligned elements that nobody changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rivals_misplaced(
    data: *const u8,
    rows: usize,
    cols: usize,
    size: usize,
    threads: usize,
) -> usize {
    with_elements!(size, E => {
        // SAFETY: promised by the caller.
        let data = unsafe { from_raw_parts(data.cast::<E>(), rows * cols) };
        elements::misplaced(data, (rows, cols), threads)
    })
}
