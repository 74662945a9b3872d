//! Packing of a factor of a product.

use faer::reborrow::ReborrowMut;
use faer::{MatMut, MatRef};

use crate::device::cpu::blas;
use crate::scalar::Scalar;
use crate::transpose::memory::prefetch_lines;

/// Runs `$function` with the bytes of a unit as a constant, or 0. With a size that the compiler knows,
/// a copy is some moves instead of a call.
macro_rules! with_bytes {
    ($function:ident::<$T:ident>($unit:expr, $($argument:expr),*)) => {
        match $unit * size_of::<$T>() {
            24 => $function::<$T, 24>($unit, $($argument),*),
            32 => $function::<$T, 32>($unit, $($argument),*),
            48 => $function::<$T, 48>($unit, $($argument),*),
            64 => $function::<$T, 64>($unit, $($argument),*),
            192 => $function::<$T, 192>($unit, $($argument),*),
            _ => $function::<$T, 0>($unit, $($argument),*),
        }
    };
}

/// A factor in units: element p of all lines of the first unit for each p, then the next unit.
pub struct Packed<'a, T> {
    elements: &'a [T],
    unit: usize,
    lines: usize,
    depth: usize,
}

impl<'a, T: Scalar> Packed<'a, T> {
    /// Elements of a packed factor.
    pub fn elements(unit: usize, lines: usize, depth: usize) -> usize {
        lines.next_multiple_of(unit) * depth
    }

    /// Packs the rows of a left factor, or of the transpose of a right one, into the first elements
    /// of `memory`.
    pub fn new(rows: MatRef<T>, conjugated: bool, unit: usize, memory: &'a mut [T]) -> Self {
        Self::of_parts([rows], conjugated, unit, memory)
    }

    /// The same of matrices with equally many rows, side by side.
    pub fn of_parts<const N: usize>(
        parts: [MatRef<T>; N],
        conjugated: bool,
        unit: usize,
        memory: &'a mut [T],
    ) -> Self {
        let lines = parts[0].nrows();
        let depth = parts.iter().map(|part| part.ncols()).sum();
        let memory = &mut memory[..Self::elements(unit, lines, depth)];
        let whole = lines / unit * unit;
        if depth > 0 && whole < lines {
            memory[whole * depth..].fill(T::ZERO);
        }
        let mut first = 0;
        for part in parts {
            assert_eq!(part.nrows(), lines, "rows of a part");
            let to = Destination { unit, depth, first };
            match part.row_stride() {
                1 if !(conjugated && T::IS_COMPLEX) => {
                    with_bytes!(along_lines::<T>(unit, part, to, memory));
                }
                _ => along_depth(part, conjugated, to, memory),
            }
            first += part.ncols();
        }
        Packed { elements: memory, unit, lines, depth }
    }

    /// A factor that is packed in the first elements of `memory`.
    pub fn of(memory: &'a [T], unit: usize, lines: usize, depth: usize) -> Self {
        Packed { elements: &memory[..Self::elements(unit, lines, depth)], unit, lines, depth }
    }

    pub fn unit(&self) -> usize {
        self.unit
    }

    pub fn lines(&self) -> usize {
        self.lines
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    /// All units.
    pub fn all(&self) -> &'a [T] {
        self.elements
    }

    /// The unit that begins with a line.
    pub fn unit_from(&self, line: usize) -> &'a [T] {
        &self.elements[line * self.depth..][..self.unit * self.depth]
    }

    pub fn units(&self) -> impl Iterator<Item = &'a [T]> {
        self.elements.chunks_exact((self.unit * self.depth).max(1))
    }
}

/// Copies a unit of BYTES bytes, or of any number if that is 0.
fn copy_unit<T: Scalar, const BYTES: usize>(from: &[T], to: &mut [T]) {
    if BYTES == 0 {
        return to.copy_from_slice(from);
    }
    assert!(size_of_val(from) == BYTES && size_of_val(to) == BYTES, "bytes of a unit");
    let (from, to) = (from.as_ptr().cast::<[u8; BYTES]>(), to.as_mut_ptr().cast::<[u8; BYTES]>());
    // SAFETY: both have BYTES bytes, as just seen.
    unsafe { to.write_unaligned(from.read_unaligned()) };
}

/// Copies a unit without a call for it.
pub fn copy_lines<T: Scalar>(from: &[T], to: &mut [T]) {
    let unit = from.len();
    with_bytes!(copy_some::<T>(unit, from, to));
}

fn copy_some<T: Scalar, const BYTES: usize>(_: usize, from: &[T], to: &mut [T]) {
    copy_unit::<T, BYTES>(from, to);
}

/// Columns from the one that is packed to the one that is prefetched. A block of a column is too short
/// for the processor's own prefetches.
const AHEAD: usize = 4;

/// Where columns of a packed factor go: from column `first` of `depth` on.
#[derive(Clone, Copy)]
struct Destination {
    unit: usize,
    depth: usize,
    first: usize,
}

/// Packs rows that are next to each other: a column at a time.
fn along_lines<T: Scalar, const BYTES: usize>(
    unit: usize,
    rows: MatRef<T>,
    Destination { depth, first, .. }: Destination,
    memory: &mut [T],
) {
    let ahead = AHEAD as isize * rows.col_stride();
    for p in 0..rows.ncols() {
        let units = blas::column(rows, p).chunks_exact(unit);
        let rest = units.remainder();
        let mut at = (first + p) * unit;
        for from in units {
            let later = from.as_ptr().wrapping_offset(ahead).cast::<u8>();
            prefetch_lines(later, size_of_val(from));
            copy_unit::<T, BYTES>(from, &mut memory[at..at + unit]);
            at += unit * depth;
        }
        if !rest.is_empty() {
            memory[at..at + rest.len()].copy_from_slice(rest);
        }
    }
}

/// Elements of a line that are copied at a time. Where they follow each other they are one or two lines
/// of the cache, which is then read once: lines a power of two apart share few sets.
const RUN: usize = 8;

/// Visits the elements of `own` lines by runs: their step of the depth, and their line.
#[inline(always)]
fn by_runs(own: usize, depth: usize, mut visit: impl FnMut(usize, usize)) {
    let whole = depth / RUN * RUN;
    for from in (0..whole).step_by(RUN) {
        for line in 0..own {
            for p in from..from + RUN {
                visit(p, line);
            }
        }
    }
    for line in 0..own {
        (whole..depth).for_each(|p| visit(p, line));
    }
}

/// Packs rows of any strides, a unit at a time.
fn along_depth<T: Scalar>(
    rows: MatRef<T>,
    conjugated: bool,
    Destination { unit, depth, first: column }: Destination,
    memory: &mut [T],
) {
    let (lines, columns) = rows.shape();
    let (stride, step) = (rows.row_stride(), rows.col_stride());
    for (memory, first) in
        memory.chunks_exact_mut((unit * depth).max(1)).zip((0..lines).step_by(unit))
    {
        let own = unit.min(lines - first);
        let top = rows.as_ptr().wrapping_offset(first as isize * stride);
        let to = memory[column * unit..].as_mut_ptr();
        by_runs(own, columns, |p, line| {
            let from = top.wrapping_offset(line as isize * stride + p as isize * step);
            // SAFETY: `line` is in this unit and p below the depth, so both elements are there.
            unsafe {
                let x = *from;
                to.add(p * unit + line).write(if conjugated { T::conj_impl(&x) } else { x });
            }
        });
    }
}

/// Writes packed lines back to the rows of `rows`.
pub fn unpack<T: Scalar>(memory: &[T], unit: usize, rows: MatMut<T>) {
    if rows.row_stride() == 1 {
        with_bytes!(back_along_lines::<T>(unit, rows, memory));
    } else {
        back_along_depth(rows, unit, memory);
    }
}

fn back_along_lines<T: Scalar, const BYTES: usize>(unit: usize, mut rows: MatMut<T>, memory: &[T]) {
    let depth = rows.ncols();
    for p in 0..depth {
        let mut units = blas::column_mut(rows.rb_mut(), p).chunks_exact_mut(unit);
        let mut at = p * unit;
        for to in &mut units {
            copy_unit::<T, BYTES>(&memory[at..at + unit], to);
            at += unit * depth;
        }
        let rest = units.into_remainder();
        if !rest.is_empty() {
            rest.copy_from_slice(&memory[at..at + rest.len()]);
        }
    }
}

fn back_along_depth<T: Scalar>(rows: MatMut<T>, unit: usize, memory: &[T]) {
    let (lines, depth) = rows.shape();
    let (stride, step) = (rows.row_stride(), rows.col_stride());
    for (memory, first) in memory.chunks_exact(unit * depth).zip((0..lines).step_by(unit)) {
        let own = unit.min(lines - first);
        let top = rows.as_ptr_mut().wrapping_offset(first as isize * stride);
        by_runs(own, depth, |p, line| {
            let to = top.wrapping_offset(line as isize * stride + p as isize * step);
            // SAFETY: `line` is in this unit and p below the depth, so both elements are there.
            unsafe { *to = *memory.as_ptr().add(p * unit + line) };
        });
    }
}
