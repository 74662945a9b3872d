//! The row shuffle: every row is permuted within itself, through a copy of it on chip (section
//! 4.5).
//!
//! [`Maps`] explains the order of the elements. C2R transposes each stretch of c x b to b x c, R2C
//! does the reverse. One of the two indices of the source advances by a constant modulo b. For
//! b = 1 the shuffle is a rotation of the row.

use super::maps::{Maps, Stretch};
use super::memory::Element;
use std::ops::Range;

/// The move of a stretch: `out[l*out_l + s*out_s] <- row[l*row_l + x(s)*row_s]` for all l < count
/// and s < b, where x(s) = (start + s*step) mod b.
struct Weave {
    out_l: usize,
    out_s: usize,
    row_l: usize,
    row_s: usize,
    count: usize,
    b: usize,
    start: usize,
    step: usize,
}

/// Shuffles rows in place; `scratch` holds one row.
///
/// # Safety
/// `data` is an m x n array of elements of S bytes. No other thread uses the rows in `rows`
/// meanwhile.
pub unsafe fn shuffle<const S: usize>(
    maps: &Maps,
    forward: bool,
    rows: Range<usize>,
    data: *mut u8,
    scratch: *mut u8,
) {
    let n = maps.n;
    let mut state = maps.row(rows.start);
    for i in rows {
        // SAFETY: row i is within the array.
        let row = unsafe { data.add(i * n * S) }.cast::<Element<S>>();
        let scratch = scratch.cast::<Element<S>>();
        if maps.b == 1 {
            let right = if forward { state.shift } else { (n - state.shift) % n };
            // SAFETY: only this thread uses the n elements of the row; scratch holds as many.
            unsafe { rotate_right(row, n, right, scratch) };
        } else {
            // SAFETY: the n elements of the row and of scratch, which do not overlap.
            unsafe { scratch.copy_from_nonoverlapping(row, n) };
            for stretch in state.stretches().into_iter().filter(|s| s.count > 0) {
                // SAFETY: both sides of `weave` stay within a row.
                unsafe { weave_stretch(maps, forward, &stretch, row, scratch) };
            }
        }
        state.advance();
    }
}

/// # Safety
/// `out` and `row` hold n elements each and do not overlap.
unsafe fn weave_stretch<const S: usize>(
    maps: &Maps,
    forward: bool,
    stretch: &Stretch,
    out: *mut Element<S>,
    row: *const Element<S>,
) {
    let Maps { b, c, a, a_inverse, .. } = *maps;
    let Stretch { first, count, target, v } = *stretch;
    // Column l*b + h and column v*c + r with r = target + l - first; l counts from `first` on.
    if forward {
        let (start, step) = (super::maps::multiply(b - v, a_inverse, b), a_inverse);
        let w = Weave { out_l: 1, out_s: c, row_l: b, row_s: 1, count, b, start, step };
        // SAFETY: out: target + l + s*c < b*c = n; row: (first + l)*b + x < c*b.
        unsafe { weave(&w, out.add(target), row.add(first * b)) };
    } else {
        let w = Weave { out_l: b, out_s: 1, row_l: 1, row_s: c, count, b, start: v, step: a % b };
        // SAFETY: the same two bounds with the sides exchanged.
        unsafe { weave(&w, out.add(first * b), row.add(target)) };
    }
}

/// # Safety
/// All indices are within the two arrays, which do not overlap.
#[inline(always)]
unsafe fn weave<const S: usize>(w: &Weave, out: *mut Element<S>, row: *const Element<S>) {
    let advance = |x: usize, by: usize| if x + by >= w.b { x + by - w.b } else { x + by };
    if w.count >= w.b {
        let mut x = w.start;
        for s in 0..w.b {
            for l in 0..w.count {
                // SAFETY: the caller promises indices within both arrays.
                unsafe {
                    *out.add(l * w.out_l + s * w.out_s) = *row.add(l * w.row_l + x * w.row_s);
                }
            }
            x = advance(x, w.step);
        }
        return;
    }
    // Four indices take four steps at once. An addition modulo b takes three cycles, so a single
    // index would wait for the addition before.
    let second = advance(w.start, w.step);
    let third = advance(second, w.step);
    let lanes = [w.start, second, third, advance(third, w.step)];
    let two = advance(w.step, w.step);
    let four = advance(two, two);
    for l in 0..w.count {
        // SAFETY: the caller promises indices within both arrays, here and below.
        let (out, row) = unsafe { (out.add(l * w.out_l), row.add(l * w.row_l)) };
        let mut x = lanes;
        let whole = w.b - w.b % 4;
        for s in (0..whole).step_by(4) {
            for (k, x) in x.iter_mut().enumerate() {
                // SAFETY: s + k < b.
                unsafe { *out.add((s + k) * w.out_s) = *row.add(*x * w.row_s) };
                *x = advance(*x, four);
            }
        }
        for (s, x) in (whole..w.b).zip(x) {
            // SAFETY: s < b.
            unsafe { *out.add(s * w.out_s) = *row.add(x * w.row_s) };
        }
    }
}

/// Moves every element `right` places to the right, modulo n; keeps the smaller part in scratch.
///
/// # Safety
/// `row` and `scratch` hold n elements each and do not overlap; right < n.
unsafe fn rotate_right<const S: usize>(
    row: *mut Element<S>,
    n: usize,
    right: usize,
    scratch: *mut Element<S>,
) {
    let left = n - right;
    if right == 0 {
        return;
    }
    // SAFETY: left + right = n, so every range is within the row.
    unsafe {
        if right <= left {
            scratch.copy_from_nonoverlapping(row.add(left), right);
            row.add(right).copy_from(row, left);
            row.copy_from_nonoverlapping(scratch, right);
        } else {
            scratch.copy_from_nonoverlapping(row, left);
            row.copy_from(row.add(left), right);
            row.add(right).copy_from_nonoverlapping(scratch, left);
        }
    }
}
